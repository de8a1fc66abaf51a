"""From the measurements at hand to a fitted blend: what a plan learns from, and what it keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from srifty import __version__
from srifty.allreduce.blend import Blend, Progress
from srifty.allreduce.boosting import BoostingOptions
from srifty.allreduce.recipe import Recipe
from srifty.allreduce.samples import CSV_KIND, builtin_samples, builtin_text, read_samples
from srifty.allreduce.saved import load_blend, save_blend
from srifty.allreduce.store import UNNAMED, SampleStore, store_path
from srifty.allreduce.table import SampleTable
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.core.hardware import InstanceType
from srifty.database import is_database
from srifty.errors import InputError
from srifty.inputs import read_bytes

_MANY_TYPES = 7


@dataclass(frozen=True)
class SampleSource:
    """Measurements that models are fitted to.

    Attributes:
        read: returns the samples, all of them allreduces of a named instance type.
        fingerprint: equal only where the samples are.
        fit_path: where a fit of them is kept; None: it is not worth keeping.
        recipe: what cross-validation chose for them, where Srifty ships it.
        note: a sentence on them for a plan's assumptions; None for the built-in ones.
    """

    read: Callable[[], tuple[AllreduceSample, ...]]
    fingerprint: str
    fit_path: Path | None = None
    recipe: Recipe | None = None
    note: str | None = None


def plan_source(named: Path | None) -> SampleSource:
    """Returns what a plan learns from.

    Args:
        named: the file that the job names; None: the user's own store where it holds samples, with
            the built-in ones of instance types that it does not know.

    Raises:
        InputError: the file cannot be read, is no store and no CSV file, or (where the job names
            it) holds no allreduce.
    """
    if named is not None:
        return _named(named)
    path = store_path()
    if not path.exists():
        return builtin_source()
    with SampleStore.open(path, create=False) as store:
        fingerprint = store.fingerprint()
        types = sorted(
            {
                stored.key.instance_type
                for stored in store.curves()
                if stored.key.collective is Collective.ALL_REDUCE
                and not stored.key.instance_type.startswith(UNNAMED)
            }
        )
    if not types:
        return builtin_source()

    def read() -> tuple[AllreduceSample, ...]:
        others = (s for s in builtin_samples() if s.instance_type not in types)
        return load_samples(path) + tuple(others)

    hidden = len(types) - _MANY_TYPES
    names = ", ".join(types[:_MANY_TYPES]) + (f" and {hidden} more" if hidden > 0 else "")
    return SampleSource(
        read,
        f"{fingerprint}+{_digest(builtin_text().encode())}",
        _beside(path),
        note=f"Allreduce samples: your own ({path}) of {names}; built-in ones of other types.",
    )


def load_samples(path: Path) -> tuple[AllreduceSample, ...]:
    """Returns the allreduces of named instance types that a file holds.

    Args:
        path: a store (told by its content), else a CSV file.

    Raises:
        InputError: the file cannot be read, is no store and no CSV file, has bad rows, or holds no
            such allreduce.
    """
    if not path.exists():
        raise InputError("there is no such file; a store or a CSV file was expected", str(path))
    if is_database(path):
        with SampleStore.open(path, create=False) as store:
            samples = store.samples(collective=Collective.ALL_REDUCE)
    else:
        samples = read_samples(path)
    found = _teaching(samples)
    if not found:
        raise InputError(
            "holds no all_reduce of a known instance type; srifty allreduce import brings some",
            str(path),
        )
    return found


def blend_of(
    source: SampleSource, types: Mapping[str, InstanceType], *, progress: Progress | None = None
) -> Blend:
    """Returns the fitted blend of a source: the one that was kept, else fitted and kept.

    Args:
        source: the measurements.
        types: instance types that are known, by name.
        progress: told (done, all) of the cross-validation.

    Raises:
        InputError: the samples cannot be read.
    """
    if source.recipe is not None:
        return Blend(types, recipe=source.recipe, trees=False).fit(SampleTable.of(source.read()))
    if source.fit_path is not None:
        kept = load_blend(source.fit_path, fingerprint=_key(source), types=types)
        if kept is not None:
            return kept
    return fit_blend(source, types, progress=progress)[0]


def fit_blend(
    source: SampleSource,
    types: Mapping[str, InstanceType],
    *,
    boosting: BoostingOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Blend, Path | None]:
    """Returns a blend fitted anew, and where it was kept (None: nowhere).

    Args:
        source: the measurements.
        types: instance types that are known, by name.
        boosting: how trees are grown.
        progress: told (done, all) of the cross-validation.

    Raises:
        InputError: the samples cannot be read.
    """
    blend = Blend(types, boosting=boosting, progress=progress).fit(SampleTable.of(source.read()))
    if source.fit_path is None:
        return blend, None
    try:
        save_blend(blend, source.fit_path, fingerprint=_key(source))
    except OSError:  # a folder that cannot be written costs the next plan a fit, no more
        return blend, None
    return blend, source.fit_path


def builtin_recipe() -> Recipe:
    """Returns what cross-validation chose on the built-in samples, without trees."""
    text = resources.files("srifty").joinpath("data", "allreduce_recipe.json").read_text("utf-8")
    return Recipe.of_document(json.loads(text))


def _named(path: Path) -> SampleSource:
    if not path.exists():
        raise InputError("there is no such file; a store or a CSV file was expected", str(path))
    if is_database(path):
        with SampleStore.open(path, create=False) as store:
            fingerprint = store.fingerprint()
    else:
        fingerprint = _digest(read_bytes(path, CSV_KIND))
    note = f"Allreduce samples: those of {path} alone."
    return SampleSource(lambda: load_samples(path), fingerprint, _beside(path), note=note)


def builtin_source() -> SampleSource:
    """Returns the built-in samples alone, as plans use them."""
    return SampleSource(
        lambda: _teaching(builtin_samples()),
        _digest(builtin_text().encode()),
        recipe=builtin_recipe(),
    )


def _teaching(samples: Iterable[AllreduceSample]) -> tuple[AllreduceSample, ...]:
    return tuple(
        s
        for s in samples
        if s.collective is Collective.ALL_REDUCE and not s.instance_type.startswith(UNNAMED)
    )


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.fit")


def _key(source: SampleSource) -> str:
    return f"{source.fingerprint} {__version__}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
