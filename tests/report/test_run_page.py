import pytest

pytest.importorskip("jinja2")

from srifty.report import run_page
from tests.report.pages import (
    assert_self_contained,
    at,
    event,
    numbers,
    parsed,
    progress,
    rental,
    story,
    words,
)

NASTY = "</td><script>x</script>&\"'"


def rows(page, section):
    (found,) = (s for s in parsed(page).iter("section") if s.get("id") == section)
    return [words(row) for row in found.iter("tr")]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": "finished", "message": "All iterations were made.", "at_s": 490.0},
        {"state": "money", "cap_usd": None, "deadline_s": None},
        {"forecasts": [], "iterations_per_s": None},
        {"iterations": None, "config": None, "worlds": [], "decisions": [], "events": []},
    ],
)
def test_numbers_on_the_page_are_those_of_the_ledger(changes):
    told = story(**changes)
    page = run_page(told)
    assert_self_contained(page)
    found = list(numbers(page))
    for source, value, _ in found:
        assert value == at(told, source), source
    sources = {source for source, _, _ in found}
    assert {"spent_usd_total", "bill.0.usd_total", "bill.1.usd_total", "at_s"} <= sources
    assert {f"history.progress.{n}.spent_usd" for n in range(3)} <= sources
    assert {f"history.pace.{n}.bound" for n in range(3)} <= sources
    if told["forecasts"]:
        assert {"forecasts.0.time_s.p90", "forecasts.0.cost_usd.mean"} <= sources
    assert "None" not in words(parsed(page))


def test_what_happened_is_told_newest_first_with_its_reason():
    told = rows(run_page(story()), "happenings")[1:]
    assert told[0].startswith("0:02:50 training begins 1p3.8xlarge (spot)@1024x2")
    assert told[1] == "0:02:40 vm-2: preempted p3.8xlarge (spot, us-east-1a) taken back"
    assert told[3].startswith("0:01:00 vm-1, vm-2: launched")
    assert told[4] == "0:00:00 decided to move 2p3.8xlarge (spot)@512 the run begins"
    assert "time left 8 min 20 s; money left $5.00; iterations left 400" in " ".join(told)


def test_the_bill_adds_up():
    told = story()
    listed = rows(run_page(told), "bill")
    rest = told["spent_usd_total"] - sum(line["usd_total"] for line in told["bill"])
    assert listed[-1].endswith(f"${told['spent_usd_total']:.2f}")
    assert listed[-2].endswith(f"${rest:.4f}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "At this pace it ends in 1 min 53 s, 2 min 07 s before the deadline."),
        ({"iterations_per_s": 0.5}, "1 min 40 s AFTER the deadline"),
        ({"state": "without a controller"}, "srifty resume toy-1"),
        (
            {"state": "finished", "message": "All iterations were made.", "at_s": 502.0},
            "All iterations were made. It ended 2 s AFTER the deadline.",
        ),
        ({"iterations_per_s": None, "iteration": 0.0}, "No step has been made yet."),
    ],
)
def test_the_page_says_how_it_stands(changes, sentence):
    assert sentence in words(parsed(run_page(story(**changes))))


def test_a_providers_words_cannot_break_out():
    told = story(
        run=NASTY,
        message=NASTY,
        events=[event(1.0, "failed", NASTY, NASTY)],
        config=NASTY,
    )
    page = run_page(told)
    assert "<script>" not in page
    assert NASTY in words(parsed(page))


def test_a_long_run_has_a_page_of_modest_size():
    many = 5_000
    told = story(
        vms=[{"vm": f"vm-{n}", "pool": f"pool {n % 9}", "phase": "gone"} for n in range(many)],
        bill=[{"name": f"vm-{n}", "billed_s": 60.0, "usd_total": 0.01} for n in range(many)],
        events=[event(n * 30.0, "preempted", f"vm-{n}", "words " * 90) for n in range(many)],
        decisions=story()["decisions"] * many,
        worlds=story()["worlds"] * many,
        spent_usd_total=many * 0.01,
        cap_usd=many * 0.02,
    )
    told["history"] = {
        "progress": [progress(n * 60.0, n, n, n / 100) for n in range(160)],
        "pace": [{"at_s": n * 120.0, "mean": 2.0, "bound": 2.1} for n in range(100)],
        "rentals": [rental(f"vm-{n}", n * 30.0, n * 30.0 + 20) for n in range(many)],
    }
    page = run_page(told)
    assert len(page.encode()) < 500_000
    assert "earlier entries" in words(parsed(page))
    assert rows(page, "bill")[-1].endswith("$50.00")


def test_a_live_page_looks_for_news_and_a_written_one_does_not():
    live = run_page(story(), nonce="n0nce")
    (script,) = parsed(live).iter("script")
    assert script.get("nonce") == "n0nce"
    assert "fetch(location.href" in script.text
    assert list(parsed(live).iter("noscript"))
    assert "script" not in {element.tag for element in parsed(run_page(story())).iter()}
