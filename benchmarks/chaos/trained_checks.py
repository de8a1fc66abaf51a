"""What must be so after a disturbed run that trained a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.chaos.lines import lines_of
from benchmarks.chaos.played_run import EVERY, PlayedRun
from benchmarks.chaos.toy import BATCH

# Shares change the order in which gradients are added up, in single precision.
_FLOAT_NOISE = 1e-5


def trained_problems(run: PlayedRun) -> list[str]:
    """Compares a run's samples and final parameters with those of one undisturbed process."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder)
        (alone / "go").touch()
        subprocess.run(
            [sys.executable, run.script, str(run.steps), str(EVERY), str(alone / "dealt"), "0"],
            env={
                **os.environ,
                "SRIFTY_SHARES": str(BATCH),
                "SRIFTY_CHECKPOINT": str(alone / "checkpoints"),
                "SRIFTY_PROGRESS": str(alone / "progress"),
            },
            check=True,
            capture_output=True,
        )
        wanted = {step: parts[0][1] for step, parts in _dealt(alone / "dealt").items()}
        right = json.loads((alone / "final").read_text())
    final = run.dealt.with_name("final")
    if not final.exists():
        return ["no final parameters were written"]
    came = json.loads(final.read_text())
    found: list[str] = []
    furthest = max(abs(one - other) for one, other in zip(right, came, strict=True))
    if furthest > _FLOAT_NOISE:
        found.append(f"parameters are {furthest:.1e} from those of an undisturbed run")
    dealt = _dealt(run.dealt)
    for step, samples in wanted.items():
        newest: list[int] = []
        for _, part in sorted(dealt.get(step, []), reverse=True):
            newest += part if len(newest) < BATCH else []
        if sorted(newest) != sorted(samples):
            found.append(f"step {step}: samples lost or dealt twice")
    return found[:3]


def _dealt(folder: Path) -> dict[int, list[tuple[float, list[int]]]]:
    """Returns what was dealt in each step: when, and which samples."""
    steps: dict[int, list[tuple[float, list[int]]]] = {}
    for file in folder.glob("*"):
        for line in lines_of(file):
            steps.setdefault(line["step"], []).append((line["at"], line["samples"]))
    return steps
