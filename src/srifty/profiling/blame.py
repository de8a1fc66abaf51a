"""Errors of the user's own code: shown as theirs, with the place, without a traceback of ours."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from srifty.errors import InputError, SriftyError

# Frames of ours and of the libraries between: the user looks for the last one that is not these.
_OURS = Path(__file__).resolve().parent.parent
_LIBRARIES = ("site-packages", "dist-packages", "importlib", "<frozen")
_MOST_FRAMES = 4


@contextmanager
def blamed_on(source: str, doing: str) -> Generator[None]:
    """Turns whatever the user's code raises into an `InputError` that says where it was raised.

    Args:
        source: what the user named, such as `train:make`.
        doing: what their code was called for, as in `failed while making a batch of 8`.

    Raises:
        InputError: the code within raised; errors of Srifty's own pass through.
    """
    try:
        yield
    except SriftyError:
        raise
    except Exception as error:
        raise InputError(describe(error, doing), source) from error


def describe(error: BaseException, doing: str) -> str:
    """Returns an error in the user's code in words: what it was, and the lines that led there."""
    frames = [
        f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_library(frame.filename)
    ]
    what = " ".join(str(error).split()) or "no message"
    at = "; at ".join(reversed(frames[-_MOST_FRAMES:]))
    return f"failed while {doing}: {type(error).__name__}: {what}" + (f" (at {at})" if at else "")


def _is_library(filename: str) -> bool:
    if any(part in filename for part in _LIBRARIES):
        return True
    path = Path(filename)
    return path.is_absolute() and path.resolve().is_relative_to(_OURS)
