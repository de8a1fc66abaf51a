"""What every back end does: VMs that are asked for, happen, train, and are released.

A back end belongs to one run. What it is asked for returns at once; what comes of it is told by
`events` and `workers`, which are to be asked every few seconds: that is also how the VMs hear that
the controller lives. A VM that hears nothing for `silence_s`, or that still runs at `hard_end_s`,
ends itself.

A controller that was killed makes a back end for the same run anew and asks `reconcile`. All it
did before, it may do again: nothing is launched or started twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from srifty.core._checks import require, require_count, require_not_negative, require_positive
from srifty.core.events import Pool, VmEvent
from srifty.core.settings import RunSettings

SILENCE_S = 900.0


@dataclass(frozen=True, slots=True)
class VmRequest:
    """One VM that is asked for.

    Attributes:
        vm: its name, used once in a run.
        pool: where it is to come from.
        gpus: workers that it can have.
        usd_per_hour: the price that was agreed to.
    """

    vm: str
    pool: Pool
    gpus: int
    usd_per_hour: float

    def __post_init__(self) -> None:
        require(
            bool(self.vm) and all(letter.isalnum() or letter in "-." for letter in self.vm)
            and not self.vm.startswith("."),
            f"a VM's name has letters, digits, '-' and '.', and begins with none of the last: "
            f"not {self.vm!r}",
        )  # fmt: skip
        require_count(f"{self.vm}: gpus", self.gpus)
        require_not_negative(f"{self.vm}: usd_per_hour", self.usd_per_hour)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """VMs that are asked for together.

    Attributes:
        run_id: the run's name.
        user: whose run it is; a tag of every VM.
        vms: at least one.
        hard_end_s: seconds since the command at which every VM ends itself.
        silence_s: seconds without a sign of the controller after which every VM ends itself.
        settings: how the VMs are set up.
    """

    run_id: str
    user: str
    vms: tuple[VmRequest, ...]
    hard_end_s: float
    silence_s: float = SILENCE_S
    settings: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        require(bool(self.vms), "a launch needs at least one VM")
        names = [vm.vm for vm in self.vms]
        require(len(set(names)) == len(names), f"a launch names a VM twice: {', '.join(names)}")
        require_positive("hard_end_s", self.hard_end_s)
        require_positive("silence_s", self.silence_s)

    def token(self, vm: str) -> str:
        """Returns the word by which a cloud knows a request for a VM again."""
        return f"{self.run_id}-{vm}"

    def tags(self) -> tuple[tuple[str, str], ...]:
        """Returns the tags of every VM: the user's own, and those by which it is found again."""
        own = (("srifty-run", self.run_id), ("srifty-user", self.user))
        return (*(tag for tag in self.settings.tags if tag[0] not in dict(own)), *own)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch as it would be sent, to be shown, kept, and sent.

    Attributes:
        backend: name of the back end.
        document: the exact request, JSON values alone; secrets by name.
    """

    backend: str
    document: Mapping[str, Any]


class VmStatus(StrEnum):
    """What a VM does; `FAILED` (it never ran) and `GONE` are ends, whatever led to them."""

    BOOTING = "booting"
    FAILED = "failed"
    RUNNING = "running"
    LOST = "lost"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class VmState:
    """A VM as it really is.

    Attributes:
        vm: its name.
        pool: where it came from.
        status: what it does.
        running_s: seconds since the command at which it began to run, which is when its bill
            begins; None: it never did.
        stopped_s: seconds since the command at which its bill ended; None: it has not.
        taken_back: whether the provider took it back.
    """

    vm: str
    pool: Pool
    status: VmStatus
    running_s: float | None
    stopped_s: float | None
    taken_back: bool = False

    @property
    def is_billed(self) -> bool:
        """Whether it costs money now."""
        return self.running_s is not None and self.stopped_s is None


@dataclass(frozen=True, slots=True)
class WorldVm:
    """One VM's part of a world.

    Attributes:
        vm: the VM's name.
        workers: processes on it, one for each GPU used.
        pace_s: seconds that a step's compute takes there at least: a GPU that is played at a
            measured pace; None: as long as it takes.
    """

    vm: str
    workers: int
    pace_s: float | None = None

    def __post_init__(self) -> None:
        require_count(f"{self.vm}: workers", self.workers)
        if self.pace_s is not None:
            require_not_negative(f"{self.vm}: pace_s", self.pace_s)


@dataclass(frozen=True, slots=True)
class World:
    """Workers that train together.

    Attributes:
        generation: its number; every world of a run has a higher one than those before.
        vms: in the order of ranks.
        command: the training script and its arguments.
        shares: local batch of each worker in the order of ranks, with the passes behind a slash
            where there are several, such as `5,2,1` or `12/3,2`.
        checkpoint: folder or URL of the checkpoints; None: the run's own folder.
        env: further variables of the workers.
    """

    generation: int
    vms: tuple[WorldVm, ...]
    command: tuple[str, ...]
    shares: str
    checkpoint: str | None = None
    env: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        require_count("world: generation", self.generation)
        require(bool(self.vms), "a world needs at least one VM")
        require(bool(self.command), "a world needs a command: the training script")
        listed = len(self.shares.split(","))
        require(
            listed == self.size,
            f"a world of {self.size} workers needs as many shares, not {listed}: {self.shares!r}",
        )

    @property
    def size(self) -> int:
        """Workers of all VMs."""
        return sum(vm.workers for vm in self.vms)


class WorkersStatus(StrEnum):
    """What the workers of one VM do."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class VmWorkers:
    """The workers of one VM.

    Attributes:
        vm: the VM's name.
        generation: of their world.
        status: what they do.
        exit_code: 0 where all ended well; that of the first that did not, negative for a signal;
            None while they run.
        log: where what they printed is; empty for nowhere.
    """

    vm: str
    generation: int
    status: WorkersStatus
    exit_code: int | None = None
    log: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLines:
    """What a worker appended to its log of steps.

    Attributes:
        rank: the worker.
        after: what to ask for the next time.
        lines: whole lines, JSON objects as the training script's `steps` writes them.
    """

    rank: int
    after: int
    lines: tuple[str, ...]


class Backend(Protocol):
    """Where VMs come from.

    Attributes:
        name: `local`, `ray`.
    """

    name: str

    def prepare(self, request: LaunchRequest) -> Prepared:
        """Returns the launch as it would be sent; changes nothing anywhere.

        Raises:
            InputError: the request cannot be served, such as a secret that is not set.
        """
        ...

    def launch(self, prepared: Prepared) -> None:
        """Asks for the VMs; those asked for before are not asked for again.

        Each answers by an event, `LAUNCHED` or `FAILED`.

        Raises:
            CloudRefused: the whole request was refused (credentials, permission).
        """
        ...

    def events(self, after: int) -> list[VmEvent]:
        """Returns what happened, in a lasting order, but for the first `after` events.

        Tells the VMs that the controller lives. Waits for nothing longer than a second.
        """
        ...

    def start_workers(self, world: World) -> None:
        """Starts a world on VMs that run; an older one's workers there are killed first.

        Raises:
            InputError: one of the VMs is not of this run, or has fewer GPUs.
        """
        ...

    def workers(self) -> list[VmWorkers]:
        """Returns the workers of the newest world, a line for each of its VMs that are there."""
        ...

    def stop_workers(self, *, save: bool) -> None:
        """Has the newest world end: by saving and stopping after a step, or at once."""
        ...

    def progress(self, after: Mapping[int, int]) -> list[WorkerLines]:
        """Returns what the workers logged.

        Args:
            after: for each rank what the last answer said; a rank left out is read from the start.
        """
        ...

    def terminate(self, vms: Sequence[str]) -> None:
        """Ends VMs; one that is gone, or booting, is no error. Each answers by `TERMINATED`.

        Raises:
            InputError: one of the VMs is not of this run.
        """
        ...

    def reconcile(self) -> list[VmState]:
        """Returns every VM that the run asked for as it really is, the ended ones included."""
        ...
