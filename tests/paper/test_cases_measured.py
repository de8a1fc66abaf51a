"""What is planned, measured and said of a case; at the end two configurations on a real bed."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.paper.bed_jobs import CASES, Config, configs_of, nominal_s
from benchmarks.paper.bed_page import csv_text, job_name, page_lines
from benchmarks.paper.bed_plans import OURS, Chosen, Planning, config_of
from benchmarks.paper.bed_runs import Run, measurements
from benchmarks.paper.bed_verdict import Found, wanted
from benchmarks.paper.cases_measured import orders_of, probes_of, profiles_of

from srifty.planner import places_of, supplies_of
from srifty.planner.evaluate import evaluate
from srifty.planner.space import SpaceRule
from tests.paper.nominal import write_profiles, write_samples
from tests.testbed.standing import needs_bed

ROOT = Path(__file__).parents[2]
MOST_S = 600  # a hang, not a bound on speed
BY_NUMBER = {case.number: case for case in CASES}
INCEPTION = BY_NUMBER[6]
RIVALS = {"anchored", "apm", "paleo", "cgf", "fgf", "cheapest-homogeneous"}


@pytest.fixture(scope="module")
def planning(tmp_path_factory):
    folder = tmp_path_factory.mktemp("case")
    write_samples(folder / "samples.csv")
    write_profiles(INCEPTION, folder / "profiles")
    return Planning.open(
        INCEPTION, folder / "profiles", folder / "samples.csv", folder, any_batch=False
    )


def test_our_planner_knows_the_same_configurations(planning):
    bench = planning.bench
    places = [
        supplies_of(place, bench.batch_ranges)
        for place in places_of(bench.catalog.offers, allow_cross_zone=False)
    ]
    rule = SpaceRule(bench.job.batch_rule)
    every = evaluate(bench.job, places, bench.simulator, rule, whole=True).configs
    known = {config_of(every.config(row)) for row in range(len(every))}
    assert known == set(configs_of(INCEPTION))


def test_every_choice_is_measured_and_names_the_methods(planning):
    chosen = (planning.ours(), *planning.rivals())
    assert {one.method for one in chosen} == {OURS, *RIVALS}
    measured = wanted(configs_of(INCEPTION), chosen)
    assert set(configs_of(INCEPTION)) <= set(measured)
    assert all(one.config in measured for one in chosen if one.config is not None)
    assert all(one.reason for one in chosen if one.config is None)
    assert chosen[0].config in configs_of(INCEPTION)
    # Forecasts of what was measured on ideal links are near what ideal links would do.
    forecasts = planning.forecast_s(measured)
    for config, seconds in zip(measured, forecasts, strict=True):
        assert seconds == pytest.approx(nominal_s(INCEPTION.model, config), rel=0.1)


def test_oracle_bo_asks_the_measurements_and_knows_one_type_alone(planning):
    found = planning.oracle_bo(dict.fromkeys(configs_of(INCEPTION), 1.0), 0)
    assert found.config is None
    assert found.reason == "no type alone holds the global batch"


def test_orders_come_round_after_round():
    configs = configs_of(INCEPTION)[:2]
    orders = orders_of(INCEPTION, configs, 3)
    assert [(o.config, o.repeat) for o in orders] == [(c, r) for r in range(3) for c in configs]
    task = orders[0].task()
    assert [seat.batch for seat in task.seats] == [batch for _, batch in configs[0].seats]
    assert not task.per_layer


def test_probes_reach_every_world_and_profiles_every_model():
    names = {probe.name for probe in probes_of(CASES)}
    assert names >= {"g4dn-x8-16", "g3-x8-16", "g3-16", "p3-8", "g3-2"}
    assert {probe.name for probe in probes_of([INCEPTION])} == {
        f"{kind}-{n}" for kind in ("g4dn", "g3", "p3") for n in (2, 4, 8)
    }
    assert ("inception-v3", "M60", 64) in profiles_of(CASES)


FAST, CHEAP, SLOW = configs_of(INCEPTION)[:3]
OUTSIDE = Config.of([("p3", 2, 100), ("g4dn", 1, 64)])


def found(seconds, chosen):
    """A case whose configurations took so long; 0.6 s and more break the deadline."""
    runs = [
        Run(job_name(INCEPTION), INCEPTION.model, c.notation, r, (s,) * 5, (0.0,), 0.5, 0.6, 2, 1.0)
        for c, s in seconds.items()
        for r in range(3)
    ]
    by_notation = measurements(runs, job_name(INCEPTION))
    one = Found(
        INCEPTION,
        (FAST, CHEAP, SLOW),
        {c: by_notation[c.notation] for c in seconds},
        {c: 1.1 * s for c, s in seconds.items()},
        tuple(chosen),
    )
    return one, runs


def test_gaps_limits_and_page_by_hand():
    one, runs = found(
        {FAST: 0.16, CHEAP: 0.2, SLOW: 0.7, OUTSIDE: 0.1},
        [Chosen(OURS, CHEAP, 0.22), Chosen("apm", SLOW, 0.1), Chosen("cgf", None, reason="none")],
    )
    assert one.keeps(FAST)
    assert not one.keeps(SLOW)
    assert one.best == FAST  # what is outside the rule is no bar
    assert one.gap(CHEAP) == pytest.approx(0.25)
    assert one.errors == pytest.approx([0.1] * 4)
    assert one.whole
    page = "\n".join(page_lines([one], "plot.svg"))
    assert "| 25.0% |" in page
    assert "within 2% of the best measured in 0 of the 1 cases" in page.replace("\n", " ")
    assert "**broken**" in page
    assert "none keeps the limits" in page
    rows = list(csv.DictReader(io.StringIO(csv_text([one], runs))))
    assert len(rows) == 12
    assert {row["config"]: row["chosen_by"] for row in rows}[CHEAP.notation] == OURS
    assert [row["in_rule"] for row in rows if row["config"] == OUTSIDE.notation] == ["0"] * 3


def test_a_void_configuration_is_neither_best_nor_hidden():
    one, _ = found({CHEAP: 0.2, SLOW: 0.7}, [Chosen(OURS, CHEAP)])
    bad = Run(job_name(INCEPTION), INCEPTION.model, FAST.notation, 0, (), (), 0, 0, 2, 0, "died")
    void = measurements([bad], job_name(INCEPTION))[FAST.notation]
    with_void = Found(
        one.case, one.configs, {**one.measured, FAST: void}, one.forecast_s, one.chosen
    )
    assert with_void.best == CHEAP
    assert with_void.void == (FAST,)
    assert "failed: died" in "\n".join(page_lines([with_void], "plot.svg"))


@needs_bed
def test_two_configurations_are_probed_planned_and_run(tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.paper.cases_measured", "--smoke"),
            *("--work", str(tmp_path / "work"), "-o", str(tmp_path / "out")),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=MOST_S,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "cases_measured.csv").open() as file:
        rows = list(csv.DictReader(file))
    # One VM and two, twice each; what two exchange takes longer than what one computes.
    assert [(row["config"], row["repeat"]) for row in rows] == [
        (config, repeat) for repeat in ("1", "2") for config in ("1g3@128", "2g3@64")
    ]
    mean_s = {row["config"]: float(row["mean_s"]) for row in rows}
    assert mean_s["2g3@64"] > 2 * mean_s["1g3@128"] > 0
    page = (tmp_path / "out" / "cases_measured.md").read_text()
    assert "not any cloud" in page
    assert "**Not all of it was run.**" in page
    assert (tmp_path / "out" / "cases_measured.svg").stat().st_size > 1000
