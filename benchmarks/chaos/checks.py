"""What must be so after a disturbed run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from benchmarks.chaos.lines import lines_of
from benchmarks.chaos.played_run import PlayedRun, until
from benchmarks.chaos.toy import BATCH, undisturbed
from benchmarks.chaos.trained_checks import trained_problems

_LEAST_BILLED_S = 60.0
_FREE_BEFORE_S = 3600.0


def problems(run: PlayedRun) -> list[str]:
    """Returns what is not as it must be after a run's end; nothing: all is well."""
    if run.trained:
        found = [*trained_problems(run), *_wrong_bill(run)]
    else:
        found = [*_wrong_samples(run), *_wrong_parameters(run), *_wrong_bill(run)]
    if not until(lambda: not run.processes(), 20):
        found.append(f"{len(run.processes())} processes are left")
    return found


def _wrong_samples(run: PlayedRun) -> list[str]:
    """Checks that in the world that made a step for good, each sample was dealt once."""
    made: dict[int, list[tuple[float, int, int]]] = {}
    for file in run.dealt.glob("*"):
        for line in lines_of(file):
            made.setdefault(line["step"], []).append((line["at"], line["first"], line["count"]))
    found: list[str] = []
    for step in range(run.steps):
        newest_first = sorted(made.get(step, []), reverse=True)
        parts = [(first, count) for _, first, count in newest_first]
        if not _covers(parts, step * BATCH):
            found.append(f"step {step}: samples lost or dealt twice")
    return found[:3]


def _covers(parts: Sequence[tuple[int, int]], first: int) -> bool:
    """Whether the newest parts, taken until they reach the global batch, are exactly that."""
    chosen: list[tuple[int, int]] = []
    for part in parts:
        if sum(count for _, count in chosen) >= BATCH:
            break
        chosen.append(part)
    end = first
    for begins, count in sorted(chosen):
        if begins != end:
            return False
        end = begins + count
    return end == first + BATCH


def _wrong_parameters(run: PlayedRun) -> list[str]:
    """Checks the parameters against those of an undisturbed run."""
    last = run.place / "vms" / "checkpoints" / f"step-{run.steps:012d}" / "parameters"
    if not last.exists():
        return ["the last step is not saved"]
    if int(last.read_text()) != undisturbed(run.steps):
        return ["the parameters are not those of an undisturbed run"]
    return []


def _wrong_bill(run: PlayedRun) -> list[str]:
    """Checks the ledger's bill against what the VMs' own journal says.

    The rule is AWS's: by the second from running to stopped, at least a minute; a spot VM that is
    taken back within its first hour is free.
    """
    with run.ledger() as ledger:
        bill = ledger.bill(ledger.run().ended_s or 0.0)
    journal = lines_of(run.place / "vms" / "journal.jsonl")
    usd = 0.0
    for line in bill.vms:
        own = [entry for entry in journal if entry["vm"] == line.name]
        running_s = [entry["at_s"] for entry in own if entry["kind"] == "launched"]
        stopped_s = [entry["stopped_s"] for entry in own if entry["stopped_s"] is not None]
        if not running_s:
            continue
        if not stopped_s:
            return [f"{line.name} has no end"]
        text = (run.place / "vms" / "vms" / line.name / "request.json").read_text()
        request = json.loads(text)
        ran_s = stopped_s[0] - running_s[0]
        taken = any(entry["kind"] == "preempted" for entry in own)
        if taken and request["market"] == "spot" and ran_s < _FREE_BEFORE_S:
            continue
        usd += max(_LEAST_BILLED_S, -(-ran_s // 1)) * request["usd_per_hour"] / 3600
    if abs(usd - bill.usd) >= 0.005:
        return [f"the ledger says {bill.usd:.4f} USD, the journal {usd:.4f}"]
    return []
