"""The `run` of a job file, and of a plan: what a run needs on its VMs."""

from __future__ import annotations

import re
from typing import Annotated, Any, cast

from pydantic import Field, PlainValidator

from srifty.core.settings import RunSettings
from srifty.errors import InputError, Problem
from srifty.files._reading import FileModel, Name, shown

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OURS = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}
)


def _command(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"must be a shell command, not {shown(value)}")
    return value.strip()


def _texts(value: Any) -> tuple[tuple[str, str], ...]:
    """Returns a mapping of texts to texts; a number is not turned into one."""
    if not isinstance(value, dict):
        raise ValueError(f"must map names to texts, not {shown(value)}")
    for key, held in cast("dict[Any, Any]", value).items():
        if not isinstance(key, str) or not key:
            raise ValueError(f"names are texts, not {shown(key)}")
        if not isinstance(held, str):
            raise ValueError(f"{key}: must be a text, not {shown(held)}; put it in quotes")
        if "\0" in held:
            raise ValueError(f"{key}: must be a text without NUL characters")
    return tuple(cast("dict[str, str]", value).items())


def _variables(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = _texts(value)
    for name, _ in pairs:
        _require_variable(name)
    return pairs


def _secrets(value: Any) -> tuple[str, ...]:
    """Returns names of variables; what else was given is kept out of the message."""
    if not isinstance(value, list):
        raise ValueError("must be a list of names of variables, without their values")
    names: list[str] = []
    for place, name in enumerate(cast("list[Any]", value)):
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise ValueError(
                f"entry {place} is no name of a variable; give the name alone, as the value is "
                "taken from your environment when the run starts"
            )
        _require_variable(name)
        names.append(name)
    return tuple(dict.fromkeys(names))


def _require_variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            f"{shown(name)} is no name of a variable; use letters, digits and underscores"
        )
    if name in _OURS or name.startswith("SRIFTY_"):
        raise ValueError(f"{name} is set for each run; take it out")


class RunPart(FileModel):
    """What a run needs on its VMs."""

    image: Name | None = None
    setup: tuple[Annotated[str, PlainValidator(_command)], ...] = Field(default=(), strict=False)
    workdir: Name = "."
    data: Name | None = None
    checkpoint: Name | None = None
    env: Annotated[tuple[tuple[str, str], ...], PlainValidator(_variables)] = ()
    secrets: Annotated[tuple[str, ...], PlainValidator(_secrets)] = ()
    ssh_user: Name | None = None
    subnet: Name | None = None
    security_groups: tuple[Name, ...] = Field(default=(), strict=False)
    instance_profile: Name | None = None
    tags: Annotated[tuple[tuple[str, str], ...], PlainValidator(_texts)] = ()


def settings_of(part: RunPart | None) -> RunSettings:
    """Returns what a file's `run` says; what a run has without one, for None.

    Raises:
        InputError: a variable is both set and a secret.
    """
    if part is None:
        return RunSettings()
    try:
        return RunSettings(**dict(part))
    except InputError as error:
        problems = [Problem("run", problem.message) for problem in error.problems]
        raise InputError(problems) from None
