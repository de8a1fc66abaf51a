"""Reading the files that people give us: one clear error whatever is wrong with them."""

from __future__ import annotations

import csv
from pathlib import Path

from srifty.errors import InputError

_MOST_BYTES = 256 * 1024 * 1024


def read_bytes(path: Path, kind: str) -> bytes:
    """Returns what a file holds.

    Args:
        path: the file.
        kind: what was expected, for messages.

    Raises:
        InputError: there is no such file, it cannot be read, or is too large.
    """
    try:
        too_large = path.stat().st_size > _MOST_BYTES
        with path.open("rb") as file:
            # Pipes and devices tell no size: they are read up to the same limit.
            data = b"" if too_large else file.read(_MOST_BYTES + 1)
        if too_large or len(data) > _MOST_BYTES:
            raise InputError(f"is too large for a {kind}", str(path))
    except FileNotFoundError:
        raise InputError(f"there is no such file; a {kind} was expected", str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from None
    except ValueError:  # pathlib's word for a NUL character in a name
        raise InputError("is no file name", repr(str(path))) from None
    return data


def decode_text(data: bytes, kind: str, source: str) -> str:
    r"""Returns the text of a file, without a byte order mark and with `\n` as line ends.

    Args:
        data: what the file holds.
        kind: what was expected, for messages.
        source: the file, for messages.

    Raises:
        InputError: it is not UTF-8 text.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"is not UTF-8 text; a {kind} was expected", source) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_text(path: Path, kind: str) -> str:
    """Returns a file's text; see `read_bytes` and `decode_text` for what is wrong with a file."""
    return decode_text(read_bytes(path, kind), kind, str(path))


def split_csv_line(line: str) -> list[str] | None:
    """Returns the cells of one line of CSV; None where its quotes do not close.

    Every line stands for itself: a stray quote spoils its own row, never those that follow.
    """
    try:
        return next(csv.reader((line,), strict=True))
    except StopIteration:
        return []
    except csv.Error:
        return None
