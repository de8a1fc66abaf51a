"""The command line run in this process, and small files for it to read."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
from dataclasses import dataclass
from unittest import mock

from srifty.cli.main import main

JOB = """\
name: toy
workload: toy.json
global_batch: 64
iterations: 100
overheads: {launch: 0s}
offers:
  markets: [on-demand, spot]
  quota: {g4dn.xlarge: 4}
"""

PROFILE = {
    "format": "srifty-profile/1",
    "workload": "toy",
    "gpu": "T4",
    "source": "made up",
    "max_batch": 64,
    "latencies": [
        {"batch": 1, "forward_s": 0.01, "backward_s": 0.02},
        {"batch": 32, "forward_s": 0.1, "backward_s": 0.2},
    ],
    "gradients": [
        {"name": "fc.weight", "bytes": 1000, "ready": 0.5},
        {"name": "conv.weight", "bytes": 1000000, "ready": 1.0},
    ],
}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def srifty(*arguments) -> Outcome:
    """Runs `srifty ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["srifty", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return Outcome(code, out.getvalue(), err.getvalue())


def job_text(*replacements: tuple[str, str], extra: str = "") -> str:
    """The small job file with some of its text replaced and some lines added at the top level."""
    text = JOB
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return f"{extra}\n{text}" if extra else text


def profile_document(**changes) -> dict:
    """The small profile with some keys replaced; `None` removes a key."""
    document = copy.deepcopy(PROFILE) | changes
    return {key: value for key, value in document.items() if value is not None}


def write_job(folder, text=JOB, profile=PROFILE):
    """Writes a job file and its profile; returns the job's path."""
    (folder / "toy.json").write_text(
        profile if isinstance(profile, str) else json.dumps(profile), encoding="utf-8"
    )
    path = folder / "job.yaml"
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text, encoding="utf-8")
    return path
