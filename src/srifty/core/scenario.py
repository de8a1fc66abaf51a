"""What a played cloud does: how long VMs boot, which are refused, slowed, taken back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.events import Pool
from srifty.core.offers import Market


class Act(StrEnum):
    """What happens to a VM.

    `PREEMPT`: the cloud takes it back, `notice_s` after it said so. `SLOW`: its workers take
    `factor` times as long, for `lasts_s`. `HANG`: all its processes stop without an end. `DIE`: it
    is gone without a word. `KILL_WORKER`: one worker is killed. `DELAY`: each of its exchanges
    takes `by_s` longer, for `lasts_s`, so that all who train with it wait: a slow network. `CUT`:
    its link is cut, for `lasts_s`.
    """

    PREEMPT = "preempt"
    SLOW = "slow"
    HANG = "hang"
    DIE = "die"
    KILL_WORKER = "kill-worker"
    DELAY = "delay"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happens to one VM; exactly one of `at_s`, `after_s`, `at_iteration` is given.

    Attributes:
        act: what happens.
        at_s: when, in seconds since the command.
        after_s: when, in seconds since the VM began to run.
        at_iteration: when, in iterations of the job that were made.
        notice_s: seconds between a notice and the end; 0: no notice.
        factor: how many times as long a slow VM takes.
        lasts_s: seconds for which a VM is slow, its exchanges are, or its link is cut; None: for
            good.
        by_s: seconds by which an exchange takes longer.
    """

    act: Act
    at_s: float | None = None
    after_s: float | None = None
    at_iteration: int | None = None
    notice_s: float = 0.0
    factor: float = 1.0
    lasts_s: float | None = None
    by_s: float = 0.0

    def __post_init__(self) -> None:
        times = [self.at_s, self.after_s, self.at_iteration]
        require(
            sum(time is not None for time in times) == 1,
            f"{self.act}: say when, by one of at, after, at_iteration",
        )
        for name, value in (
            ("at", self.at_s),
            ("after", self.after_s),
            ("at_iteration", self.at_iteration),
            ("for", self.lasts_s),
        ):
            if value is not None:
                require_not_negative(f"{self.act}: {name}", value)
        require_not_negative(f"{self.act}: notice", self.notice_s)
        require(self.factor >= 1, f"{self.act}: factor must be 1 or more, not {self.factor!r}")
        require(
            (self.act is Act.SLOW) == (self.factor > 1),
            f"{self.act}: a slow VM, and only that, has a factor above 1",
        )
        require_not_negative(f"{self.act}: by", self.by_s)
        require(
            (self.act is Act.DELAY) == (self.by_s > 0),
            f"{self.act}: a delay, and only that, says by how long",
        )


@dataclass(frozen=True, slots=True)
class Supply:
    """How many VMs of a pool there are from a time on.

    Attributes:
        at_s: seconds since the command.
        vms: that can be held at a time.
    """

    at_s: float
    vms: int

    def __post_init__(self) -> None:
        require_not_negative("supply: at", self.at_s)
        require_count("supply: vms", self.vms, least=0)


@dataclass(frozen=True, slots=True)
class PoolScript:
    """How one pool behaves.

    Attributes:
        instance_type: the type it holds for; None: any.
        zone: the zone; None: any.
        market: the market; None: any.
        boot_s: seconds from the request to the VM's running.
        supply: how many VMs there are, in order of time; before the first entry as many as it says.
            VMs beyond it are refused, and where it falls those granted last are taken back. Empty:
            any number.
        notice_s: seconds of notice before the supply takes a VM back.
        answers: what the cloud answers to the first requests, one for each; None: it grants.
        happenings: what happens to the VMs that were granted; the number counts them from 1.
        link_mbit: Mbit/s of each VM's link; None: not limited.
    """

    instance_type: str | None = None
    zone: str | None = None
    market: Market | None = None
    boot_s: float = 0.0
    supply: tuple[Supply, ...] = ()
    notice_s: float = 0.0
    answers: tuple[str | None, ...] = ()
    happenings: tuple[tuple[int, Happening], ...] = ()
    link_mbit: float | None = None

    def __post_init__(self) -> None:
        require_not_negative("boot", self.boot_s)
        require_not_negative("notice", self.notice_s)
        if self.link_mbit is not None:
            require_positive("link_mbit", self.link_mbit)
        times = [entry.at_s for entry in self.supply]
        require(times == sorted(times), "supply: must be in the order of time")
        for number, _ in self.happenings:
            require_count("nth", number)

    def holds_for(self, pool: Pool) -> bool:
        """Returns whether it says how a pool behaves."""
        return (
            self.instance_type in (None, pool.instance_type)
            and self.zone in (None, pool.location.zone)
            and self.market in (None, pool.market)
        )

    def supply_at(self, at_s: float) -> int | None:
        """Returns how many VMs there are at a time; None: any number."""
        if not self.supply:
            return None
        past = [entry for entry in self.supply if entry.at_s <= at_s]
        return (past[-1] if past else self.supply[0]).vms

    def fate(self, slot: int, number: int, at_s: float) -> tuple[Happening, ...]:
        """Returns what will happen to a VM that is granted.

        Args:
            slot: how many VMs of the pool are held already.
            number: how many were granted before, and one.
            at_s: now, in seconds since the command.
        """
        scripted = tuple(what for nth, what in self.happenings if nth == number)
        for entry in self.supply:
            if entry.at_s > at_s and entry.vms <= slot:
                # Notice is given when the supply falls, not before: nobody foresees it.
                back = Happening(Act.PREEMPT, at_s=entry.at_s, notice_s=self.notice_s)
                return (*scripted, back)
        return scripted


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a played cloud does.

    Attributes:
        pools: the first one that holds for a pool counts; where none does, every request is granted
            at once and nothing happens.
        clock_factor: seconds of the run that pass in one real second.
    """

    pools: tuple[PoolScript, ...] = ()
    clock_factor: float = 1.0

    def __post_init__(self) -> None:
        require_positive("clock_factor", self.clock_factor)

    @property
    def has_links(self) -> bool:
        """Whether VMs have links of their own: some are limited, or cut."""
        return any(
            pool.link_mbit is not None or any(what.act is Act.CUT for _, what in pool.happenings)
            for pool in self.pools
        )

    def script(self, pool: Pool) -> PoolScript:
        """Returns how a pool behaves."""
        return next((script for script in self.pools if script.holds_for(pool)), PoolScript())
