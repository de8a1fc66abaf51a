"""Saving while training goes on, and resuming."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from srifty._torch import torch
from srifty.errors import InputError
from srifty.training import checkpoint
from srifty.training.checkpoint import Checkpoint
from srifty.training.folder import Folder, LocalFolder, open_folder
from srifty.training.snapshot import Snapshot, put_back, require_stateful, state_of
from srifty.units import format_duration

_log = logging.getLogger(__name__)


class Checkpoints:
    """Saves a training's state into a folder, in the background, and puts it back.

    Whole states are written by worker 0. States in parts (FSDP) are written by all workers, into a
    folder that all of them see. A save that fails is warned about, and leaves the older ones.

    Args:
        where: a local folder, or a URL that fsspec knows (`s3://bucket/run1`).
        state: models, optimizers, schedulers, scalers by name: what has a `state_dict` and a
            `load_state_dict`.
        keep: how many of the newest to keep, at least 2.
        rank: of this worker.
        group: of all workers, that can send from the CPU and that nothing else uses; None where
            there is one.

    Raises:
        InputError: an argument is out of range, or a state cannot be saved there.
    """

    def __init__(
        self,
        where: str | Path | Folder,
        state: Mapping[str, Any],
        *,
        keep: int = 2,
        rank: int = 0,
        group: Any = None,
    ) -> None:
        if keep < 2:
            raise InputError(f"keep must be 2 or more, not {keep}: the newest may be damaged")
        require_stateful(state)
        plain = isinstance(where, (str, Path))
        self.folder: Folder = open_folder(where, checkpoint.MANIFEST) if plain else where
        self._state = state
        self._keep = keep
        self._rank = rank
        self._group = group
        self._snapshot = Snapshot()
        self._thread: threading.Thread | None = None
        self._failed: Exception | None = None
        self._sharded = group is not None and _has_parts(state)
        if self._sharded and not isinstance(self.folder, LocalFolder):
            raise InputError(
                "a sharded state is written by all workers at once, into a folder that they all "
                "see; mount the storage and give the mounted folder",
                self.folder.where,
            )
        self.saved_step: int | None = None
        self.stall_s: float | None = None
        self.save_s: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a save is being written."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, step: int, facts: Mapping[str, Any]) -> None:
        """Copies the state and begins to write it; waits first for a save that is being written.

        All workers call it at the same step.

        Args:
            step: the global step that training will go on with.
            facts: what to say about the training; JSON values.
        """
        self.wait()
        if step == self.saved_step:
            return
        began_s = time.perf_counter()
        if self._sharded:
            write = self._start_sharded(step, facts)
        elif self._rank == 0:
            write = self._start_whole(step, facts)
        else:
            return
        self.stall_s = time.perf_counter() - began_s

        def work() -> None:
            try:
                write()
                if self._rank == 0:
                    checkpoint.prune(self.folder, self._keep)
            except Exception as error:  # noqa: BLE001 - training goes on, whatever went wrong
                self._failed = error
                return
            self.saved_step = step
            self.save_s = time.perf_counter() - began_s
            _log.info("step %d is saved, in %s", step, format_duration(self.save_s))

        # Not a daemon: a script that ends waits for its last save.
        self._thread = threading.Thread(target=work, name="srifty-checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Waits for the save that is being written, and warns if it failed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.warn()

    def warn(self) -> None:
        """Warns about a save that failed, once."""
        error, self._failed = self._failed, None
        if error is not None:
            warnings.warn(
                f"{self.folder.where}: a checkpoint could not be saved "
                f"({type(error).__name__}: {error}); the older ones are as they were, training "
                "goes on, and the next save will be tried as usual",
                UserWarning,
                stacklevel=2,
            )

    def newest(self) -> Checkpoint | None:
        """Returns the newest checkpoint that is whole; warns about those that are not."""
        return checkpoint.newest(self.folder)

    def load(self, found: Checkpoint) -> None:
        """Puts the state of a checkpoint back.

        Raises:
            InputError: it holds another training's state, or other objects than plain values.
        """
        self.saved_step = found.step
        if self._sharded and isinstance(self.folder, LocalFolder):
            module = _sharded_module()
            module.put_back_sharded(self._state, self.folder.path / found.entry, self._group)
            return
        saved = checkpoint.read_state(self.folder, found)
        put_back(self._state, saved, f"{self.folder.where}/{found.entry}")

    def _start_whole(self, step: int, facts: Mapping[str, Any]) -> Callable[[], None]:
        taken = self._snapshot.take(state_of(self._state))

        def fill(file: BinaryIO) -> None:
            torch.save(taken, file)

        return lambda: checkpoint.write(self.folder, step, facts, {checkpoint.STATE: fill})

    def _start_sharded(self, step: int, facts: Mapping[str, Any]) -> Callable[[], None]:
        folder, entry = self.folder, checkpoint.entry_of(step)
        if not isinstance(folder, LocalFolder):
            raise InputError("sharded states need a folder", folder.where)
        if self._rank == 0:
            folder.begin(entry)
        torch.distributed.barrier(group=self._group)
        future = _sharded_module().start_writing(self._state, folder.unfinished(entry), self._group)

        def finish() -> None:
            future.result()
            if self._rank != 0:
                return
            listed: dict[str, tuple[int, str]] = {}
            for name in folder.written(entry):
                with (folder.unfinished(entry) / name).open("rb") as file:
                    listed[name] = checkpoint.digest_of_file(file)
            checkpoint.seal(folder, step, facts, listed)

        return finish


def _has_parts(state: Mapping[str, Any]) -> bool:
    """Returns whether a model's parameters lie in parts on several workers."""
    # What was never imported made no model; importing it takes long.
    tensors: Any = sys.modules.get("torch.distributed.tensor")
    kind: Any = getattr(tensors, "DTensor", ())
    models = [owner for owner in state.values() if isinstance(owner, torch.nn.Module)]
    return any(isinstance(one, kind) for model in models for one in model.parameters())


def _sharded_module() -> Any:
    """Returns `sharded`, whose imports take long."""
    return importlib.import_module("srifty.training.sharded")
