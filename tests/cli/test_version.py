"""Each file that is written says which version of srifty wrote it."""

from __future__ import annotations

import json

from srifty import __version__
from srifty.files import read_profile
from srifty.files.profile_writer import write_profile
from tests.command import PROFILE, srifty, write_job


def test_the_command_says_it():
    assert srifty("--version").out == f"srifty {__version__}\n"


def test_plans_traces_and_what_is_exported(tmp_path):
    job, plan, trace = write_job(tmp_path), tmp_path / "plan.json", tmp_path / "trace.json"
    assert srifty("plan", job, "-o", plan).code == 0
    assert json.loads(plan.read_text())["srifty"] == __version__
    assert srifty("simulate", job, "--config", "1g4dn.xlarge@64", "--trace", trace).code == 0
    assert json.loads(trace.read_text())["otherData"]["srifty"] == __version__
    for kind in ("torchrun", "sbatch", "kubernetes", "skypilot"):
        made = srifty("export", plan, "--format", kind, "--", "train.py")
        assert f"(srifty {__version__})" in made.out, made.err


def test_profiles(tmp_path):
    given, written = tmp_path / "given.json", tmp_path / "written.json"
    given.write_text(json.dumps(PROFILE))
    profile = read_profile(given)
    write_profile(profile, written)
    assert json.loads(written.read_text())["srifty"] == __version__
    assert read_profile(written) == profile
