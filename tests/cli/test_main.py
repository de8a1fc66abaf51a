import os
import subprocess
import sys

import pytest

import srifty as package
from srifty.cli import main as entry
from srifty.cli import plan as plan_module
from srifty.errors import ModelError
from tests.command import srifty, write_job


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["srifty init -o job.yaml; srifty plan job.yaml", *entry.COMMANDS]),
        (["-h"], ["Commands"]),
        (["plan", "--help"], ["Example: srifty plan job.yaml --set deadline=6h", "--minimize"]),
        (["simulate", "--help"], ["Example: srifty simulate job.yaml --config", "--trace"]),
        (["init", "--help"], ["Example: srifty init -o job.yaml", "--force"]),
        (["--version"], [f"srifty {package.__version__}"]),
    ],
)
def test_help_and_version(arguments, words):
    outcome = srifty(*arguments)
    assert outcome.code == 0
    assert outcome.err == ""
    for word in words:
        assert word in outcome.out
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Usage: srifty"),
        (["fly"], "No such command 'fly'"),
        (["--fly"], "No such option: --fly"),
        (["plan"], "Missing argument"),
        (["plan", "job.yaml", "--minimize", "carbon"], "'carbon' is not one of"),
        (["plan", "job.yaml", "--confidence", "much"], "--confidence"),
        (["plan", "job.yaml", "--top", "0"], "--top"),
        (["simulate", "job.yaml"], "Missing option"),
    ],
)
def test_wrong_use_is_code_2(arguments, words):
    outcome = srifty(*arguments)
    assert outcome.code == 2
    assert words in outcome.err + outcome.out
    assert "Traceback" not in outcome.err


def test_ctrl_c_is_code_130(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_module, "open_job", interrupted)
    outcome = srifty("plan", write_job(tmp_path))
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ZeroDivisionError("oops"), 1, "This is a fault of srifty's"),
        (ModelError("has no data"), 2, "error: has no data"),
    ],
)
def test_faults_and_models_without_an_answer(tmp_path, monkeypatch, error, code, words):
    def failing(*arguments):
        raise error

    monkeypatch.setattr(plan_module, "open_job", failing)
    monkeypatch.delenv("SRIFTY_DEBUG", raising=False)
    outcome = srifty("plan", write_job(tmp_path))
    assert outcome.code == code
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_faults_in_full_on_request(tmp_path, monkeypatch):
    def failing(*arguments):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(plan_module, "open_job", failing)
    monkeypatch.setenv("SRIFTY_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        srifty("plan", write_job(tmp_path))


@pytest.mark.parametrize(
    "environment",
    [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"PYTHONIOENCODING": "ascii"}],
    ids=str,
)
def test_plain_text_without_color_and_in_any_encoding(tmp_path, environment):
    inherited = {
        key: value
        for key, value in os.environ.items()
        if key not in ("FORCE_COLOR", "NO_COLOR", "PYTHONIOENCODING")
    }
    done = subprocess.run(
        [sys.executable, "-m", "srifty.cli.main", "plan", str(write_job(tmp_path))],
        capture_output=True,
        env=inherited | environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
