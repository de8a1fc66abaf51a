"""One training at a time writes into a local folder: a lock that ends with the process."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
from pathlib import Path

from srifty.errors import InputError

LOCK = ".writer"

# A record lock belongs to the process, ends with it however it ends, and is not inherited by
# loaders it forks; it would end as well with the first of several handles that is closed.
_held: dict[tuple[int, str], int] = {}
_MOST_BYTES = 200

_log = logging.getLogger(__name__)


def hold(folder: Path) -> None:
    """Makes this process the only one that writes into a folder, until it ends.

    Args:
        folder: is there, and can be written into.

    Raises:
        InputError: another process writes there.
        OSError: the storage failed.
    """
    path = str(folder.resolve() / LOCK)
    if (os.getpid(), path) in _held:
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(handle, _MOST_BYTES).decode(errors="replace").strip()
        os.close(handle)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            _log.warning(
                "%s: this storage knows no locks (%s); see to it that no other training writes "
                "there",
                folder,
                error.strerror,
            )
            return
        raise InputError(
            f"another training writes here ({holder or 'of an unknown process'}); end it (workers "
            "may outlive their killed torchrun), or save into another folder",
            str(folder),
        ) from None
    _held[os.getpid(), path] = handle
    os.ftruncate(handle, 0)
    os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
