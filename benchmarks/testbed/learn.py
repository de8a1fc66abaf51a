"""What may be known before a run: `srifty probe` and `srifty profile`, run on the bed."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.testbed.cases import Case
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.kinds import KINDS, Kind
from benchmarks.testbed.session import RunFailed, Session, await_all
from srifty.files.profile_file import read_profile

_SLACK_S = 120.0
_SPREAD_S = 40.0
# Any model would do. Steps of a tenth of a second and more: next to those, what a busy machine adds
# to a step is small.
_SPREAD_MODEL, _SPREAD_BATCH = "alexnet", 64
# Profiles mostly wait; so many at once do not disturb each other on two cores.
_PROFILES_AT_ONCE = 4
_PROFILE = ["-m", "srifty", "profile", "benchmarks.testbed.workloads:make_workload"]
_PROFILE += ["--device", "cpu"]


def gpu_name(gpu: str) -> str:
    """Returns how a job names an emulated GPU: no CPU may pose as the GPU itself."""
    return f"emulated-{gpu}"


def probe(
    session: Session, kind: Kind, world_size: int, store: Path, log: Path, seconds: float
) -> None:
    """Runs `srifty probe` on VMs of one type; its samples go to the store.

    Raises:
        RunFailed: it failed.
    """
    session.run(
        [
            *("-m", "srifty", "probe", "--cloud", "aws", "--instance-type", kind.name),
            *("--sizes", "4KiB..16MiB", "--repeats", "3", "--seconds", f"{seconds:g}"),
            *("--backend", "gloo", "--config", "", "--db", str(store)),
        ],
        world_size,
        log,
        most_s=2 * seconds + _SLACK_S,
    )


def profiles_needed(cases: Iterable[Case]) -> list[tuple[str, str, int]]:
    """Returns which profiles cases need: (model, GPU, largest batch to run)."""
    most: dict[tuple[str, str], int] = {}
    for case in cases:
        for kind, _, batch in case.groups:
            key = (case.model, KINDS[kind].gpu)
            most[key] = max(most.get(key, 0), 2 * batch)
    return [(model, gpu, batch) for (model, gpu), batch in sorted(most.items())]


def profile_path(folder: Path, model: str, gpu: str) -> Path:
    """Returns where a profile lies."""
    return folder / f"{model}.{gpu}.json"


def profile(
    session: Session,
    wanted: Sequence[tuple[str, str, int]],
    folder: Path,
    log: Path,
    draws: Sequence[Draws],
    seconds: float,
) -> None:
    """Runs `srifty profile` for models on emulated GPUs, several at a time.

    Args:
        session: where; each profile has a VM of its own.
        wanted: see `profiles_needed`.
        folder: for the profiles.
        log: what they print.
        draws: of each VM.
        seconds: for each, roughly.

    Raises:
        RunFailed: one failed.
    """
    at_once = min(_PROFILES_AT_ONCE, session.hosts)
    for start in range(0, len(wanted), at_once):
        some = wanted[start : start + at_once]
        children = [
            session.start_on(
                number,
                [
                    *(*_PROFILE, "--gpu", gpu_name(gpu), "--max-batch", str(most)),
                    *("--seconds", f"{seconds:g}", "--no-resume"),
                    *("-o", str(profile_path(folder, model, gpu))),
                ],
                log,
                _variables(model, gpu, draws[number]),
            )
            for number, (model, gpu, most) in enumerate(some)
        ]
        await_all(children, 3 * seconds + _SLACK_S, log)
        for model, gpu, _ in some:
            if not profile_path(folder, model, gpu).exists():
                raise RunFailed(f"no profile of {model} on {gpu}; see {log}")


def _variables(model: str, gpu: str, draws: Draws) -> dict[str, str]:
    return {"TESTBED_MODEL": model, "TESTBED_GPU": gpu, "TESTBED_DRAWS": draws.to_text()}


def spread(
    session: Session,
    gpus: Iterable[str],
    folder: Path,
    log: Path,
    draws: Sequence[Draws],
) -> None:
    """Writes into profiles how far the VMs of a GPU differ: one model profiled on each of them.

    Args:
        session: where.
        gpus: those in question.
        folder: of the profiles.
        log: what they print.
        draws: of each VM.

    Raises:
        RunFailed: a profile failed.
    """
    for gpu in gpus:
        paths = [folder / f"spread-{number}.json" for number in range(session.hosts)]
        for start in range(0, len(paths), _PROFILES_AT_ONCE):
            children = [
                session.start_on(
                    number,
                    [
                        *(*_PROFILE, "--gpu", gpu_name(gpu), "--no-resume"),
                        *("--batch-sizes", str(_SPREAD_BATCH), "--max-batch", str(_SPREAD_BATCH)),
                        *("--seconds", f"{_SPREAD_S:g}", "-o", str(paths[number])),
                    ],
                    log,
                    _variables(_SPREAD_MODEL, gpu, draws[number]),
                )
                for number in range(start, min(start + _PROFILES_AT_ONCE, len(paths)))
            ]
            await_all(children, _SLACK_S, log)
        steps = [read_profile(path).latencies[-1].step_s for path in paths]
        fraction = statistics.stdev(math.log(step) for step in steps)
        for path in folder.glob(f"*.{gpu}.json"):
            document = json.loads(path.read_text(encoding="utf-8"))
            document["spatial_std_fraction"] = fraction
            path.write_text(json.dumps(document), encoding="utf-8")
        for path in paths:
            path.unlink()
