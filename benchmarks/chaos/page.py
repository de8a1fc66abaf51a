"""The page of results: what was done to runs, how they ended, and how soon it was noticed."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.chaos.schedule import KINDS, Verdict
from srifty import __version__


def page(verdicts: Sequence[Verdict]) -> str:
    """Returns the page, in Markdown."""
    rows = [_row(kind, verdicts) for kind in KINDS]
    well = sum(not verdict.problems for verdict in verdicts)
    acts = sum(deed.is_done for verdict in verdicts for deed in verdict.deeds)
    seconds = [verdict.seconds for verdict in verdicts] or [0.0]
    left = [
        deed.noticed_s
        for verdict in verdicts
        for deed in verdict.deeds
        if deed.kind == "deserted" and deed.noticed_s is not None
    ]
    wrong = [
        f"* schedule {verdict.seed} ({', '.join(deed.kind for deed in verdict.deeds)}): "
        f"{'; '.join(verdict.problems)}"
        for verdict in verdicts
        if verdict.problems
    ]
    lines = [
        "# Chaos: runs that are disturbed at random",
        "",
        f"`python -m benchmarks.chaos --schedules {len(verdicts)}`",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}; Srifty {__version__}, Python {platform.python_version()}, "
        f"Linux {platform.release()}, {os.cpu_count()} cores of {platform.machine()}, "
        f"load average {os.getloadavg()[1]:.1f}.",
        "",
        f"**{well} of {len(verdicts)} schedules ended as they must**, with {acts} disturbances: "
        "the job ended; every sample of every step was dealt to exactly one worker; the final "
        "parameters equal those of an undisturbed run, exactly; the ledger's bill is that of the "
        "VMs' own journal to the cent; and no process was left.",
        "",
        "| what was done | times | of them, the run ended as it must | noticed within, at worst | "
        "resumed within, at worst |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "Times are real seconds, whatever the run's clock, each with how many were taken: where a "
        "run ended first, where a VM was on its way out, or where a stopped process or a cut link "
        "went on within seconds, there was nothing to notice. "
        "What was noticed is the loss of a VM, or for workers that their world cannot go on. A "
        "controller resumed when it had read the ledger, done again what was half done, and was "
        "in charge.",
    ]
    if left:
        lines += [
            "",
            "A deserted run's VMs must end themselves 15 minutes after they last heard of their "
            f"controller: the last one did after {max(left) / 60:.1f} minutes, by a clock at 60 "
            "times real time.",
        ]
    lines += [
        "",
        f"A schedule took {statistics.median(seconds):.1f} s at the median and {max(seconds):.1f} "
        "s at most, two side by side. The workers are small processes without torch that exchange "
        "over TCP as an allreduce does; links are network namespaces that are cut at the bridge.",
    ]
    if wrong:
        lines += ["", "## What went wrong", "", *wrong]
    return "\n".join(lines) + "\n"


def _row(kind: str, verdicts: Sequence[Verdict]) -> str:
    done = [
        (deed, not verdict.problems)
        for verdict in verdicts
        for deed in verdict.deeds
        if deed.kind == kind and deed.is_done
    ]
    noticed = [d.noticed_s for d, _ in done if d.noticed_s is not None and kind != "deserted"]
    resumed = [deed.resumed_s for deed, _ in done if deed.resumed_s is not None]
    ended = sum(is_well for _, is_well in done)
    return f"| {kind} | {len(done)} | {ended} | {_worst(noticed)} | {_worst(resumed)} |"


def _worst(seconds: Sequence[float]) -> str:
    """Returns the longest of some times, and of how many."""
    return f"{max(seconds):.1f} s of {len(seconds)}" if seconds else ""
