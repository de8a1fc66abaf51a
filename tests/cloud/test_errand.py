from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from srifty.cloud import errand


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_PROGRESS", str(tmp_path))
    return tmp_path


def run(monkeypatch, rank, text, code=0):
    """Runs the errand with a command that writes a text; what the command was."""
    asked = []

    def call(words):
        asked.append(words)
        if text is not None:
            Path(words[-1]).write_text(text, encoding="utf-8")
        return code

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr("sys.argv", ["errand", "7", ".csv", "probe", "--seconds", "1"])
    monkeypatch.setattr(subprocess, "call", call)
    assert errand.main() == code
    return asked[0]


def test_the_first_worker_logs_what_was_written(folder, monkeypatch):
    words = run(monkeypatch, "0", "a,b\n1,2\n", code=4)
    assert words[1:6] == ["-m", "srifty", "probe", "--seconds", "1"]
    assert words[6] == "-o"
    assert words[7].endswith(".csv")
    log = (folder / "worker-00000.jsonl").read_text()
    (found,) = [errand.found_in(line) for line in log.splitlines() if line]
    assert found == ("7", "a,b\n1,2\n")


@pytest.mark.parametrize(("rank", "text"), [("1", "a"), ("0", None)])
def test_others_and_what_wrote_nothing_log_nothing(folder, monkeypatch, rank, text):
    run(monkeypatch, rank, text)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("line", ["", "{", "[1]", json.dumps({"step": 3, "at": 1.0})])
def test_other_lines_tell_of_no_errand(line):
    assert errand.found_in(line) is None
