import json

import pytest
import yaml

from srifty.cloud.export import ExportFormat
from tests.command import job_text, srifty, write_job


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.json"
    outcome = srifty("plan", write_job(tmp_path), "-o", path)
    assert outcome.code == 0, outcome.err
    return path


@pytest.mark.parametrize("kind", ExportFormat)
def test_a_plan_of_ours_goes_to_every_format(plan, kind):
    outcome = srifty("export", plan, "--format", kind, "--", "run.py", "--lr", "0.1")
    assert outcome.code == 0, outcome.err
    assert "run.py" in outcome.out
    assert "--lr" in outcome.out
    assert "Start: " in outcome.err
    shares = ",".join(
        str(samples)
        for group in json.loads(plan.read_text())["plan"]["groups"]
        for samples in group["local_batch"] * group["count"]
    )
    assert shares in outcome.out
    if kind not in (ExportFormat.TORCHRUN, ExportFormat.SBATCH):
        assert isinstance(yaml.safe_load(outcome.out), dict)


def test_json_has_the_text_and_what_to_know(plan):
    outcome = srifty("export", plan, "--format", "torchrun", "--json")
    document = json.loads(outcome.out)
    assert outcome.err == ""
    assert document.keys() == {"format", "file_name", "text", "start", "notes"}
    assert "train.py" in document["text"]
    assert "No script was named" in document["notes"][0]


def test_a_file_is_written(plan, tmp_path):
    path = tmp_path / "out.sh"
    outcome = srifty("export", plan, "--format", "torchrun", "-o", path, "--", "run.py")
    assert (outcome.code, outcome.out) == (0, "")
    assert path.read_text().startswith("#!")
    assert f"bash {path} " in outcome.err


def test_another_jobs_settings_may_be_used(plan, tmp_path):
    job = write_job(tmp_path, job_text(extra="run: {setup: [make data]}"))
    outcome = srifty("export", plan, "--format", "torchrun", "--job", job)
    assert "\nmake data\n" in outcome.out
    assert "make data" not in srifty("export", plan, "--format", "torchrun").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "slurm"), "slurm"),
        (("--format", "ray", "--zone", "x"), "--zone: takes ID=NAME"),
        (("--format", "torchrun", "-o", "/nowhere/x"), "/nowhere/x: cannot be written"),
        ((), "--format"),
    ],
)
def test_bad_options_are_said(plan, arguments, words):
    outcome = srifty("export", plan, *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_a_file_that_is_no_plan_is_said(tmp_path):
    outcome = srifty("export", write_job(tmp_path), "--format", "torchrun")
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {tmp_path / 'job.yaml'}: is not JSON")
