"""Runs configurations on the bed: probes and profiles first, then repeat after repeat."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper.bed_jobs import Config, iterations_of, nominal_s
from benchmarks.paper.bed_runs import Run, append_run, read_runs
from benchmarks.testbed.bed import Bed
from benchmarks.testbed.campaign import Files
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.kinds import Kind
from benchmarks.testbed.learn import probe, profile, profile_path, spread
from benchmarks.testbed.session import Measured, RunFailed, Session, World, network_of
from benchmarks.testbed.task import Seat, Task
from benchmarks.testbed.variance import Pace

Say = Callable[[str], None]
WARM_UP = 2
STEADY = Pace(1.0, 0.0, 1.0, 0.0)
_FIRST_MBIT = 200.0
# Profiles and how far VMs differ need no more; each is a VM of its own.
_PROFILE_HOSTS = 4
_RANKS = "ranks-"
_SLACK = 20


@dataclass(frozen=True)
class Probe:
    """One `srifty probe`.

    Attributes:
        kind: the instance type.
        world_size: VMs.
        vms: what each of them is like.
        name: unique among the probes.
    """

    kind: Kind
    world_size: int
    vms: tuple[Pace, ...]
    name: str


@dataclass(frozen=True)
class Order:
    """One repeat that is wanted.

    Attributes:
        job: what it belongs to; see `Run`.
        model: the emulated workload.
        config: what is run.
        repeat: which one, from 0.
        vms: what the VMs are like, at least one per rank.
        iterations: timed ones; None: as many as its length asks for.
    """

    job: str
    model: str
    config: Config
    repeat: int
    vms: tuple[Pace, ...]
    iterations: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """As `Run.key`."""
        return self.job, self.config.notation, self.repeat

    @property
    def rates_mbit(self) -> list[float]:
        """What each rank's link carries."""
        return [
            kind.rate_mbit * vm.link_factor
            for (kind, _), vm in zip(self.config.seats, self.vms, strict=False)
        ]

    @property
    def timed(self) -> int:
        """How many iterations are timed."""
        return self.iterations or iterations_of(self.model, self.config)

    def task(self) -> Task:
        """Returns what the ranks are told."""
        return Task(
            self.model,
            tuple(
                Seat(kind.gpu, batch, draws(vm, rank))
                for rank, ((kind, batch), vm) in enumerate(
                    zip(self.config.seats, self.vms, strict=False)
                )
            ),
            per_layer=False,
            threads=1,
            links=" ".join(f"{rate:.3f}" for rate in self.rates_mbit),
            warm_up=WARM_UP,
            iterations=self.timed,
        )


def draws(vm: Pace, seed: int) -> Draws:
    """Returns the draws of a VM's steps."""
    return Draws(vm.compute_factor, vm.compute_sd, seed)


def learn(
    files: Files,
    probes: Sequence[Probe],
    wanted: Sequence[tuple[str, str, int]],
    vms: Sequence[Pace],
    say: Say,
    *,
    probe_s: float,
    profile_s: float,
    spreads: bool = True,
) -> None:
    """Probes links and profiles models, as far as that is not done yet.

    Args:
        files: where.
        probes: what is probed.
        wanted: (model, GPU, largest batch) of each profile.
        vms: what the VMs are like on which profiles are made.
        say: told of each step.
        probe_s: seconds of a probe.
        profile_s: seconds of a profile, roughly.
        spreads: whether to profile how far VMs differ, too.

    Raises:
        RunFailed: a probe or a profile failed.
    """
    files.profiles.mkdir(parents=True, exist_ok=True)
    left = [one for one in probes if not files.done(one.name).exists()]
    if left:
        hosts = max(one.world_size for one in left)
        with Bed(network_of(hosts, 0.0, _FIRST_MBIT)) as bed:
            session = Session(bed, files.folder)
            for one in left:
                say(f"srifty probe: {one.world_size} x {one.kind.name}")
                factors = [vm.link_factor for vm in one.vms[: one.world_size]]
                session.set_rates([one.kind.rate_mbit * factor for factor in factors])
                log = files.log("probe")
                probe(session, one.kind, one.world_size, files.store, log, probe_s)
                files.done(one.name).touch()
    new = [one for one in wanted if not profile_path(files.profiles, *one[:2]).exists()]
    if not new and (not spreads or files.done("spread").exists()):
        return
    files.done("spread").unlink(missing_ok=True)
    with Bed(network_of(_PROFILE_HOSTS, 0.0, _FIRST_MBIT)) as bed:
        session = Session(bed, files.folder)
        drawn = [draws(vm, number) for number, vm in enumerate(vms)]
        log = files.log("profile")
        say(f"srifty profile: {len(new)} models on GPUs")
        profile(session, new, files.profiles, log, drawn, profile_s)
        if not spreads:
            return
        gpus = dict.fromkeys(gpu for _, gpu, _ in wanted)
        say(f"srifty profile: how far VMs differ, for {len(gpus)} GPU models")
        spread(session, gpus, files.profiles, log, drawn)
        files.done("spread").touch()


def run_all(files: Files, orders: Sequence[Order], say: Say) -> None:
    """Runs what is not in the results yet, in the order given.

    A run that fails is written down as such; where it took the ranks with it, a new bed is built.

    Args:
        files: where.
        orders: what is wanted; the largest world decides how many hosts the bed has.
        say: told of each run.
    """
    for stale in files.folder.glob(f"{_RANKS}*"):  # of a run that was killed
        shutil.rmtree(stale)
    known = {run.key for run in read_runs(files.results)}
    left = [order for order in orders if order.key not in known]
    hosts = max((order.config.world_size for order in left), default=0)
    while left:
        with (
            tempfile.TemporaryDirectory(prefix=_RANKS, dir=files.folder) as scratch,
            Bed(network_of(hosts, 0.0, _FIRST_MBIT)) as bed,
        ):
            session = Session(bed, files.folder)
            with World(session, Path(scratch)) as world:
                left = _until_lost(files, left, session, world, say)


def _until_lost(
    files: Files, orders: Sequence[Order], session: Session, world: World, say: Say
) -> list[Order]:
    """Runs orders until the ranks are lost; returns those that are left."""
    for at, order in enumerate(orders):
        run = _run(order, session, world)
        append_run(files.results, run)
        words = run.failure or f"{run.mean_s:.4f} s"
        void = "" if run.failure or not run.verdict.void else f"; void: {run.verdict.reasons[0]}"
        say(f"{order.job}, {order.config.notation}, repeat {order.repeat + 1}: {words}{void}")
        if not world.alive:
            return list(orders[at + 1 :])
    return []


def _run(order: Order, session: Session, world: World) -> Run:
    session.set_rates(order.rates_mbit)
    most_s = _SLACK * nominal_s(order.model, order.config) * (WARM_UP + order.timed)
    about = (order.job, order.model, order.config.notation, order.repeat)
    try:
        found: Measured = world.run(order.task(), most_s)
    except RunFailed as error:
        return Run(*about, (), (), 0.0, 0.0, 1, 0.0, str(error))
    use = found.cpu
    return Run(
        *about,
        found.seconds[0],
        found.waited_s,
        use.own_cores,
        use.all_cores,
        use.cores,
        use.span_s,
    )
