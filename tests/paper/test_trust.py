"""The figure and its page on made-up runs: what is counted, and what reasons are given."""

import numpy as np
import pytest
from benchmarks.paper import trust
from benchmarks.paper.forecasts import joined
from benchmarks.paper.public_runs import RunSet

from tests.paper.made_runs import forecasts

ROWS = [
    ("a", (1, 1), 32, 4.0, 4.1, 2.0, 1.0, 0.1),
    ("a", (1,) * 4, 16, 1.5, 2.0, 2.5, 0.6, 0.9),
    ("a", (1,) * 8, 8, 1.0, 0.5, 0.5, 0.3, 0.7),
    ("b", (2, 1), 8, 1.0, 1.0, 0.5, 0.3, 0.7),
    ("b", (1, 2), 8, 2.0, 1.0, 0.5, 0.3, 1.7),
]


def run_set(name, usd=3.6):
    return RunSet(name, (), lambda _: [], "what is left in", "what is left out", usd)


@pytest.fixture(scope="module")
def sets():
    return [
        (run_set("first"), forecasts(ROWS, "first")),
        (run_set("second"), forecasts(ROWS[:3], "second")),
        (run_set("third", None), forecasts(ROWS[3:], "third")),
        (run_set("nvidia_dle", None), forecasts(ROWS[3:], "nvidia_dle")),
    ]


def test_coverage_and_lateness_are_counted():
    found = forecasts(ROWS)
    assert found.inside.tolist() == [True, False, False, True, False]
    assert found.late.tolist() == [False, False, True, False, True]
    assert found.error == pytest.approx([0.025, 1 / 3, -0.5, 0.0, -0.5])


def test_the_page_says_what_was_learned_and_how_it_went(sets):
    text = "\n".join(trust.page(sets, sets[:1], "trust.svg"))
    assert "| first | 5 | 27.2% | 33.3% |" in text
    assert "| first | what is left in | what is left out |" in text
    assert "| first | no | srifty | 1 | $2.00 | 33.3% |" in text
    assert "| third | no |" not in text  # nobody rents those
    assert text.count("| nvidia_dle | b |") >= 1
    assert "| first | what is left in | 5 | 27.2% |" in text


def test_the_worst_come_first(sets):
    text = "\n".join(trust.page(sets, sets[:1], "trust.svg"))
    worst = text.partition("## The ten worst misses")[2]
    ratios = []
    for line in worst.splitlines():
        if line.endswith("|") and " s | " in line:
            cells = [cell.strip() for cell in line.split("|")]
            measured, forecast = (float(cell.removesuffix(" s")) for cell in cells[5:7])
            ratios.append(abs(np.log(forecast / measured)))
    ten = ratios[: min(10, len(ratios))]
    assert ten == sorted(ten, reverse=True)


def test_reasons_are_what_the_data_say():
    found = forecasts(ROWS)
    assert trust.reasons(found, 4) == [
        "the same VMs in another order took 1 s",
        "the exchange added 1.7 s, 0.7 s were forecast",
    ]
    right = forecasts([("a", (1, 1), 8, 1.0, 1.05, 1.0, 1.0, 0.05)])
    assert trust.reasons(right, 0) == ["the data do not say"]
    grows = [("c", (1, 1), b, 1.0 + s, 1.1, 1.0, 1.0, s) for b, s in ((8, 0.1), (64, 5.0))]
    assert "grows with the batch" in trust.reasons(forecasts(grows), 1)[-1]
    over = forecasts([("d", (1, 1), 8, 1.0, 3.0, 1.0, 0.9)])
    assert trust.reasons(over, 0) == [
        "computation leaves 0.1 s for the exchange, 2.1 s were forecast"
    ]


def test_the_figure_is_drawn(sets, tmp_path):
    trust.draw(sets, tmp_path / "trust.svg")
    assert (tmp_path / "trust.svg").read_bytes().startswith(b"<?xml")


def test_joined_keeps_the_order(sets):
    every = joined("all", [found for _, found in sets])
    assert len(every) == 12
    assert every.runs[5:8] == sets[1][1].runs
