"""What reading any of our files shares: decoding, and errors with their paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from srifty.errors import InputError, Problem

_MOST_BYTES = 64 * 1024 * 1024


class FileModel(BaseModel):
    """A part of a file: unknown keys are errors, and values are never silently converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def read_text(path: Path, kind: str) -> str:
    """Returns a file's text.

    Raises:
        InputError: there is no such file, it is no file, too large, or not UTF-8 text.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"is too large for a {kind}", str(path))
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"there is no such file; a {kind} was expected", str(path)) from None
    except UnicodeDecodeError:
        raise InputError(f"is not UTF-8 text; a {kind} was expected", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from None


def problems_of(error: ValidationError) -> list[Problem]:
    """Returns what pydantic found, each with its path and a remedy where we know one."""
    return [_problem(details) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails) -> Problem:
    where = ".".join(str(step) for step in details["loc"])
    kind = details["type"]
    context: dict[str, Any] = details.get("ctx", {})
    value = details["input"]
    if kind == "extra_forbidden":
        message = "unknown key; remove it or check its spelling"
    elif kind == "missing":
        message = "is missing"
    elif kind == "value_error":
        message = str(context.get("error", details["msg"]))
    elif kind.endswith("_type") or kind in ("int_from_float", "is_instance_of"):
        message = f"{_lower(details['msg'])}, not {_shown(value)}"
    else:
        message = f"{_lower(details['msg'])} (got {_shown(value)})"
    return Problem(where, message)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def raise_problems(problems: Sequence[Problem], source: str) -> None:
    """Raises `InputError` with all problems, if there are any."""
    if problems:
        raise InputError(problems, source)
