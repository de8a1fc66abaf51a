"""Repeats of configurations as they were measured, and what they say together. Pure but for a file.

A configuration is void by the rules of the testbed: where the CPU, and not the link, set the pace,
where its repeats differ, or where it failed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.testbed.cpu import CpuUse
from benchmarks.testbed.guards import Bounds, Verdict, judge_cpu, judge_repeats

# As in the testbed's campaigns: real-time ranks do not wait for other programs; what they wait for
# each other is told by how long they had no core.
BOUNDS = Bounds(foreign_fraction=1.0, wait_fraction=0.1)


@dataclass(frozen=True)
class Run:
    """One repeat.

    Attributes:
        job: what it belongs to: a case, or an allocation of the case study.
        model: the emulated workload.
        config: in short notation.
        repeat: which one, from 0.
        seconds: of each timed iteration, as the first rank saw it; none where it failed.
        waited_s: how long each rank was ready to run and had no core.
        own_cores: used by the ranks.
        all_cores: used by everything.
        cores: of the machine.
        span_s: over how long those were counted.
        failure: why there are no seconds.
    """

    job: str
    model: str
    config: str
    repeat: int
    seconds: tuple[float, ...]
    waited_s: tuple[float, ...]
    own_cores: float
    all_cores: float
    cores: int
    span_s: float
    failure: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from others."""
        return self.job, self.config, self.repeat

    @property
    def mean_s(self) -> float:
        """Seconds of an iteration."""
        return statistics.fmean(self.seconds)

    @property
    def verdict(self) -> Verdict:
        """Whether it counts by itself."""
        if self.failure:
            return Verdict((f"failed: {self.failure}",))
        use = CpuUse(self.own_cores, self.all_cores, self.cores, self.span_s)
        return judge_cpu(use, self.waited_s, BOUNDS)


@dataclass(frozen=True)
class Measurement:
    """All repeats of a configuration.

    Attributes:
        mean_s: mean of the repeats' means.
        noise: (largest − smallest) / median of those; 0 with one.
        repeats: how many.
        void: why it does not count; empty: it counts.
    """

    mean_s: float
    noise: float
    repeats: int
    void: str

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Measurement:
        """Returns what the repeats of one configuration say together."""
        means = [run.mean_s for run in runs if run.seconds]
        verdict = Verdict()
        for run in runs:
            verdict += run.verdict
        if len(means) > 1:
            verdict += judge_repeats(means, BOUNDS)
        noise = (max(means) - min(means)) / statistics.median(means) if means else 0.0
        return cls(
            statistics.fmean(means) if means else 0.0,
            noise,
            len(means),
            "; ".join(dict.fromkeys(verdict.reasons)),
        )


def measurements(runs: Iterable[Run], job: str) -> dict[str, Measurement]:
    """Returns what was measured of each configuration of a job, by short notation."""
    by_config: dict[str, list[Run]] = {}
    for run in runs:
        if run.job == job:
            by_config.setdefault(run.config, []).append(run)
    return {config: Measurement.of(repeats) for config, repeats in by_config.items()}


def read_runs(path: Path) -> tuple[Run, ...]:
    """Returns the repeats in a file of lines; none where there is no file."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_run(json.loads(line)) for line in lines if line)


def append_run(path: Path, run: Run) -> None:
    """Adds a line to the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def drop_void(path: Path) -> None:
    """Takes all repeats of void configurations out of the file, to be measured once more."""
    runs = read_runs(path)
    jobs = dict.fromkeys(run.job for run in runs)
    void = {
        (job, config)
        for job in jobs
        for config, found in measurements(runs, job).items()
        if found.void
    }
    kept = [run for run in runs if (run.job, run.config) not in void]
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(asdict(run)) + "\n" for run in kept), encoding="utf-8")
    new.replace(path)


def _run(found: Mapping[str, object]) -> Run:
    lists = ("seconds", "waited_s")
    return Run(**{**found, **{name: tuple(found[name]) for name in lists}})  # type: ignore[arg-type]
