"""Plans that the command wrote, once for all tests of their pages."""

from __future__ import annotations

import json

import pytest

from tests.command import job_text, profile_document, srifty, write_job

NAME = 'a <script>alert("x")</script> & co'


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Folder with `limited.json`, `free.json` and `none.json`: plans of the small job."""
    folder = tmp_path_factory.mktemp("plans")
    text = job_text(
        ("name: toy", f"name: {json.dumps(NAME)}"),
        ("[on-demand, spot]", "[spot]"),
        ("{g4dn.xlarge: 4}", "{g4dn.xlarge: 4, g4dn.2xlarge: 2}"),
        extra="deadline: 1h\nbudget_usd: 2\nextra_usd_per_hour: 0.25",
    )
    profile = profile_document(input_samples_per_s_per_vcpu=1000.0)
    job = write_job(folder, text, profile)
    for name, settings, code in (
        ("limited", ["--explain"], 0),
        ("free", ["--set", "deadline=null", "--set", "budget_usd=null"], 0),
        ("none", ["--set", "deadline=1ms"], 3),
    ):
        outcome = srifty("plan", job, "-o", folder / f"{name}.json", *settings)
        assert outcome.code == code, outcome.err
    return folder
