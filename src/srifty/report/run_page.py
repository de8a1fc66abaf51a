"""The page of a run, while it goes on and when it has ended."""

from __future__ import annotations

from srifty import __version__
from srifty.report.happenings import decisions_table, happenings_table
from srifty.report.money_left import money_left_figure
from srifty.report.outcome_figure import outcome_figure
from srifty.report.pace_figure import pace_figure
from srifty.report.page import Tile, gauge, render
from srifty.report.quantities import count, dollars, duration, hourly, rate, share
from srifty.report.run_canvas import Story
from srifty.report.vms_figure import bill_table, vms_figure
from srifty.report.work_figure import iterations_figure

_RUNNING = ("running", "without a controller")
_LEADS = {
    "running": "Running",
    "without a controller": "No controller is at work",
    "finished": "Finished",
    "unfinished": "Ended without finishing",
    "refused": "The cloud refused",
    "money": "Stopped: the money was spent",
    "stopped": "Stopped as asked",
}


def run_page(story: Story, *, nonce: str = "") -> str:
    """Returns the page of a run.

    Args:
        story: what `srifty.control.history.story` returned.
        nonce: lets the page's script run, which looks for news each second; empty: no script.
    """
    has_ended = story["state"] not in _RUNNING
    return render(
        "run.html",
        nonce=nonce,
        title=f"{story['run']}: {story['state']}",
        run=story["run"],
        backend=story["backend"],
        answer=_answer(story),
        lead=_lead(story),
        is_good=story["state"] in ("running", "finished"),
        config=story["config"],
        trains="Trained last on" if has_ended else "Trains on",
        tile_list=_tiles(story),
        outcome=outcome_figure(story, has_ended=has_ended),
        work=iterations_figure(story),
        money=money_left_figure(story),
        pace=pace_figure(story),
        vms=vms_figure(story),
        happenings=happenings_table(story),
        decisions=decisions_table(story),
        bill=bill_table(story),
        version=__version__,
    )


def _answer(story: Story) -> str:
    lead = _LEADS.get(story["state"], str(story["state"]).capitalize())
    total = story["iterations"]
    of_all = f" of {total:,}" if total else ""
    return (
        f"{lead}: {story['iteration']:,.0f}{of_all} iterations in "
        f"{duration(story['at_s']).text} for {dollars(story['spent_usd_total']).text} in total."
    )


def _lead(story: Story) -> str:
    """Returns why it ended, or when it will."""
    if story["message"]:
        return f"{story['message']}{_lateness(story)}"
    pace, total = story["iterations_per_s"], story["iterations"]
    if story["state"] == "without a controller":
        return f"Go on with it: srifty resume {story['run']}"
    if not pace or not total:
        return "No step has been made yet." if not story["iteration"] else ""
    left_s = (total - story["iteration"]) / pace
    words = f"At this pace it ends in {duration(left_s).text}"
    if story["deadline_s"] is None:
        return f"{words}."
    spare_s = story["deadline_s"] - story["at_s"] - left_s
    side = "before" if spare_s >= 0 else "AFTER"
    return f"{words}, {duration(abs(spare_s)).text} {side} the deadline."


def _lateness(story: Story) -> str:
    """Returns by how much a finished run kept, or missed, its deadline."""
    if story["state"] != "finished" or story["deadline_s"] is None:
        return ""
    spare_s = story["deadline_s"] - story["at_s"]
    words = "before" if spare_s >= 0 else "AFTER"
    return f" It ended {duration(abs(spare_s)).text} {words} the deadline."


def _tiles(story: Story) -> tuple[Tile, ...]:
    total, done = story["iterations"], story["iteration"]
    forecast = story["forecasts"][0] if story["forecasts"] else None
    time_s = forecast["time_s"]["mean"] if forecast else None
    cost_usd = forecast["cost_usd"]["mean"] if forecast else None
    paces = story["history"]["pace"]
    bound = paces[-1]["bound"] if paces else None
    mean_s = forecast["iteration_s"]["mean"] if forecast else None
    deadline_s, cap_usd = story["deadline_s"], story["cap_usd"]
    saved = count(story["durable_iteration"], "durable_iteration")
    return (
        Tile(
            "Iterations",
            count(done, "iteration"),
            (
                *(((share(done / total), f" of {total:,}"),) if total else ()),
                (saved, " of them saved"),
            ),
            gauge(story["durable_iteration"], done, total, "iterations saved and done")
            if total and done <= total
            else gauge(None, None, None, ""),
        ),
        Tile(
            "Time since the command",
            duration(story["at_s"], "at_s"),
            (
                *(
                    (("forecast ", duration(time_s, "forecasts.0.time_s.mean")),)
                    if forecast
                    else ()
                ),
                *((("limit ", duration(deadline_s, "deadline_s")),) if deadline_s else ()),
            ),
            gauge(story["at_s"], None, deadline_s, "time against the deadline"),
        ),
        Tile(
            "Spent in total",
            dollars(story["spent_usd_total"], "spent_usd_total"),
            (
                *(
                    (("forecast ", dollars(cost_usd, "forecasts.0.cost_usd.mean")),)
                    if forecast
                    else ()
                ),
                *((("limit ", dollars(cap_usd, "cap_usd")),) if cap_usd else ()),
                (hourly(story["usd_per_hour"], "usd_per_hour"), " now"),
            ),
            gauge(story["spent_usd_total"], None, cap_usd, "money against the limit"),
        ),
        Tile(
            "Iterations per second",
            rate(story["iterations_per_s"], "iterations_per_s", ""),
            (
                *(
                    (("at best ", rate(bound, f"history.pace.{len(paces) - 1}.bound", "")),)
                    if paces
                    else ()
                ),
                *((("forecast ", rate(1 / mean_s, unit="")),) if mean_s else ()),
            ),
        ),
    )
