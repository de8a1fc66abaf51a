"""What reading any of our files shares: decoding, and errors with their paths."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from srifty.errors import InputError, Problem

_MOST_COUNTED = 10**15

# What an input value is cut to in a message: YAML's aliases can make a short file a huge value.
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


class FileModel(BaseModel):
    """A part of a file: unknown keys are errors, and values are never silently converted.

    `makes` is the value of the core that a part with the same fields stands for, if there is one;
    its checks run with the file's, so that all errors are found at once.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    makes: ClassVar[type[Any] | None] = None

    @model_validator(mode="after")
    def _make(self) -> Self:
        if self.makes is not None:
            try:
                self.makes(**dict(self))
            except InputError as error:
                raise ValueError(str(error)) from None
        return self


def read_count(value: Any) -> int:
    """Returns a whole number of at least 1.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number of at least 1, not {shown(value)}")
    if value > _MOST_COUNTED:
        raise ValueError(f"must be at most {_MOST_COUNTED:,}, not {shown(value)}")
    return value


def _name(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError(f"must be a text of printable characters, not {shown(value)}")
    return value


Count = Annotated[int, PlainValidator(read_count)]
Name = Annotated[str, AfterValidator(_name)]


def problems_of(error: ValidationError) -> list[Problem]:
    """Returns what pydantic found, each with its path and a remedy where we know one."""
    return [_problem(details) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails) -> Problem:
    where = ".".join(str(step) for step in details["loc"] if step != "[key]")
    kind = details["type"]
    context: dict[str, Any] = details.get("ctx", {})
    value = details["input"]
    if kind == "extra_forbidden":
        message = "unknown key; remove it or check its spelling"
    elif kind == "missing":
        message = "is missing"
    elif kind == "value_error":
        message = str(context.get("error", details["msg"]))
    elif kind in ("model_type", "dict_type"):
        message = f"must be a mapping of keys to values, not {shown(value)}"
    elif kind in ("list_type", "tuple_type"):
        message = f"must be a list, not {shown(value)}"
    elif kind.endswith("_type") or kind in ("int_from_float", "is_instance_of"):
        message = f"{_reworded(details['msg'])}, not {shown(value)}"
    else:
        message = f"{_reworded(details['msg'])} (got {shown(value)})"
    return Problem(where, message)


def _reworded(message: str) -> str:
    lowered = message[:1].lower() + message[1:]
    return lowered.replace("input should", "must")


def shown(value: Any) -> str:
    """Returns an input value for a message: its repr, cut where it is long."""
    text = _SHORT.repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def raise_problems(problems: Sequence[Problem], source: str) -> None:
    """Raises `InputError` with all problems, if there are any."""
    if problems:
        raise InputError(problems, source)
