"""Doubles of storages that fail."""

import errno
from contextlib import contextmanager

from srifty.training.folder import LocalFolder


class FullDisk(LocalFolder):
    """A folder on a disk with so many bytes left, for all files of an entry together."""

    def __init__(self, path, left_bytes):
        super().__init__(path)
        self.left_bytes = left_bytes

    @contextmanager
    def writing(self, entry, name):
        with super().writing(entry, name) as file:
            yield _Limited(file, self)


class _Limited:
    def __init__(self, file, disk):
        self._file, self._disk = file, disk

    def write(self, data):
        size = memoryview(data).nbytes
        if size > self._disk.left_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._disk.left_bytes -= size
        return self._file.write(data)

    def flush(self):
        self._file.flush()
