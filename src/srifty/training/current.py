"""This worker's share, from the plan's file and torchrun's environment."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from srifty.errors import InputError, Problem
from srifty.inputs import read_text
from srifty.training.share import Share

PLAN = "SRIFTY_PLAN"
SHARES = "SRIFTY_SHARES"
# What a script without a plan trains with unless it says otherwise; logged when it is used.
DEFAULT_BATCH = 32

_SHARE = re.compile(r"(\d{1,9})(?:/(\d{1,9}))?", re.ASCII)
_KIND = "plan (the JSON that `srifty plan -o PLAN.json` writes)"
_MOST_WORKERS = 1_000_000

_log = logging.getLogger(__name__)


def current_share(
    *, global_batch: int | None = None, environment: Mapping[str, str] | None = None
) -> Share:
    """Returns this worker's part of the global batch.

    The plan is the JSON file that `SRIFTY_PLAN` names, or `SRIFTY_SHARES`: the local batch of each
    worker by rank, such as `5,2,1`, with the passes behind a slash where there are several
    (`12/3,2,1`). Which worker this is, torchrun's environment says. Without a plan this is an
    ordinary script: one process does everything, or torchrun's processes share evenly.

    Args:
        global_batch: samples of one step where there is no plan (32 if left out). Where there is
            one, it must serve as many.
        environment: the variables; those of the process if left out.

    Raises:
        InputError: the plan cannot be read, or does not fit the processes that run.
    """
    variables = os.environ if environment is None else environment
    if global_batch is not None and global_batch < 1:
        raise InputError(f"global_batch must be 1 or more, not {global_batch}")
    rank, world_size = _launched(variables)
    plan, listed = variables.get(PLAN), variables.get(SHARES)
    if plan and listed:
        raise InputError(f"{PLAN} and {SHARES} are both set; unset the one that does not hold")
    if plan:
        source = f"{PLAN}={plan}"
        batches, passes = _read_plan(read_text(Path(plan), _KIND), source)
    elif listed:
        source = f"{SHARES}={listed}"
        batches, passes = _read_list(listed, source)
    else:
        return _without_a_plan(rank or 0, world_size or 1, global_batch)
    _require_fit(rank, world_size, batches, source)
    if global_batch is not None and sum(batches) != global_batch:
        raise InputError(
            f"the plan serves a global batch of {sum(batches)}, the script asks for "
            f"{global_batch}; plan for that batch, or leave global_batch out",
            source,
        )
    return Share(rank or 0, batches, passes)


def _launched(variables: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Returns rank and world size as torchrun gives them; None for what it does not."""
    found: list[int | None] = []
    for name in ("RANK", "WORLD_SIZE"):
        text = variables.get(name)
        if text is not None and not text.isdecimal():
            raise InputError(f"torchrun's {name} must be a whole number, not {text!r}")
        found.append(None if text is None else int(text))
    if (found[0] is None) != (found[1] is None):
        raise InputError("RANK and WORLD_SIZE belong together, and only one is set; use torchrun")
    return found[0], found[1]


def _without_a_plan(rank: int, world_size: int, global_batch: int | None) -> Share:
    if global_batch is None:
        global_batch = max(DEFAULT_BATCH, world_size)
        _log.warning(
            "no plan (%s) and no global_batch: each step takes %d samples", PLAN, global_batch
        )
    if global_batch < world_size:
        raise InputError(
            f"a global batch of {global_batch} cannot be dealt to {world_size} workers; start at "
            f"most {global_batch} processes"
        )
    least, extra = divmod(global_batch, world_size)
    return Share.of(*(least + (each < extra) for each in range(world_size)), rank=rank)


def _require_fit(
    rank: int | None, world_size: int | None, batches: tuple[int, ...], source: str
) -> None:
    planned = len(batches)
    if rank is None and planned > 1:
        raise InputError(
            f"the plan has {planned} workers and this is one process alone; start the script with "
            f"torchrun, {planned} processes in all (or unset it to train without the plan)",
            source,
        )
    if world_size is not None and world_size != planned:
        raise InputError(
            f"the plan has {planned} workers, torchrun started {world_size}; start one process for "
            "each worker (--nnodes times --nproc-per-node), or plan for the machines at hand",
            source,
        )


def _read_list(text: str, source: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    batches: list[int] = []
    passes: list[int] = []
    for rank, cell in enumerate(text.split(",")):
        match = _SHARE.fullmatch(cell.strip())
        if match is None:
            raise InputError(
                f"worker {rank}: {cell.strip()!r} is no share; write the samples of each worker, "
                "with the passes behind a slash where there are several: 5,2,1 or 12/3,2,1",
                source,
            )
        batches.append(int(match[1]))
        passes.append(int(match[2] or 1))
    return _checked(batches, passes, source)


def _read_plan(text: str, source: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON ({error}); a {_KIND} was expected", source) from None
    if not isinstance(document, dict) or "plan" not in document:
        raise InputError(f"has no key `plan`; a {_KIND} was expected", source)
    plan: Any = cast("dict[str, Any]", document)["plan"]
    if plan is None:
        raise InputError(
            "holds no plan: none met the limits; change the job until `srifty plan` finds one",
            source,
        )
    groups: Any = cast("dict[str, Any]", plan).get("groups") if isinstance(plan, dict) else None
    if not isinstance(groups, list) or not groups:
        raise InputError("plan.groups: must be a list of VM groups", source)
    batches: list[int] = []
    passes: list[int] = []
    for place, group in enumerate(cast("list[Any]", groups)):
        where = f"plan.groups.{place}"
        of_vm, accumulation, count = _read_group(group, where, source)
        if len(batches) + len(of_vm) * count > _MOST_WORKERS:
            raise InputError(f"{where}: more than {_MOST_WORKERS:,} workers", source)
        batches += of_vm * count
        passes += [accumulation] * (len(of_vm) * count)
    return _checked(batches, passes, source)


def _read_group(group: Any, where: str, source: str) -> tuple[list[int], int, int]:
    """Returns the local batches of one VM, its passes, and the number of such VMs."""
    fields = cast("dict[str, Any]", group) if isinstance(group, dict) else {}
    of_vm: Any = fields.get("local_batch")
    numbers: dict[str, Any] = {name: fields.get(name) for name in ("accumulation", "count")}
    problems = [
        Problem(f"{where}.{name}", f"must be a whole number of at least 1, not {value!r}")
        for name, value in numbers.items()
        if not _is_count(value)
    ]
    if (
        not isinstance(of_vm, list)
        or not of_vm
        or not all(map(_is_count, cast("list[Any]", of_vm)))
    ):
        problems.append(Problem(f"{where}.local_batch", "must list the samples of each worker"))
    if problems:
        raise InputError(problems, source)
    return cast("list[int]", of_vm), numbers["accumulation"], numbers["count"]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10**9


def _checked(
    batches: list[int], passes: list[int], source: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns both as they are, once a share of them has been made."""
    try:
        share = Share(0, tuple(batches), tuple(passes))
    except InputError as error:
        raise InputError(error.problems, source) from None
    return share.local_batches, share.accumulations
