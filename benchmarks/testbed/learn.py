"""What may be known before a run: `srifty probe` and `srifty profile`, run on the bed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.testbed.cases import Case
from benchmarks.testbed.draws import Draws
from benchmarks.testbed.kinds import KINDS, Kind
from benchmarks.testbed.session import RunFailed, Session, await_all

_PROBE_S, _PROFILE_S = 25.0, 40.0
_SLACK_S = 120.0
# Profiles mostly wait; so many at once do not disturb each other on two cores.
_PROFILES_AT_ONCE = 5


def gpu_name(gpu: str) -> str:
    """Returns how a job names an emulated GPU: no CPU may pose as the GPU itself."""
    return f"emulated-{gpu}"


def probe(session: Session, kind: Kind, world_size: int, store: Path, log: Path) -> None:
    """Runs `srifty probe` on VMs of one type; its samples go to the store.

    Raises:
        RunFailed: it failed.
    """
    session.run(
        ["-m", "srifty", "probe", "--cloud", "aws", "--instance-type", kind.name]
        + ["--sizes", "256B..16MiB", "--repeats", "3", "--seconds", f"{_PROBE_S:g}"]
        + ["--backend", "gloo", "--config", "", "--db", str(store)],
        world_size,
        log,
        most_s=2 * _PROBE_S + _SLACK_S,
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
    draws: Draws | None = None,
) -> None:
    """Runs `srifty profile` for models on emulated GPUs, several at a time.

    Args:
        session: where; each profile has a VM of its own.
        wanted: see `profiles_needed`.
        folder: for the profiles.
        log: what they print.
        draws: of the VM that profiles run on.

    Raises:
        RunFailed: one failed.
    """
    text = (draws or Draws()).to_text()
    for start in range(0, len(wanted), _PROFILES_AT_ONCE):
        some = wanted[start : start + _PROFILES_AT_ONCE]
        children = [
            child
            for model, gpu, most in some
            for child in session.start(
                ["-m", "srifty", "profile", "benchmarks.testbed.workloads:make_workload"]
                + ["--device", "cpu", "--gpu", gpu_name(gpu), "--max-batch", str(most)]
                + ["--seconds", f"{_PROFILE_S:g}", "--no-resume"]
                + ["-o", str(profile_path(folder, model, gpu))],
                1,
                log,
                {"TESTBED_MODEL": model, "TESTBED_GPU": gpu, "TESTBED_DRAWS": text},
            )
        ]
        await_all(children, 3 * _PROFILE_S + _SLACK_S, log)
        for model, gpu, _ in some:
            if not profile_path(folder, model, gpu).exists():
                raise RunFailed(f"no profile of {model} on {gpu}; see {log}")
