"""Runs for the cases: `srifty run` on the local back end, with a scenario."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from srifty.cloud.local.processes import kill_all, tagged
from srifty.cloud.local.run_folder import RunFolder
from tests.command import Outcome, srifty

CONTROL = Path(__file__).parents[1] / "control"
ALONE, TOGETHER = CONTROL / "played_worker.py", CONTROL / "played_group.py"


@contextmanager
def own_runs(folder: Path, monkeypatch) -> Generator[Path]:
    """Runs and catalog of a folder; what they leave behind is killed."""
    monkeypatch.setenv("SRIFTY_RUNS", str(folder / "runs"))
    monkeypatch.setenv("SRIFTY_CATALOG", str(folder / "catalog.csv"))
    try:
        yield folder
    finally:
        for run in (folder / "runs").glob("*/vms"):
            for files in RunFolder(run.resolve()).all_vms():
                kill_all(tagged(files.tag))


def run(
    path: Path,
    *options: Any,
    scenario: dict[str, Any] | None = None,
    script: Path = ALONE,
    steps: int = 30,
    every: int = 5,
    name: str = "r1",
) -> Outcome:
    """Runs a job file with a worker that needs no torch; the run is called `r1`."""
    if scenario is not None:
        file = path.with_name("scenario.yaml")
        file.write_text(json.dumps(scenario), encoding="utf-8")
        options = (*options, "--scenario", file)
    return srifty(
        "run", "--yes", "--name", name, "--play-gpus", "--launcher", "plain", *options, path,
        "--", script, steps, every,
    )  # fmt: skip


def status(name: str = "r1") -> dict[str, Any]:
    """What `srifty status --json` says of a run."""
    return json.loads(srifty("status", name, "--json").out)


def decisions(document: dict[str, Any], cause: str) -> list[dict[str, Any]]:
    """The decisions of a run that were made for a cause."""
    return [decision for decision in document["decisions"] if decision["cause"] == cause]
