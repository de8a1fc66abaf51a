import pytest

from srifty.core.settings import RunSettings
from srifty.errors import InputError
from srifty.files import read_job
from tests.command import job_text, write_job


def settings(folder, run):
    return read_job(write_job(folder, job_text(extra=f"run: {run}"))).settings


def test_without_a_run_block_nothing_is_set(tmp_path):
    assert read_job(write_job(tmp_path)).settings == RunSettings()


def test_what_the_contract_names_is_read(tmp_path):
    run = """{image: null, setup: ["pip install -r requirements.txt"], workdir: code, data: null,
      checkpoint: s3://bucket/run1, env: {A: "1"}, secrets: [HF_TOKEN], ssh_user: ubuntu,
      subnet: subnet-1, security_groups: [sg-1], instance_profile: trainer, tags: {team: vision}}"""
    assert settings(tmp_path, run) == RunSettings(
        setup=("pip install -r requirements.txt",),
        workdir="code",
        checkpoint="s3://bucket/run1",
        env=(("A", "1"),),
        secrets=("HF_TOKEN",),
        ssh_user="ubuntu",
        subnet="subnet-1",
        security_groups=("sg-1",),
        instance_profile="trainer",
        tags=(("team", "vision"),),
    )


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("{images: x}", "run.images: unknown key"),
        ("{setup: make}", "run.setup: must be a list"),
        ("{setup: [3]}", "run.setup.0: must be a shell command, not 3"),
        ("{setup: ['']}", "run.setup.0: must be a shell command"),
        ("{env: {A: 1}}", "run.env: A: must be a text, not 1; put it in quotes"),
        ("{env: [A]}", "run.env: must map names to texts"),
        ("{env: {A-B: x}}", "'A-B' is no name of a variable"),
        ("{env: {SRIFTY_SHARES: x}}", "SRIFTY_SHARES is set for each run; take it out"),
        ("{env: {RANK: '0'}}", "RANK is set for each run"),
        ("{env: {A: x}, secrets: [A]}", "run: A: named in both env and secrets"),
        ("{secrets: [1]}", "run.secrets: entry 0 is no name of a variable"),
        ("{tags: {1: x}}", "run.tags: names are texts, not 1"),
        ("{workdir: 3}", "run.workdir: must be a valid string"),
        ("{image: ''}", "run.image: must be a text"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(tmp_path, run, words):
    with pytest.raises(InputError) as caught:
        settings(tmp_path, run)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "run", ["{secrets: ['HF_TOKEN=hunter2']}", "{secrets: {HF_TOKEN: hunter2}}"]
)
def test_a_secrets_value_is_refused_and_not_shown(tmp_path, run):
    with pytest.raises(InputError) as caught:
        settings(tmp_path, run)
    assert "run.secrets" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_errors_of_the_run_are_told_with_the_others(tmp_path):
    with pytest.raises(InputError) as caught:
        settings(tmp_path, "{env: {A: x}, secrets: [A]}\nobserved: none.csv")
    assert len(caught.value.problems) == 2
