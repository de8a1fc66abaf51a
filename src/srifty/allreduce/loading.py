"""Which samples a plan learns from: a store, a CSV file, one's own with the built-in ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from srifty.allreduce._database import is_database
from srifty.allreduce.samples import builtin_samples, read_samples
from srifty.allreduce.store import UNNAMED, SampleStore, store_path
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError


def load_samples(path: Path) -> tuple[AllreduceSample, ...]:
    """Returns the samples of a file that a model can learn from; see `teaching_samples`.

    Args:
        path: a store (told by its content), else a CSV file.

    Raises:
        InputError: the file cannot be read, is no store and no CSV file, has bad rows, or holds no
            allreduce.
    """
    if is_database(path):
        with SampleStore.open(path, create=False) as store:
            samples = store.samples(collective=Collective.ALL_REDUCE)
    else:
        samples = read_samples(path)
    found = teaching_samples(samples)
    if not found:
        raise InputError(
            "holds no all_reduce of a known instance type that ran by itself; srifty allreduce "
            "import brings some",
            str(path),
        )
    return found


def plan_samples(named: Path | None) -> tuple[tuple[AllreduceSample, ...], str | None]:
    """Returns what a plan learns from, and a sentence on it where it is not the built-in samples.

    Args:
        named: the file that the job names; None: the user's own store where it holds samples, with
            the built-in ones of instance types that it does not know.

    Raises:
        InputError: see `load_samples`.
    """
    if named is not None:
        return load_samples(named), f"Allreduce samples: those of {named} alone."
    path = store_path()
    builtin = builtin_samples()
    if not path.exists():
        return builtin, None
    with SampleStore.open(path, create=False) as store:
        stored = store.samples(collective=Collective.ALL_REDUCE)
    own = teaching_samples(stored)
    if not own:
        return builtin, None
    types = {sample.instance_type for sample in own}
    others = tuple(sample for sample in builtin if sample.instance_type not in types)
    return own + others, (
        f"Allreduce samples: your own ({path}) of {', '.join(sorted(types))}; built-in ones of "
        "other types."
    )


def teaching_samples(samples: Iterable[AllreduceSample]) -> tuple[AllreduceSample, ...]:
    """Returns the samples that show how long an allreduce takes by itself.

    Other collectives, transfers that ran side by side and samples without an instance type are left
    out. So are in-place rows of a curve and world that has out-of-place ones: a log prints both,
    and each measurement would count twice.
    """
    alone = [
        s
        for s in samples
        if s.collective is Collective.ALL_REDUCE
        and s.concurrent == 1
        and not s.instance_type.startswith(UNNAMED)
    ]
    out_of_place = {(s.curve, s.cloud, s.vms, s.world_size) for s in alone if not s.in_place}
    return tuple(
        s
        for s in alone
        if not s.in_place or (s.curve, s.cloud, s.vms, s.world_size) not in out_of_place
    )
