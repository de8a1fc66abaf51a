"""What tells one version of a file from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

from srifty.errors import InputError


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from None
