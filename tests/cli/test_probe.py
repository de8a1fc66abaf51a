import json
import subprocess
import sys

import pytest

from srifty.allreduce.samples import read_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.cli import probe as module
from srifty.cli._probe_keep import keep, require_place
from srifty.cli._probe_show import probe_document, rows_of
from srifty.core.allreduce import AllreduceSample
from srifty.errors import InputError
from srifty.probing.burst import LongPoint, LongRun
from srifty.probing.findings import Findings
from srifty.probing.grid import Cell
from srifty.units import MIB
from tests.command import srifty
from tests.probing.test_launch import TORCHRUN


@pytest.fixture(autouse=True)
def _no_torchrun(monkeypatch):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)


def under_torchrun(monkeypatch, rank="0"):
    for name, value in (TORCHRUN | {"RANK": rank}).items():
        monkeypatch.setenv(name, value)


def samples_of(*times_s, size=MIB, concurrent=1):
    return [
        AllreduceSample("toy", 1, 2, size, time_s, source="test", run=str(i), concurrent=concurrent)
        for i, time_s in enumerate(times_s)
    ]


def test_help_shows_a_command_that_works():
    outcome = srifty("probe", "--help")
    assert outcome.code == 0
    assert "torchrun --nproc-per-node 4 -m srifty probe" in outcome.out


def test_outside_torchrun_the_error_says_what_to_type():
    outcome = srifty("probe")
    assert outcome.code == 2
    assert "torchrun --nproc-per-node GPUS -m srifty probe" in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sizes", "4MB"), "--sizes: '4MB' is no size"),
        (("--sizes", "6B"), "--sizes: 6 B does not hold whole float32 elements"),
        (("--concurrent", "0"), "--concurrent"),
        (("--seconds", "0"), "--seconds: must be"),
        (("--seconds", "nan"), "--seconds: must be"),
        (("--long", "-1"), "--long: must be"),
        (("--zone", "a\nb"), "--zone: must be one line"),
        (("--config", " x"), "--config: must be one line"),
    ],
)
def test_wrong_options_are_said_once_and_before_all_else(arguments, words):
    outcome = srifty("probe", *arguments)
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert words in line


@pytest.mark.parametrize(
    "arguments", [("--repeats", "0"), ("--backend", "mpi"), ("--dtype", "float64")]
)
def test_impossible_options_are_refused(arguments):
    assert srifty("probe", *arguments).code == 2


def test_other_ranks_leave_the_word_to_rank_0(monkeypatch):
    under_torchrun(monkeypatch, rank="3")
    outcome = srifty("probe", "--sizes", "4MB")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "")


def test_one_process_alone_is_refused(monkeypatch):
    under_torchrun(monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "1")
    outcome = srifty("probe")
    assert outcome.code == 2
    assert "one process alone" in outcome.err


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    under_torchrun(monkeypatch)
    monkeypatch.setitem(module.sys.modules, "torch", None)
    outcome = srifty("probe")
    assert outcome.code == 2
    assert 'pip install "srifty[train]"' in outcome.err


def test_nccl_tests_needs_no_torchrun():
    outcome = srifty("probe", "--nccl-tests", "--sizes", "1KiB..1MiB")
    assert outcome.code == 0
    assert "all_reduce_perf -b 1024 -e 1048576 -f 2" in outcome.out
    assert outcome.err == ""
    as_json = srifty("probe", "--nccl-tests", "--sizes", "1KiB..1MiB", "--json")
    assert json.loads(as_json.out)["shell"] == outcome.out.splitlines()


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "srifty", "probe", "--nccl-tests"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "all_reduce_perf" in done.stdout


def test_places_that_cannot_be_written_are_refused_before_measuring(monkeypatch, tmp_path):
    under_torchrun(monkeypatch)
    taken = tmp_path / "taken.csv"
    taken.write_text("precious")
    for arguments, words in (
        (("-o", taken), "exists already"),
        (("-o", tmp_path), "exists already"),
        (("-o", tmp_path / "none" / "a.csv"), "folder does not exist"),
        (("--db", taken), "taken.csv"),
    ):
        outcome = srifty("probe", *arguments)
        assert outcome.code == 2
        assert words in outcome.err
    assert taken.read_text() == "precious"


def test_samples_go_to_the_file_the_store_or_both(tmp_path):
    samples = samples_of(0.5, 0.25)
    default = store_path()
    csv, db = tmp_path / "a.csv", tmp_path / "b.db"
    assert keep(samples, csv, None) == str(csv)
    assert not default.exists()
    keep(samples, None, db)
    assert not default.exists()
    keep(samples, None, None)
    assert read_samples(csv) == tuple(samples)
    for path in (db, default):
        with SampleStore.open(path, create=False) as store:
            assert store.samples() == tuple(samples)
    with pytest.raises(InputError):
        keep(samples, csv, None)  # a file that came to be meanwhile is not replaced
    require_place(None, db)


def test_samples_that_cannot_be_kept_are_printed(tmp_path, capsys):
    taken = tmp_path / "taken.csv"
    taken.write_text("precious")
    findings = Findings(samples_of(0.5))
    assert module._finish(findings, taken, None, "done", as_json=True) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["stored"] is None
    assert "exists already" in err or "cannot be written" in err
    header = next(line for line in err.splitlines() if line.startswith("cloud,"))
    again = tmp_path / "again.csv"
    again.write_text(err[err.index(header) :])
    assert read_samples(again) == tuple(findings.samples)
    assert taken.read_text() == "precious"


def test_a_row_is_the_median_and_spread_of_its_repeats():
    rows = rows_of([*samples_of(1.0, 3.0, 2.0), *samples_of(5.0, size=4 * MIB, concurrent=2)])
    first, second = rows
    assert (first.samples, first.median_s, first.spread) == (3, 2.0, 1.0)
    assert first.algorithm_bytes_per_s == first.bus_bytes_per_s == MIB / 2
    assert second.algorithm_bytes_per_s == 8 * MIB / 5
    assert second.spread == 0.0


def test_people_see_the_table_and_the_long_run(tmp_path, capsys):
    points = tuple(LongPoint(float(i), 0.5) for i in range(30))
    findings = Findings(
        samples_of(0.5, 0.4), long=LongRun(Cell(MIB), 2, points), notes=["Something to know."]
    )
    assert module._finish(findings, tmp_path / "a.csv", None, "done", as_json=False) == 0
    out, err = capsys.readouterr()
    assert "2 ranks" in out
    assert "1 MiB" in out
    assert "held to the end" in out
    assert "note: Something to know." in err
    assert "2 samples are kept in" in err
    document = probe_document(findings, "a.csv", "done")
    assert document["long"]["trend"] == "steady"
    assert len(document["long"]["points"]) == 30


def test_nothing_measured_is_said_and_nothing_is_written(tmp_path, capsys):
    csv = tmp_path / "a.csv"
    assert module._finish(Findings(), csv, None, "stopped by Ctrl-C", as_json=True) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["samples"] == 0
    assert "error: stopped by Ctrl-C" in err
    assert "no samples are kept" in err
    assert not csv.exists()
