"""`srifty allreduce fit | predict | evaluate`, as people type them."""

from __future__ import annotations

import json

import pytest

from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import write_samples
from srifty.allreduce.store import SampleStore, store_path
from tests.allreduce.worlds import ring_time_s, sweep
from tests.command import srifty

WORLDS = ((4, 2), (8, 4), (16, 8), (32, 16))


@pytest.fixture(name="store")
def _store():
    with SampleStore.open(store_path()) as store:
        samples = [s for kind in ("g4dn.8xlarge", "lab.x") for s in sweep(kind, worlds=WORLDS)]
        store.add(samples, file=SourceFile("x.log", "1" * 64))
    return store_path()


def asked(*arguments):
    outcome = srifty("allreduce", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


class TestPredict:
    def test_a_measured_type(self, store):
        document = asked("predict", "g4dn.8xlarge", "--world-size", 8, "--vms", 8)
        by_size = {row["size_bytes"]: row for row in document["predictions"]}
        row = by_size[2**20]
        assert row["low_s"] < row["time_s"] < row["high_s"]
        assert document["vms"] == 8

    def test_it_forecasts_what_was_measured(self, store):
        document = asked("predict", "lab.x", "--world-size", 8, "--vms", 4, "--sizes", "1MiB,16MiB")
        for row in document["predictions"]:
            truth = ring_time_s(8, 4, row["size_bytes"])
            assert row["time_s"] == pytest.approx(truth, rel=0.06)
        assert any("lab.x is in no catalog" in s for s in document["warnings"])

    def test_for_people(self, store):
        outcome = srifty("allreduce", "predict", "g4dn.8xlarge", "--world-size", 64)
        assert outcome.code == 0
        assert "90 % interval" in outcome.out
        assert "lie outside what was measured" in outcome.out
        assert "your own" in outcome.out or "measured at" in outcome.out

    def test_without_any_store_the_built_in_samples_answer(self):
        document = asked("predict", "p4d.24xlarge", "--world-size", 16)
        assert document["vms"] == 2
        assert not store_path().exists()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("p4d.24xlarge", "--world-size", 16, "--vms", 1), "do not spread evenly"),
            (("p4d.24xlarge", "--world-size", 16, "--sizes", "1 furlong"), "--sizes"),
            (("p4d.24xlarge", "--world-size", 16, "--sizes", "0B"), "--sizes"),
            (("what.ever", "--world-size", 2), "neither in the catalog nor measured"),
        ],
    )
    def test_bad_questions(self, arguments, words):
        outcome = srifty("allreduce", "predict", *arguments)
        assert outcome.code == 2
        assert words in outcome.err
        assert "Traceback" not in outcome.err


class TestFit:
    def test_it_shows_the_choice_and_keeps_it(self, store):
        document = asked("fit")
        assert document["kept_in"] == f"{store}.fit"
        assert {choice["regime"] for choice in document["choices"]} >= {"inside", "outside"}
        outcome = srifty("allreduce", "fit")
        assert outcome.code == 0
        assert "inside" in outcome.out

    def test_tuning_tries_the_defaults_first(self, store):
        pytest.importorskip("optuna")
        document = asked("fit", "--tune", 2)
        assert document["boosting"]["objective"].startswith("reg:")


class TestEvaluate:
    def test_a_csv_file(self, tmp_path):
        path = tmp_path / "samples.csv"
        with path.open("w", newline="") as file:
            write_samples(sweep(worlds=WORLDS, repeats=2, noise=0.05), file)
        document = asked("evaluate", path, "--models", "kriging,interpolated")
        assert document["by"] == "world-size"
        assert set(document["models"]) == {"kriging", "interpolated"}
        assert document["models"]["kriging"]["mape_time"]["all"] < 0.1
        assert document["noise_floor"]["all"] > 0
        assert document["families"]["g4dn.12xlarge"] == {
            "pairs": 2,
            "rows": 56,
            "judged": False,
            "interval_coverage": None,
        }

    @pytest.mark.parametrize("by", ["world-size", "largest-world-size", "curve", "random"])
    def test_every_split_for_people(self, store, by):
        outcome = srifty(
            "allreduce", "evaluate", "--by", by, "--models", "kriging,interpolated,paper"
        )
        assert outcome.code == 0, outcome.err
        assert "mean over families" in outcome.out
        assert "noise floor" in outcome.out

    def test_auto_gives_intervals(self, store):
        document = asked("evaluate", "--models", "auto", "--by", "largest-world-size")
        assert 0 <= document["interval_coverage"] <= 1

    def test_a_plot(self, store, tmp_path):
        pytest.importorskip("matplotlib")
        path = tmp_path / "e.svg"
        outcome = srifty("allreduce", "evaluate", "--models", "kriging", "--plot", path)
        assert outcome.code == 0
        assert path.read_text().lstrip().startswith("<?xml")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--models", "magic"), "--models takes some of"),
            (("--models", ","), "--models takes some of"),
            (("--by", "allocation"), "two allocations"),
            (("nowhere.csv",), "there is no such file"),
        ],
    )
    def test_bad_requests(self, store, arguments, words):
        outcome = srifty("allreduce", "evaluate", *arguments)
        assert outcome.code == 2
        assert words in outcome.err

    def test_an_empty_store(self):
        outcome = srifty("allreduce", "evaluate")
        assert outcome.code == 2
        assert "Traceback" not in outcome.err
