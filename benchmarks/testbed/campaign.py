"""Probe, profile, forecast, run: the whole test, one network after the other."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.cases import Case
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.guards import Bounds, Verdict, judge_cpu, judge_repeats
from benchmarks.testbed.kinds import FAMILIES, KINDS, kinds_of
from benchmarks.testbed.learn import probe, profile, profile_path, profiles_needed, spread
from benchmarks.testbed.predict import PREDICTORS, Forecast, forecast
from benchmarks.testbed.results import Result, append_result, read_results, write_results
from benchmarks.testbed.session import Measured, RunFailed, Session, World, network_of
from benchmarks.testbed.task import Seat, Task
from benchmarks.testbed.variance import Pace, Variation, allocate

Say = Callable[[str], None]
# Real-time ranks do not wait for other programs; what they wait for each other is told by `waited`.
_BOUNDS = Bounds(foreign_fraction=1.0, wait_fraction=0.1)
_WARM_UP = 3
_FIRST_MBIT = 200.0
_RANKS = "ranks-"


@dataclass(frozen=True)
class Plan:
    """What a campaign does.

    Attributes:
        cases: in order of their networks.
        hosts: VMs of the bed.
        worlds: world sizes that are probed.
        probe_s: seconds for a probe.
        profile_s: seconds for a profile, roughly.
        iterations: timed ones of each repeat.
        repeats: of each run.
        variation: what VMs and steps are drawn from; None: all are equal.
        allocations: probes of each world, each on VMs of their own draw.
    """

    cases: tuple[Case, ...]
    hosts: int
    worlds: tuple[int, ...]
    probe_s: float = 40.0
    profile_s: float = 120.0
    iterations: int = 10
    repeats: int = 2
    variation: Variation | None = None
    allocations: int = 1

    def vms(self, what: str) -> tuple[Pace, ...]:
        """Returns the draws of all hosts for one allocation.

        Args:
            what: names the allocation; another name is another draw.
        """
        if self.variation is None:
            return (Pace(1.0, 0.0, 1.0, 0.0),) * self.hosts
        return allocate(self.variation, self.hosts, np.random.default_rng(crc32(what.encode())))


@dataclass(frozen=True)
class Files:
    """Where a campaign keeps what it found.

    Attributes:
        folder: of all of it.
    """

    folder: Path

    @property
    def store(self) -> Path:
        """The probes' samples."""
        return self.folder / "samples.db"

    @property
    def profiles(self) -> Path:
        """A profile for each model and GPU."""
        return self.folder / "profiles"

    @property
    def results(self) -> Path:
        """A line for each case."""
        return self.folder / "results.jsonl"

    def done(self, what: str) -> Path:
        """Returns the file that stands once a probe is done."""
        return self.folder / f"{what}.done"

    def log(self, what: str) -> Path:
        """Returns where processes print to."""
        return self.folder / f"{what}.log"


def run_campaign(plan: Plan, files: Files, say: Say) -> tuple[Result, ...]:
    """Does all that is not done yet; returns all results.

    Args:
        plan: what to do.
        files: where; what stands there is not done again.
        say: told of each step.

    Raises:
        RunFailed: a probe or a profile failed.
    """
    files.profiles.mkdir(parents=True, exist_ok=True)
    for left in files.folder.glob(f"{_RANKS}*"):  # of a run that was killed
        shutil.rmtree(left)
    for family in FAMILIES:
        if any(case.family == family for case in plan.cases):
            _learn(plan, family, files, say)
    for family in FAMILIES:
        known = {result.label for result in read_results(files.results)}
        cases = [c for c in plan.cases if c.family == family and c.label not in known]
        while cases:
            cases = _measure(plan, cases, files, say)
    return read_results(files.results)


def forecast_anew(plan: Plan, files: Files) -> tuple[Result, ...]:
    """Replaces the forecasts of what was measured, from the probes and profiles that stand.

    Returns all results.

    Args:
        plan: whose cases.
        files: where.
    """
    cases = {case.label: case for case in plan.cases}
    renewed: list[Result] = []
    for result in read_results(files.results):
        case = cases.get(result.label)
        if case is not None:
            found = forecast(case, files.profiles, files.store, files.folder)
            renewed.append(
                replace(
                    result,
                    forecast_s=found.mean_s,
                    p90_s=found.p90_s(result.iterations),
                    exposed_s=found.exposed_s,
                    latency_share=found.latency_share,
                )
            )
        else:
            renewed.append(result)
    write_results(files.results, renewed)
    return tuple(renewed)


def _learn(plan: Plan, family: str, files: Files, say: Say) -> None:
    """Probes the links of a network, and profiles what has no profile yet."""
    kinds = kinds_of(family, probed=True)
    used = {kind for case in plan.cases for kind, _, _ in case.groups}
    relatives = {KINDS[kind].gpu for kind in used if KINDS[kind].family == family}
    probes = [
        (kind, n, number)
        for kind in kinds
        for n in plan.worlds
        for number in range(plan.allocations)
        if kind.gpu in relatives and not files.done(f"{kind.name}-{n}-{number}").exists()
    ]
    wanted = [
        one
        for one in profiles_needed(plan.cases)
        if not profile_path(files.profiles, *one[:2]).exists()
    ]
    spread_known = files.done("spread").exists() and not wanted
    if not probes and spread_known:
        return
    with Bed(network_of(plan.hosts, kinds[0].delay_ms, _FIRST_MBIT)) as bed:
        session = Session(bed, files.folder)
        for kind, n, number in probes:
            say(f"srifty probe: {n} x {kind.name}")
            what = f"{kind.name}-{n}-{number}"
            session.set_rates([kind.rate_mbit * vm.link_factor for vm in plan.vms(what)[:n]])
            probe(session, kind, n, files.store, files.log("probe"), plan.probe_s)
            files.done(what).touch()
        draws = [_draws(vm, number) for number, vm in enumerate(plan.vms("profile"))]
        log = files.log("profile")
        if wanted:
            say(f"srifty profile: {len(wanted)} models on GPUs")
            profile(session, wanted, files.profiles, log, draws, plan.profile_s)
        if not spread_known:
            gpus = dict.fromkeys(gpu for _, gpu, _ in profiles_needed(plan.cases))
            say(f"srifty profile: how far VMs differ, for {len(gpus)} GPU models")
            spread(session, gpus, files.profiles, log, draws)
            files.done("spread").touch()


def _draws(vm: Pace, seed: int) -> Draws:
    return Draws(vm.compute_factor, vm.compute_sd, seed)


def _measure(plan: Plan, cases: Sequence[Case], files: Files, say: Say) -> list[Case]:
    """Forecasts and runs cases of one network until one fails; returns those that are left."""
    delay_ms = KINDS[cases[0].groups[0][0]].delay_ms
    with (
        tempfile.TemporaryDirectory(prefix=_RANKS, dir=files.folder) as scratch,
        Bed(network_of(plan.hosts, delay_ms, _FIRST_MBIT)) as bed,
    ):
        session = Session(bed, files.folder)
        with World(session, Path(scratch)) as world:
            for at, case in enumerate(cases):
                found = forecast(case, files.profiles, files.store, files.folder)
                try:
                    result = _run(plan, case, found, session, world)
                except RunFailed as error:
                    result = _result(plan, case, found, (), f"failed: {error}")
                append_result(files.results, result)
                off = f" {result.error(PREDICTORS[0]):+.1%}" if result.iterations else ""
                say(f"{case.part}: {case.label}:{off}{' void: ' * bool(result.void)}{result.void}")
                if not world.alive:
                    return list(cases[at + 1 :])
    return []


def _run(plan: Plan, case: Case, found: Forecast, session: Session, world: World) -> Result:
    seats = [(KINDS[name], batch) for name, count, batch in case.groups for _ in range(count)]
    vms = plan.vms(case.label)
    session.set_rates(
        [kind.rate_mbit * vm.link_factor for (kind, _), vm in zip(seats, vms, strict=False)]
    )
    task = Task(
        case.model,
        tuple(
            Seat(kind.gpu, batch, _draws(vm, rank))
            for rank, ((kind, batch), vm) in enumerate(zip(seats, vms, strict=False))
        ),
        case.per_layer,
        case.threads,
        case.notation if plan.variation is None else case.label,
        _WARM_UP,
        plan.iterations,
    )
    most_s = 20 * found.mean_s[PREDICTORS[0]] * (_WARM_UP + plan.iterations)
    return _result(plan, case, found, [world.run(task, most_s) for _ in range(plan.repeats)])


def _result(
    plan: Plan, case: Case, found: Forecast, repeats: Sequence[Measured], failure: str = ""
) -> Result:
    """Returns what is kept of a case; without repeats it failed, and is void."""
    kinds = [KINDS[name] for name, count, _ in case.groups for _ in range(count)]
    means = tuple(statistics.fmean(one.seconds[0]) for one in repeats)
    steps = [step for one in repeats for step in one.seconds[0]]
    verdict = judge_repeats(means, _BOUNDS) if len(means) > 1 else Verdict()
    for one in repeats:
        verdict += judge_cpu(one.cpu, one.waited_s, _BOUNDS)
    return Result(
        part=case.part,
        label=case.label,
        model=case.model,
        config=case.notation,
        mode="per layer" if case.per_layer else "buckets",
        slots=case.slots or 0,
        world_size=case.world_size,
        family=case.family,
        delay_ms=kinds[0].delay_ms,
        rates_mbit=tuple(kind.rate_mbit for kind in kinds),
        gpus=tuple(kind.gpu for kind in kinds),
        varied=plan.variation is not None,
        measured_s=statistics.fmean(steps) if steps else 0.0,
        repeats_s=means,
        step_std_s=statistics.stdev(steps) if steps else 0.0,
        iterations=len(steps),
        forecast_s=found.mean_s,
        p90_s=found.p90_s(len(steps)),
        exposed_s=found.exposed_s,
        latency_share=found.latency_share,
        own_cores=max((one.cpu.own_cores for one in repeats), default=0.0),
        all_cores=max((one.cpu.all_cores for one in repeats), default=0.0),
        waited=max((max(one.waited_s) / sum(one.seconds[0]) for one in repeats), default=0.0),
        void=failure or " ".join(dict.fromkeys(verdict.reasons)),
    )
