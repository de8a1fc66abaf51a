"""The VMs of a run: when each ran, and the bill."""

from __future__ import annotations

from srifty.report.axis import Axis
from srifty.report.drawing import Drawing
from srifty.report.layout import both
from srifty.report.quantities import dollars, duration, hourly, moment
from srifty.report.run_canvas import Story, canvas, frame
from srifty.report.table import Figure, Key, Row, Table, columns

# VMs that a drawing can show below each other.
_MOST_VMS = 40
# Lines of a bill that a page has room for; the rest is summed up.
_MOST_LINES = 100


def vms_figure(story: Story) -> Figure | None:
    """Returns which VM ran when; None where none did."""
    rentals = [one for one in story["history"]["rentals"] if one["running_s"] is not None]
    if not rentals:
        return None
    pools = {vm["vm"]: vm["pool"] for vm in story["vms"]}
    shown = rentals[:_MOST_VMS]
    kinds = list(dict.fromkeys(pools.get(one["vm"], "") for one in shown))
    tones = dict(zip(kinds, ("first", "second", "third", "fourth"), strict=False))

    def draw(width: float) -> Drawing:
        row = 22.0
        height = row * len(shown) + 76
        drawing, x = canvas(story, width, "VMs over time", height=height)
        bottom = Axis(0.0, 1.0, height - 46, 24.0, ())
        frame(drawing, story, x, bottom, "")
        for index, one in enumerate(shown):
            top = 26 + index * row
            stopped_s = story["at_s"] if one["stopped_s"] is None else one["stopped_s"]
            left, right = x.at(one["running_s"]), x.at(stopped_s)
            drawing.text(x.start - 8, top + 13, one["vm"], anchor="end", style="tick")
            tone = tones.get(pools.get(one["vm"], ""), "soft")
            title = f"{one['vm']}: {duration(stopped_s - one['running_s']).text}"
            drawing.box(left, top + 3, max(right - left, 1.5), 13, f"fill-{tone}", title)
            if one["taken_back"]:
                drawing.diamond((right, top + 9.5), 6.5, "fill-bad", "taken back")
        return drawing

    wide, narrow = both(draw)
    keys = [Key("box", tone, kind) for kind, tone in tones.items()]
    if len(kinds) > len(tones):
        keys.append(Key("box", "soft", "other pools"))
    if any(one["taken_back"] for one in rentals):
        keys.append(Key("diamond", "bad", "taken back"))
    left_out = len(rentals) - len(shown)
    more = f" {left_out} more ran than are drawn." if left_out else ""
    caption = f"When each VM ran and was billed.{more}"
    return Figure("vms", caption, wide, narrow, tuple(keys), bill_table(story))


def bill_table(story: Story) -> Table:
    """Returns the bill, a line for each VM and disk; its sum is what was spent."""
    pools = {vm["vm"]: vm["pool"] for vm in story["vms"]}
    lives = {one["vm"]: (index, one) for index, one in enumerate(story["history"]["rentals"])}
    rows: list[Row] = []
    for index, line in enumerate(story["bill"][:_MOST_LINES]):
        place, life = lives.get(line["name"], (0, None))
        source = f"history.rentals.{place}"
        rows.append(
            Row(
                (
                    line["name"],
                    pools.get(line["name"], "disk"),
                    moment(life and life["running_s"], f"{source}.running_s" if life else ""),
                    moment(life and life["stopped_s"], f"{source}.stopped_s" if life else ""),
                    duration(line["billed_s"], f"bill.{index}.billed_s"),
                    hourly(life and life["usd_per_hour"], f"{source}.usd_per_hour" if life else ""),
                    dollars(line["usd_total"], f"bill.{index}.usd_total"),
                )
            )
        )
    further = story["bill"][_MOST_LINES:]
    if further:
        sum_usd = dollars(sum(line["usd_total"] for line in further))
        rows.append(Row((f"{len(further):,} more", "", "", "", "", "", sum_usd)))
    spent_usd = story["spent_usd_total"]
    other_usd = spent_usd - sum(line["usd_total"] for line in story["bill"])
    if other_usd > 1e-9:
        rest = dollars(other_usd)
        rows.append(
            Row(("extra_usd_per_hour", "what the job says costs besides", "", "", "", "", rest))
        )
    total = Row(("all", "", "", "", "", "", dollars(spent_usd, "spent_usd_total")))
    head = columns("VM", "from", "#began to run", "#stopped", "#billed for", "#price", "#in total")
    return Table("The bill", head, tuple(rows), total)
