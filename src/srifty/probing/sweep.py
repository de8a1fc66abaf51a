"""A process group and a grid → allreduce samples (torch).

Every rank runs the same steps. What depends on the clock is decided by rank 0 and told to all; what
a rank alone can see (its time, its memory, a wish to stop, a wrong sum) is raised to the highest of
all ranks before anybody acts on it. So no rank ever waits in an operation that another left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from srifty.errors import InputError, ProbeFailed
from srifty.probing.budget import ladder, longest_s, may_try, share_out, that_fit
from srifty.probing.burst import LongPoint, LongRun, Trend
from srifty.probing.findings import Findings, Place
from srifty.probing.grid import Cell, Grid, is_large
from srifty.probing.group import Backend, Group, open_group
from srifty.probing.launch import Launch
from srifty.probing.timing import Bench
from srifty.probing.watch import ProbeStopped, Watch
from srifty.units import format_duration

Report = Callable[[int, int], None]

_LONG_POINTS = 300
_LEAST_LONG_POINTS = 30


def probe(
    torch: Any,
    launch: Launch,
    backend: Backend,
    grid: Grid,
    place_of: Callable[[Group], Place],
    findings: Findings,
    watch: Watch,
    report: Report,
) -> None:
    """Joins the ranks, measures the grid among them, and parts again.

    Args:
        torch: the module.
        launch: where this process stands.
        backend: the library to measure.
        grid: what to measure.
        place_of: what every sample says, given the group.
        findings: gets the samples as they come; those of rank 0 count.
        watch: is ticked after each agreement, and says when to stop.
        report: is told how many of how many steps are done.

    Raises:
        InputError: the ranks cannot measure this; all raise it together.
        ProbeFailed: a sum was wrong, or a rank was lost.
        ProbeStopped: somebody asked to stop.
    """
    try:
        group = open_group(torch, launch, backend, grid.element)
        findings.notes += group.notes
        Sweep(group, grid, place_of(group), findings, watch, report).run()
        group.close()
    except RuntimeError as error:  # torch's word for a peer that is gone, a time-out, a GPU's fault
        first_sentence = str(error).strip().split(". ", 1)[0].splitlines()[0]
        raise ProbeFailed(
            f"another rank was lost, or the library failed: {first_sentence}"
        ) from error


class Sweep:
    """One probe of one group.

    Args:
        group: all ranks.
        grid: what to measure.
        place: what every sample says.
        findings: gets the samples as they come; those of rank 0 count.
        watch: is ticked after each agreement, and says when to stop.
        report: is told how many of how many steps are done: first trials and samples.
    """

    def __init__(
        self,
        group: Group,
        grid: Grid,
        place: Place,
        findings: Findings,
        watch: Watch,
        report: Report,
    ) -> None:
        self._group = group
        self._grid = grid
        self._place = place
        self._findings = findings
        self._watch = watch
        self._report = report
        self._bench = Bench(group, grid.element)
        self._began_s = time.monotonic()
        self._unmeasured_s = 0.0
        self._measurements = 0
        self._tried = 0

    def run(self) -> None:
        """Measures the grid and, if asked for, the long run.

        Raises:
            InputError: the budget does not suffice for the smallest message.
            ProbeFailed: a sum was wrong.
            ProbeStopped: somebody asked to stop.
        """
        kept, operation_s = self._first_trial()
        self._sample(kept, operation_s, first_run=1)
        if not self._findings.samples:
            raise InputError(
                f"{format_duration(self._grid.budget_s)} and the memory at hand do not suffice for "
                f"one sample of {self._grid.cells[0]}; give more --seconds or smaller --sizes"
            )
        if self._grid.long_s > 0:
            self._long(kept, operation_s)

    def _first_trial(self) -> tuple[list[Cell], list[float]]:
        """Checks and times each cell once, in rising order, until the time or memory ends."""
        grid = self._grid
        before: Cell | None = None
        rung_s = 0.0
        kept: list[Cell] = []
        operation_s: list[float] = []
        rungs = ladder(grid.cells)
        for number, rung in enumerate(rungs):
            most_s = longest_s(before, rung_s, rung.cell)
            why = "the budget"
            go = self._decide(may_try(rung, most_s, operation_s, self._spent_s(), grid))
            if go and not self._all_have_room(rung.cell):
                go, why = 0, "the memory"
            if not go:
                left = [r.cell for r in rungs[number:] if r.in_grid]
                self._note_dropped(left, why)
                break
            if rung.in_grid:
                self._check(rung.cell)
            for _ in range(grid.warmup if rung.in_grid else 1):
                self._operation_s(rung.cell, 1)
            rung_s = self._operation_s(rung.cell, 1)
            before = rung.cell
            self._tried = number + 1
            self._report(self._tried, len(rungs) + len(grid.cells) * grid.repeats)
            if rung.in_grid:
                kept.append(rung.cell)
                operation_s.append(rung_s)
        return kept, operation_s

    def _sample(self, cells: list[Cell], operation_s: list[float], first_run: int) -> None:
        """Takes the samples: all cells once, then all again, and so on.

        So a slow drift of the network falls on all sizes alike; every other round runs downwards,
        so that within a round it favours none.
        """
        repeats, missed = self._grid.repeats, 0
        latest_s = list(operation_s)
        kept = len(cells)
        for round_number in range(repeats):
            inner = self._shares(latest_s[:kept], repeats - round_number)
            if round_number == 0:
                self._note_dropped(cells[len(inner) :], "the budget")
                kept = len(inner)
            missed += kept - len(inner)
            order = range(len(inner))
            for done, i in enumerate(reversed(order) if round_number % 2 else order):
                left_s = self._left_s() - self._overhead_s
                count = self._decide(that_fit(latest_s[i], inner[i], left_s))
                if not count:
                    missed += 1
                    continue
                latest_s[i] = self._operation_s(cells[i], count)
                self._findings.samples.append(
                    self._place.sample(
                        cells[i], latest_s[i], first_run + round_number, datetime.now(UTC)
                    )
                )
                at = self._tried + round_number * kept + done + 1
                self._report(at, self._tried + repeats * kept)
        if missed:
            self._findings.notes.append(
                f"{missed} of {repeats * kept} samples were not taken: operations took longer than "
                "at first, and the time was up (--seconds)."
            )

    def _shares(self, operation_s: Sequence[float], rounds: int) -> list[int]:
        """Returns the operations per sample for the rounds to come; the largest cells may fall."""
        shares = share_out(operation_s, rounds, self._left_s(), self._overhead_s)
        padding = [0] * (len(operation_s) - len(shares))
        kept, *inner = self._group.decided([len(shares), *shares, *padding])
        return inner[:kept]

    def _long(self, cells: Sequence[Cell], operation_s: Sequence[float]) -> None:
        """Repeats one large message; should the link turn out slower than before, measures anew."""
        grid = self._grid
        before: dict[Cell, list[float]] = {}
        for sample in self._findings.samples:
            cell = Cell(sample.size_bytes, sample.concurrent)
            before.setdefault(cell, []).append(sample.time_s)
        least = min(cell.concurrent for cell in cells)
        pairs = [
            (cell, seconds)
            for cell, seconds in zip(cells, operation_s, strict=True)
            if cell.concurrent == least
        ]
        fast = [pair for pair in pairs if pair[1] * _LEAST_LONG_POINTS <= grid.long_s]
        cell, seconds = (fast or pairs[:1])[-1]
        inner = max(1, int(grid.long_s / _LONG_POINTS / seconds))
        before_s = tuple(before.get(cell, ()))
        points: list[LongPoint] = []
        began_s = time.monotonic()
        while self._decide(time.monotonic() - began_s < grid.long_s):
            time_s = self._operation_s(cell, inner)
            at_s = time.monotonic() - began_s
            points.append(LongPoint(at_s, time_s))
            self._findings.long = LongRun(cell, self._place.world_size, tuple(points), before_s)
            self._report(min(int(at_s), int(grid.long_s)), int(grid.long_s) + 1)
        long = self._findings.long
        if long is None:
            return
        # Each rank has clocked the points itself, so the trend is rank 0's to tell.
        if self._decide(long.trend is Trend.DROPPED):
            self._sample_again(cells, operation_s, long)

    def _sample_again(
        self, cells: Sequence[Cell], operation_s: Sequence[float], long: LongRun
    ) -> None:
        """Replaces the samples of large messages, taken in a burst, by ones of the baseline.

        This takes up to the budget once more.
        """
        findings = self._findings
        burst = [sample for sample in findings.samples if is_large(sample.size_bytes)]
        again = {(sample.size_bytes, sample.concurrent) for sample in burst}
        findings.burst = burst
        findings.samples = [s for s in findings.samples if not is_large(s.size_bytes)]
        findings.notes.append(
            f"The bandwidth fell to {long.first_s / long.last_s:.0%} of what it was: "
            f"{len(burst)} samples of 1 MiB and more that were taken before are not kept; "
            "sustained ones were taken instead."
        )
        slower = long.last_s / long.first_s
        large = [
            (cell, seconds * slower)
            for cell, seconds in zip(cells, operation_s, strict=True)
            if (cell.size_bytes, cell.concurrent) in again
        ]
        if not large:
            return
        self._began_s = time.monotonic()
        self._sample(
            [cell for cell, _ in large],
            [seconds for _, seconds in large],
            first_run=self._grid.repeats + 1,
        )

    def _check(self, cell: Cell) -> None:
        wrong = not self._bench.adds_rightly(cell)
        if self._agree([float(wrong)])[0] > 0:
            raise ProbeFailed(
                f"an allreduce of {cell} gave a wrong sum; nothing of this probe is kept, as the "
                "library, a GPU or the network corrupts data"
            )

    def _all_have_room(self, cell: Cell) -> bool:
        return self._agree([float(not self._bench.make_room(cell))])[0] == 0

    def _operation_s(self, cell: Cell, inner: int) -> float:
        """Returns the seconds per operation of the slowest rank."""
        began_s = time.monotonic()
        operation_s = self._agree([self._bench.operation_s(cell, inner)])[0]
        self._unmeasured_s += time.monotonic() - began_s - inner * operation_s
        self._measurements += 1
        return operation_s

    @property
    def _overhead_s(self) -> float:
        """Mean seconds that a measurement took beside its operations: agreeing, mostly."""
        return max(0.0, self._unmeasured_s / max(1, self._measurements))

    def _agree(self, values: Sequence[float]) -> list[float]:
        """Returns the highest of all ranks, place by place; stops all if one was asked to."""
        *highest, stop = self._group.highest([*values, float(self._watch.is_stop_asked)])
        self._watch.tick()
        if stop > 0:
            raise ProbeStopped
        return highest

    def _decide(self, value: int) -> int:
        return self._group.decided([value])[0]

    def _spent_s(self) -> float:
        return time.monotonic() - self._began_s

    def _left_s(self) -> float:
        return self._grid.budget_s - self._spent_s()

    def _note_dropped(self, cells: Sequence[Cell], why: str) -> None:
        if cells:
            words = str(cells[0]) if len(cells) == 1 else f"{cells[0]} to {cells[-1]}"
            self._findings.notes.append(
                f"Not measured, as {why} does not suffice: {words} ({len(cells)} of "
                f"{len(self._grid.cells)} points of the grid)."
            )
