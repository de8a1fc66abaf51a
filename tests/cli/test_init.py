from pathlib import Path

from srifty.files import read_job
from tests.command import srifty

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet50.yaml"


def test_what_is_written_is_the_example_and_can_be_planned(tmp_path):
    path = tmp_path / "job.yaml"
    outcome = srifty("init", "-o", path)
    assert outcome.code == 0
    assert outcome.out == ""
    assert f"srifty plan {path}" in outcome.err
    assert path.read_text() == EXAMPLE.read_text()
    assert read_job(path).job.name == "resnet50"
    assert srifty("plan", path, "--json").code == 0


def test_a_file_is_not_replaced_unless_forced(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("mine")
    outcome = srifty("init", "-o", path)
    assert outcome.code == 2
    assert "exists already; give --force" in outcome.err
    assert path.read_text() == "mine"
    assert srifty("init", "-o", path, "--force").code == 0
    assert path.read_text() != "mine"


def test_a_folder_that_is_not_there(tmp_path):
    outcome = srifty("init", "-o", tmp_path / "none" / "job.yaml")
    assert outcome.code == 2
    assert "cannot be written: No such file or directory" in outcome.err
