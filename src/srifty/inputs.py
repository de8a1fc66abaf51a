"""Reading the files that people give us: one clear error whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

from srifty.errors import InputError

_MOST_BYTES = 256 * 1024 * 1024


def read_text(path: Path, kind: str) -> str:
    """Returns a file's text, without a byte order mark.

    Args:
        path: the file.
        kind: what was expected, for messages.

    Raises:
        InputError: there is no such file, it cannot be read, is too large, or is not UTF-8 text.
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
    except ValueError:  # pathlib's word for a NUL character in a name
        raise InputError("is no file name", repr(str(path))) from None
