import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from srifty.allreduce.samples import write_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.cli import _allreduce_import as importing
from tests.allreduce.log_text import SIZES, log_text
from tests.allreduce.store_writers import samples_of
from tests.command import job_text, srifty, write_job

ROWS = 2 * len(SIZES)
P4D = ("--instance-type", "p4d.24xlarge", "--cloud", "aws")


@pytest.fixture(name="log")
def _log(tmp_path):
    path = tmp_path / "nccl.log"
    path.write_text(log_text())
    return path


def imported(*arguments):
    outcome = srifty("allreduce", "import", *arguments, "--json")
    return outcome, json.loads(outcome.out)


def held():
    with SampleStore.open(store_path(), create=False) as store:
        return store.samples()


class TestImport:
    def test_a_log(self, log):
        outcome, document = imported(log, *P4D, "--zone", "use1-az1")
        assert outcome.code == 0
        assert document["rows"] == ROWS
        (file,) = document["files"]
        assert file | {
            "file": str(log), "rows": ROWS, "dropped": [], "world_size": 16, "nodes": 2,
            "gpus_per_node": 8, "nccl_version": "2.18.5", "collective": "all_reduce",
            "complete": True, "warnings": [], "already_imported": False,
        } == file  # fmt: skip
        assert "rank" in file["world_size_from"]
        assert "A100" in file["gpu"]
        assert {(s.instance_type, s.cloud, s.zone) for s in held()} == {
            ("p4d.24xlarge", "aws", "use1-az1")
        }

    def test_for_people(self, log):
        log.write_text(log_text(wrong=3))
        outcome = srifty("allreduce", "import", log, *P4D)
        assert outcome.code == 0
        assert f"kept {ROWS - 2} samples of all_reduce on p4d.24xlarge" in outcome.out
        assert "16 GPUs (" in outcome.out
        assert "2 VMs x 8" in outcome.out
        assert "not taken: " in outcome.out
        assert str(store_path()) in outcome.err

    def test_dropped_rows_have_line_and_reason(self, log):
        log.write_text(log_text(wrong=3))
        _, document = imported(log, *P4D)
        lines = log.read_text().splitlines()
        for row in document["files"][0]["dropped"]:
            assert lines[row["line"] - 1].split()[0] == str(SIZES[-1])
            assert row["reason"]

    def test_twice(self, log):
        imported(log, *P4D)
        outcome, document = imported(log, *P4D)
        assert outcome.code == 0
        assert document["files"][0]["already_imported"] is True
        assert document["files"][0]["new"] == 0
        assert len(held()) == ROWS
        assert "was imported before" in srifty("allreduce", "import", log, *P4D).out

    def test_without_an_instance_type_and_then_with_it(self, log):
        _, document = imported(log)
        (file,) = document["files"]
        assert file["instance_types"] == ["unnamed-8xA100-SXM4-40GB"]
        assert "--instance-type" in file["warnings"][-1]
        _, document = imported(log, *P4D)
        assert "takes the place of" in document["files"][0]["warnings"][-1]
        assert {s.instance_type for s in held()} == {"p4d.24xlarge"}
        assert len(held()) == ROWS

    def test_other_answers_are_another_import_and_said(self, log):
        imported(log, *P4D)
        _, document = imported(log, *P4D, "--zone", "z1")
        (warning,) = document["files"][0]["warnings"]
        former = warning.split()[-1]
        assert srifty("allreduce", "forget", former, "--yes").code == 0
        assert {s.zone for s in held()} == {"z1"}

    def test_a_dry_run_stores_nothing(self, log):
        outcome, document = imported(log, *P4D, "--dry-run")
        assert (outcome.code, document["rows"]) == (0, ROWS)
        assert not store_path().exists()
        assert f"would give {ROWS} samples" in srifty(
            "allreduce", "import", log, *P4D, "--dry-run"
        ).out  # fmt: skip
        imported(log, *P4D)
        _, document = imported(log, *P4D, "--dry-run")
        assert document["files"][0]["already_imported"] is True

    def test_files_that_cannot_be_used_do_not_stop_the_others(self, log, tmp_path):
        bad = tmp_path / "bad.csv"
        bad.write_text("instance_type,nodes,world_size,size_bytes,time_us\na,2,1,8,5\nb,2,4,8,-1\n")
        binary = tmp_path / "binary"
        binary.write_bytes(bytes(range(256)) * 20)
        empty = tmp_path / "empty.log"
        empty.touch()
        words = tmp_path / "words.txt"
        words.write_text("dear diary\n")
        files = [tmp_path / "none.log", tmp_path, bad, binary, empty, log, words]
        outcome, document = imported(*files, *P4D[2:])
        assert outcome.code == 2
        assert document["rows"] == len(held()) == ROWS
        assert [file["rows"] for file in document["files"]] == [0, 0, 0, 0, 0, ROWS, 0]
        keys = set(document["files"][5])
        assert all(keys == set(file) - {"error"} for file in document["files"])
        errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
        for file, reason in (
            (files[0], "there is no such file"),
            (files[1], "cannot be read: Is a directory"),
            (bad, "world_size must be a whole number of at least 2, not 1 (line 2)"),
            (bad, "time_us must be above 0, not '-1' (line 3)"),
            (binary, "is not text"),
            (empty, "is empty"),
            (words, "no line of it reads like a row"),
        ):
            assert any(f"{file}: " in line and reason in line for line in errors), reason
        assert "Traceback" not in outcome.err

    def test_a_file_that_is_too_large_is_not_read(self, tmp_path):
        path = tmp_path / "huge.log"
        with path.open("wb") as file:
            file.truncate(2 << 30)
        outcome = srifty("allreduce", "import", path)
        assert outcome.code == 2
        assert "too large" in outcome.err

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--measured-at", "soon"], "--measured-at: measured_at must be an ISO 8601 date"),
            (["--measured-at", "2999-01-01"], "lies in the future"),
            (["--world-size", "1"], "--world-size"),
            (["--as", "broadcast"], "--as"),
            (["--config", "a\nb"], "config must be one line"),
            (["--instance-type", "g4dn.xlarge"], "shows 16 GPUs on 2 VM(s), but g4dn.xlarge has 1"),
            (["--world-size", "12"], "gives no usable row"),
        ],
    )
    def test_bad_options(self, log, options, words):
        outcome = srifty("allreduce", "import", log, *options)
        assert outcome.code == 2
        assert words in outcome.err
        assert not store_path().exists() or held() == ()

    def test_an_unknown_type_is_said_with_near_ones(self, log):
        outcome = srifty("allreduce", "import", log, "--instance-type", "p4d.24xlrge")
        assert outcome.code == 0
        assert "did you mean p4d.24xlarge" in outcome.err

    def test_mixed_library_versions_are_said(self, log, tmp_path):
        other = tmp_path / "other.log"
        other.write_text(log_text(version="2.20.5", slower=2.3))
        imported(log, *P4D)
        _, document = imported(other, *P4D)
        assert "p4d.24xlarge (2.18.5, 2.20.5)" in document["warnings"][0]
        assert "p4d.24xlarge (2.18.5, 2.20.5)" in srifty("allreduce", "list").out

    def test_all_other_collectives_are_refused_on_request(self, tmp_path):
        path = tmp_path / "gather.log"
        path.write_text(log_text(collective="all_gather"))
        outcome, _ = imported(path, *P4D, "--as", "all_reduce")
        assert outcome.code == 2
        assert "is all_gather, but all_reduce was asked for" in outcome.err
        outcome, document = imported(path, *P4D)
        assert (outcome.code, document["files"][0]["collective"]) == (0, "all_gather")

    def test_a_named_store(self, log, tmp_path):
        path = tmp_path / "named.db"
        imported(log, *P4D, "--db", path)
        assert not store_path().exists()
        _, document = imported(log, *P4D, "--db", path)
        assert (document["store"], document["files"][0]["new"]) == (str(path), 0)

    @pytest.mark.parametrize("content", [b"some notes of mine\n", None], ids=["text", "database"])
    def test_a_store_that_is_none_is_left_alone(self, log, tmp_path, content):
        path = tmp_path / "mine"
        if content is None:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE mine (id INTEGER)")
        else:
            path.write_bytes(content)
        before = path.read_bytes()
        for rest in (["import", log], ["list"], ["export"], ["forget", "--all", "--yes"]):
            outcome = srifty("allreduce", *rest, "--db", path)
            assert outcome.code == 2
            assert f"{path}: is " in outcome.err
        assert path.read_bytes() == before

    def test_ctrl_c_keeps_what_is_stored_and_nothing_else(self, log, tmp_path, monkeypatch):
        other = tmp_path / "other.log"
        other.write_text(log_text(slower=2))
        take_in = importing.take_in

        def interrupted(data, name, *arguments):
            if name == str(other):
                raise KeyboardInterrupt
            return take_in(data, name, *arguments)

        monkeypatch.setattr(importing, "take_in", interrupted)
        outcome = srifty("allreduce", "import", log, other, *P4D)
        assert outcome.code == 130
        assert "Traceback" not in outcome.err
        assert len(held()) == ROWS


def test_imports_at_once_and_one_killed(tmp_path):
    files = []
    for number in range(3):
        path = tmp_path / f"{number}.csv"
        with path.open("w", newline="") as file:
            write_samples(samples_of(number) * (300 if number == 2 else 1), file)
        files.append(path)
    arguments = [sys.executable, "-m", "srifty.cli.main", "allreduce", "import"]
    processes = [
        subprocess.Popen([*arguments, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for path in (files[0], files[1], files[0], files[2])
    ]
    time.sleep(0.6)  # the last one is still at its 36,000 rows, or just done: both must be whole
    os.kill(processes[-1].pid, signal.SIGKILL)
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes[:-1]] == [0, 0, 0]
    expected = set(samples_of(0)) | set(samples_of(1))
    assert set(held()) in (expected, expected | set(samples_of(2)))
    assert len(held()) == len(set(held()))
    assert srifty("allreduce", "import", files[2]).code == 0
    assert set(held()) == expected | set(samples_of(2))


class TestList:
    def test_nothing_yet(self):
        outcome = srifty("allreduce", "list")
        assert (outcome.code, outcome.out) == (0, "")
        assert "holds no samples" in outcome.err
        document = json.loads(srifty("allreduce", "list", "--json").out)
        assert document == {"curves": [], "rows": 0, "warnings": [], "store": str(store_path())}
        assert not store_path().exists()

    def test_a_store_that_is_named_must_be_there(self, tmp_path):
        outcome = srifty("allreduce", "list", "--db", tmp_path / "none.db")
        assert outcome.code == 2
        assert "no such file" in outcome.err

    def test_curves(self, log):
        imported(log, *P4D, "--measured-at", "2026-07-20")
        (curve,) = json.loads(srifty("allreduce", "list", "--json").out)["curves"]
        assert curve | {
            "instance_type": "p4d.24xlarge", "library_version": "2.18.5", "world_sizes": [16],
            "least_bytes": SIZES[0], "most_bytes": SIZES[-1], "rows": ROWS,
            "newest": "2026-07-20T00:00:00+00:00",
        } == curve  # fmt: skip
        out = srifty("allreduce", "list").out
        for word in ("p4d.24xlarge", "2.18.5", "1 KiB to 64 MiB", "2026-07-20"):
            assert word in out

    def test_files(self, log):
        imported(log, *P4D)
        (file,) = json.loads(srifty("allreduce", "list", "--files", "--json").out)["files"]
        assert (file["name"], file["rows"], file["rows_held"]) == (str(log), ROWS, ROWS)
        assert file["answers"] == {"instance_type": "p4d.24xlarge", "cloud": "aws"}
        out = srifty("allreduce", "list", "--files").out
        assert file["id"] in out
        assert "instance_type=p4d.24xlarge" in out


class TestForget:
    @pytest.fixture(autouse=True)
    def _stored(self, log):
        imported(log, *P4D)

    @pytest.mark.parametrize(
        "what", [["nccl.log"], ["--instance-type", "p4d.24xlarge"], ["--all"]], ids=str
    )
    def test_with_yes(self, what):
        outcome = srifty("allreduce", "forget", *what, "--yes", "--json")
        assert outcome.code == 0
        document = json.loads(outcome.out)
        assert document["rows"] == ROWS
        assert len(document["files"]) == 1
        assert f"Removed {ROWS} samples" in outcome.err
        assert held() == ()

    def test_nobody_to_ask(self, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        outcome = srifty("allreduce", "forget", "--all")
        assert outcome.code == 2
        assert f"would remove {ROWS} samples" in outcome.err
        assert "--yes" in outcome.err
        assert len(held()) == ROWS

    @pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", ROWS), ("", ROWS)])
    def test_asking(self, monkeypatch, answer, left):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        monkeypatch.setattr("sys.stdin", Terminal(answer))
        outcome = srifty("allreduce", "forget", "--all")
        assert outcome.code == 0
        assert f"Remove {ROWS} samples" in outcome.err
        assert len(held()) == left

    def test_undated_samples_stay_and_are_counted(self):
        outcome = srifty("allreduce", "forget", "--before", "2026-07-20", "--yes")
        assert outcome.code == 0
        assert "nothing was removed" in outcome.err
        assert f"{ROWS} samples have no date" in outcome.err

    @pytest.mark.parametrize(
        ("what", "words"),
        [
            ([], "say what to forget"),
            (["--all", "nccl.log"], "say what to forget"),
            (["none.log"], "holds no import 'none.log'"),
            (["--instance-type", "p5.48xlarge"], "holds no samples of 'p5.48xlarge'"),
            (["--before", "then"], "--before: must be an ISO 8601 date"),
        ],
    )
    def test_bad_use(self, what, words):
        outcome = srifty("allreduce", "forget", *what, "--yes")
        assert outcome.code == 2
        assert words in outcome.err
        assert len(held()) == ROWS


class TestExport:
    def test_goes_round_through_import(self, log, tmp_path):
        imported(log, *P4D, "--measured-at", "2026-07-20", "--placement-group")
        path = tmp_path / "out.csv"
        outcome = srifty("allreduce", "export", "-o", path, "--json")
        assert outcome.code == 0
        assert json.loads(outcome.out)["rows"] == ROWS
        _, document = imported(path)
        assert document["files"][0]["new"] == 0
        other = tmp_path / "other.db"
        imported(path, "--db", other)
        with SampleStore.open(other) as store:
            assert store.samples() == held()

    def test_to_the_terminal(self, log):
        imported(log, *P4D)
        outcome = srifty("allreduce", "export")
        rows = [*csv.DictReader(io.StringIO(outcome.out))]
        assert [row["size_bytes"] for row in rows[::2]] == [str(size) for size in SIZES]
        assert outcome.err == ""

    def test_never_over_a_file_unasked_nor_over_the_store(self, log, tmp_path):
        imported(log, *P4D)
        path = tmp_path / "out.csv"
        path.write_text("mine")
        outcome = srifty("allreduce", "export", "-o", path)
        assert outcome.code == 2
        assert "give --force" in outcome.err
        assert path.read_text() == "mine"
        assert srifty("allreduce", "export", "-o", path, "--force").code == 0
        outcome = srifty("allreduce", "export", "-o", store_path(), "--force")
        assert outcome.code == 2
        assert len(held()) == ROWS

    def test_nothing_to_export(self, tmp_path):
        assert srifty("allreduce", "export").code == 2
        SampleStore.open(store_path()).close()
        outcome = srifty("allreduce", "export", "-o", tmp_path / "x.csv")
        assert outcome.code == 2
        assert "nothing to export" in outcome.err
        assert srifty("allreduce", "export", "--json").code == 2


class TestPlan:
    def test_own_samples_are_used_and_said(self, log, tmp_path):
        job = write_job(tmp_path)
        before = json.loads(srifty("plan", job, "--json").out)
        assert not any("your own" in line for line in before["assumptions"])
        log.write_text(log_text(gpus=1, gpu="Tesla T4", slower=50))
        imported(log, "--instance-type", "g4dn.xlarge")
        for arguments in (["plan", job], ["simulate", job, "--config", "4g4dn.xlarge@16"]):
            document = json.loads(srifty(*arguments, "--json").out)
            assert any(
                "your own" in line and "g4dn.xlarge" in line for line in document["assumptions"]
            )

    def test_a_store_that_the_job_names(self, log, tmp_path):
        log.write_text(log_text(gpus=1, gpu="Tesla T4"))
        imported(log, "--instance-type", "g4dn.xlarge", "--db", tmp_path / "mine.db")
        job = write_job(tmp_path, job_text(extra="allreduce: mine.db"))
        outcome = srifty("plan", job, "--json")
        assert outcome.code == 0
        assert any("mine.db alone" in line for line in json.loads(outcome.out)["assumptions"])
        srifty("allreduce", "forget", "--all", "--yes", "--db", tmp_path / "mine.db")
        outcome = srifty("plan", job)
        assert outcome.code == 2
        assert "mine.db: holds no all_reduce" in outcome.err


@pytest.mark.parametrize("name", ["import", "list", "forget", "export"])
def test_every_command_has_help_with_an_example(name):
    outcome = srifty("allreduce", name, "--help")
    assert outcome.code == 0
    assert f"Example: srifty allreduce {name}" in " ".join(outcome.out.split())
