"""What became of each case: lines of a file while the sweep runs, sums at its end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Result:
    """One case: what was forecast, then what was measured.

    Attributes:
        part: what of it had been probed; see `cases`.
        label: in words.
        model: the workload.
        config: as `srifty simulate --config` takes it.
        mode: `buckets` or `per layer`.
        slots: transfers at a time; 0: unlimited.
        world_size: ranks.
        family: the network.
        delay_ms: its one-way latency.
        rates_mbit: of each rank's link.
        gpus: of each rank.
        varied: whether VMs and steps were drawn.
        measured_s: mean of all timed iterations.
        repeats_s: mean of each repeat.
        step_std_s: standard deviation of an iteration.
        iterations: timed ones.
        forecast_s: by predictor.
        p90_s: Srifty's nine-in-ten bound for the mean.
        exposed_s: Srifty's forecast of the exchange that computation does not hide.
        latency_share: of the transfers' own times, what is not bytes over bandwidth.
        own_cores: used by the ranks.
        all_cores: used by everything.
        waited: part of the time that the rank which waited longest had no core.
        void: why it does not count; empty: it counts.
    """

    part: str
    label: str
    model: str
    config: str
    mode: str
    slots: int
    world_size: int
    family: str
    delay_ms: float
    rates_mbit: tuple[float, ...]
    gpus: tuple[str, ...]
    varied: bool
    measured_s: float
    repeats_s: tuple[float, ...]
    step_std_s: float
    iterations: int
    forecast_s: dict[str, float]
    p90_s: float
    exposed_s: float
    latency_share: float
    own_cores: float
    all_cores: float
    waited: float
    void: str

    def error(self, predictor: str) -> float:
        """Returns forecast over measurement, minus 1."""
        return self.forecast_s[predictor] / self.measured_s - 1

    def to_text(self) -> str:
        """Returns one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns what `to_text` wrote."""
        found = json.loads(text)
        lists = ("rates_mbit", "gpus", "repeats_s")
        return cls(**{**found, **{name: tuple(found[name]) for name in lists}})


def read_results(path: Path) -> tuple[Result, ...]:
    """Returns the results in a file of lines; none where there is no file."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Result.from_text(line) for line in lines if line)


def append_result(path: Path, result: Result) -> None:
    """Adds a line to the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(result.to_text() + "\n")


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Replaces the file, all of it at once."""
    new = path.with_suffix(".new")
    new.write_text("".join(result.to_text() + "\n" for result in results), encoding="utf-8")
    new.replace(path)


def mape(results: Sequence[Result], predictor: str) -> float:
    """Returns the mean absolute relative error."""
    return sum(abs(result.error(predictor)) for result in results) / len(results)


def worst(results: Sequence[Result], predictor: str) -> float:
    """Returns the largest absolute relative error."""
    return max(abs(result.error(predictor)) for result in results)
