"""The page says what the results say, void ones included."""

import csv
import io

import pytest
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.predict import PREDICTORS
from benchmarks.testbed.report import Interval, csv_text, page_text
from benchmarks.testbed.results import Result, append_result, read_results
from benchmarks.testbed.task import Seat, Task
from benchmarks.testbed.variance import STATED


def result(measured_s, forecast_s, *, part="probed", varied=False, void="", p90_s=1.2):
    return Result(
        part=part,
        label=f"case {measured_s} {part}",
        model="alexnet",
        config="4near.v100-800@32",
        mode="buckets",
        slots=0,
        world_size=4,
        family="near",
        delay_ms=0.0,
        rates_mbit=(800.0,) * 4,
        gpus=("V100",) * 4,
        varied=varied,
        measured_s=measured_s,
        repeats_s=(measured_s,),
        step_std_s=0.0,
        iterations=20,
        forecast_s=dict.fromkeys(PREDICTORS, forecast_s),
        p90_s=p90_s,
        exposed_s=0.1,
        latency_share=0.0,
        own_cores=0.5,
        all_cores=0.6,
        waited=0.0,
        void=void,
    )


def test_void_runs_are_counted_shown_and_left_out_of_the_errors():
    results = (result(1.0, 1.02), result(2.0, 2.02), result(1.0, 9.0, void="the CPU was busy"))
    page = page_text(results, "the command", STATED)
    assert "1 runs are void" in page
    assert "the CPU was busy" in page
    assert "| world size and link | 2 | 1.5 (2) |" in page
    assert "met" in page


def test_a_missed_bar_is_called_missed():
    assert "2.5: missed" in page_text((result(1.0, 1.1),), "the command", STATED)


def test_every_run_stands_in_the_table():
    rows = list(csv.DictReader(io.StringIO(csv_text((result(1.0, 1.1), result(2.0, 2.0))))))
    assert [float(row["measured_s"]) for row in rows] == [1.0, 2.0]
    assert rows[0]["slots"] == "unlimited"
    assert rows[0]["rates_mbit"] == "800 800 800 800"


def test_intervals_by_hand():
    # Over the mean, under the bound; over both, by 5 % and by 50 %; under the mean.
    found = Interval.of(
        [
            result(1.04, 1.0, p90_s=1.045),
            result(1.05, 1.0, p90_s=1.045),
            result(1.5, 1.0, p90_s=1.045),
            result(0.9, 1.0, p90_s=1.045),
        ]
    )
    assert found == Interval(4, 0.5, 0.75, pytest.approx(2 / 3))


def test_results_survive_the_file(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read_results(path) == ()
    kept = (result(1.0, 1.1), result(2.0, 2.0, varied=True))
    for one in kept:
        append_result(path, one)
    assert read_results(path) == kept


def test_tasks_and_draws_survive_the_file():
    seats = (Seat("T4", 8, Draws(1.1, 0.02, 3)), Seat("V100", 16, Draws()))
    task = Task("dlrm", seats, per_layer=True, threads=2, links="a b", warm_up=4, iterations=10)
    assert Task.from_text(task.to_text()) == task


def test_draws_average_to_the_pace_and_repeat():
    first, again = Draws(1.1, 0.05, 7), Draws(1.1, 0.05, 7)
    drawn = [first.step_factor() for _ in range(4000)]
    assert drawn == [again.step_factor() for _ in range(4000)]
    assert sum(drawn) / len(drawn) == pytest.approx(1.1, rel=0.01)
    assert Draws(1.2).step_factor() == 1.2
