"""The sweep's decisions, on one rank whose operations only move a clock."""

import itertools
from types import SimpleNamespace

import pytest

from srifty.errors import InputError, ProbeFailed
from srifty.probing import sweep as module
from srifty.probing.findings import Findings, Place
from srifty.probing.grid import Cell, ElementType, Grid
from srifty.probing.sweep import Sweep
from srifty.probing.watch import ProbeStopped, Watch
from srifty.units import KIB, MIB

PLACE = Place(
    "g4dn.xlarge", "aws", "us-east-1", "use1-az1", None, "tcp-socket", "", 2, 2, "T4", "2.21.5",
    "test", "a1", ElementType.FLOAT32,
)  # fmt: skip


class Link:
    """A clock, and a bench whose operations take latency + bytes / rate(now) seconds of it."""

    def __init__(self, rate, latency_s=1e-3):
        self.now_s = 0.0
        self.rate = rate if callable(rate) else lambda now_s: rate
        self.latency_s = latency_s
        self.calls = []
        self.checked = []
        self.wrong = None
        self.most_bytes = None
        self.before_call = lambda number: None

    def monotonic(self):
        return self.now_s

    def make_room(self, cell):
        return self.most_bytes is None or cell.total_bytes <= self.most_bytes

    def adds_rightly(self, cell):
        self.checked.append(cell)
        return cell != self.wrong

    def operation_s(self, cell, inner):
        self.calls.append((cell, inner))
        self.before_call(len(self.calls))
        each_s = self.latency_s + cell.total_bytes / self.rate(self.now_s)
        self.now_s += inner * each_s
        return each_s


class Alone:
    """The agreement of one rank with itself."""

    def decided(self, values):
        return [int(value) for value in values]

    def highest(self, values):
        return [float(value) for value in values]


def run(monkeypatch, link, sizes, **options):
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=link.monotonic))
    monkeypatch.setattr(module, "Bench", lambda group, element: link)
    grid = Grid(tuple(Cell(size) for size in sizes), **options)
    findings, watch, reports = Findings(), Watch(), []
    link.watch, link.findings = watch, findings
    report = lambda done, total: reports.append((done, total))  # noqa: E731
    Sweep(Alone(), grid, PLACE, findings, watch, report).run()
    return findings, reports


def test_rounds_take_every_size_once_and_turn_round(monkeypatch):
    link = Link(rate=1e9)
    findings, reports = run(monkeypatch, link, (4, 64, 1024), repeats=3)
    sizes = [sample.size_bytes for sample in findings.samples]
    assert sizes == [4, 64, 1024, 1024, 64, 4, 4, 64, 1024]
    assert [sample.run for sample in findings.samples] == ["a1/1"] * 3 + ["a1/2"] * 3 + ["a1/3"] * 3
    assert findings.notes == []
    tried = 5  # the three, and a step between each two
    assert [done for done, _ in reports] == list(range(1, tried + 9 + 1))
    assert {total for _, total in reports} == {tried + 9}


def test_a_sample_says_all_that_is_known(monkeypatch):
    findings, _ = run(monkeypatch, Link(rate=1e9), (MIB,), repeats=1)
    (sample,) = findings.samples
    assert sample.time_s == pytest.approx(1e-3 + MIB / 1e9)
    assert (sample.instance_type, sample.vms, sample.world_size) == ("g4dn.xlarge", 2, 2)
    assert (sample.dtype, sample.in_place, sample.concurrent) == ("float", True, 1)
    assert sample.measured_at.utcoffset().total_seconds() == 0


def test_every_size_is_checked_and_warmed_up(monkeypatch):
    link = Link(rate=1e9)
    run(monkeypatch, link, (4, 16), repeats=1, warmup=4)
    assert link.checked == [Cell(4), Cell(16)]
    assert [inner for cell, inner in link.calls if cell == Cell(4)][:5] == [1] * 5


@pytest.mark.parametrize("budget_s", [0.5, 2.0, 10.0, 60.0])
@pytest.mark.parametrize("rate", [1e6, 12.5e6, 1e9])
def test_the_budget_holds_and_the_largest_are_dropped(monkeypatch, budget_s, rate):
    link = Link(rate)
    sizes = [4 << i for i in range(28)]
    findings, _ = run(monkeypatch, link, sizes, budget_s=budget_s)
    assert link.now_s <= budget_s
    measured = sorted({sample.size_bytes for sample in findings.samples})
    assert measured == sizes[: len(measured)]
    dropped = [note for note in findings.notes if note.startswith("Not measured")]
    assert bool(dropped) == (len(measured) < len(sizes))
    counts = [sum(s.size_bytes == size for s in findings.samples) for size in measured]
    assert counts == [5] * len(measured)


def test_a_slow_link_is_noticed_before_it_gets_a_large_message(monkeypatch):
    link = Link(rate=1e6)
    with pytest.raises(InputError, match="--seconds"):
        run(monkeypatch, link, (512 * MIB,), budget_s=30.0)
    assert max(cell.total_bytes for cell, _ in link.calls) <= 4 * MIB
    assert link.now_s < 30.0


def test_too_short_a_budget_is_an_error(monkeypatch):
    with pytest.raises(InputError, match="4 B; give more --seconds"):
        run(monkeypatch, Link(rate=1e9, latency_s=1.0), (4,), budget_s=2.0)


def test_a_link_that_slows_down_meanwhile_loses_repeats_and_says_so(monkeypatch):
    link = Link(rate=lambda now_s: 1e9 if now_s < 2.0 else 1e6)
    findings, _ = run(monkeypatch, link, (4, 4 * KIB, 4 * MIB), budget_s=20.0, repeats=200)
    assert link.now_s < 20.0 + 5.0  # one operation was under way when the time was up
    assert len(findings.samples) < 600
    (note,) = findings.notes
    assert f"{600 - len(findings.samples)} of 600 samples were not taken" in note


def test_memory_that_lacks_ends_the_grid(monkeypatch):
    link = Link(rate=1e9)
    link.most_bytes = MIB
    findings, _ = run(monkeypatch, link, (4 * KIB, MIB, 2 * MIB))
    assert {sample.size_bytes for sample in findings.samples} == {4 * KIB, MIB}
    assert findings.notes == [
        "Not measured, as the memory does not suffice: 2 MiB (1 of 3 points of the grid)."
    ]


def test_a_wrong_sum_ends_all_and_nothing_is_kept(monkeypatch):
    link = Link(rate=1e9)
    link.wrong = Cell(64)
    with pytest.raises(ProbeFailed, match="64 B gave a wrong sum"):
        run(monkeypatch, link, (4, 64))
    assert link.findings.samples == []


def test_the_wish_to_stop_ends_it_at_the_next_operation(monkeypatch):
    link = Link(rate=1e9)
    first = 2 * 3  # of each size: two to warm up, one timed
    link.before_call = lambda number: number == first + 4 and link.watch.ask_to_stop()
    with pytest.raises(ProbeStopped):
        run(monkeypatch, link, (4, 32))
    assert len(link.findings.samples) == 3
    assert len(link.calls) == first + 4


def test_a_burst_is_replaced_by_the_baseline(monkeypatch):
    drop_at_s = 20.0
    link = Link(rate=lambda now_s: 1e9 if now_s < drop_at_s else 2e8, latency_s=1e-5)
    sizes = (4 * KIB, 256 * KIB, MIB, 16 * MIB)
    findings, _ = run(monkeypatch, link, sizes, budget_s=15.0, long_s=60.0)
    large = [sample for sample in findings.samples if sample.size_bytes >= MIB]
    small = [sample for sample in findings.samples if sample.size_bytes < MIB]
    assert len(small) == 10
    assert {sample.run for sample in small} == {f"a1/{r}" for r in range(1, 6)}
    assert len(findings.burst) == 10
    assert {sample.run for sample in large} == {f"a1/{r}" for r in range(6, 11)}
    for sample in large:
        assert sample.time_s == pytest.approx(1e-5 + sample.size_bytes / 2e8)
    (note,) = findings.notes
    assert "fell to 20% of what it was: 10 samples" in note


def test_a_steady_long_run_changes_nothing(monkeypatch):
    findings, _ = run(monkeypatch, Link(rate=1e9), (4 * KIB, 16 * MIB), long_s=5.0)
    assert len(findings.samples) == 10
    assert findings.burst == []
    assert findings.long.cell == Cell(16 * MIB)
    assert findings.long.points[-1].at_s >= 5.0


def test_the_long_run_takes_a_size_of_which_enough_fit(monkeypatch):
    # 16 MiB take 16.8 s, of which no 30 fit into a minute; 1 MiB takes 1.05 s.
    findings, _ = run(
        monkeypatch, Link(rate=1e6), (MIB, 16 * MIB), budget_s=1000.0, repeats=1, long_s=60.0
    )
    assert findings.long.cell == Cell(MIB)
    times = [point.at_s for point in findings.long.points]
    assert all(before < after for before, after in itertools.pairwise(times))
