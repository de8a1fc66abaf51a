"""Sharded states (FSDP): each worker writes its part, by torch.distributed.checkpoint.

What that library reads it unpickles: its index, and whatever is no tensor. Here both are read by
unpicklers that know only the index's own classes, and plain values.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srifty._torch import torch
from srifty.errors import InputError

_dcp: Any = importlib.import_module("torch.distributed.checkpoint")
_states: Any = importlib.import_module("torch.distributed.checkpoint.state_dict")

# What an index is made of: plain records of this module, and a few others.
_RECORDS = "torch.distributed.checkpoint.metadata"
_KNOWN = {
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.distributed.checkpoint.filesystem", "_StoragePrefix"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("torch.distributed._shard.sharding_spec.chunk_sharding_spec", "ChunkShardingSpec"),
    ("pathlib", "Path"),
    ("pathlib", "PosixPath"),
    ("collections", "OrderedDict"),
}


def sharded_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the states by names that are the same on all workers, whatever their number.

    Raises:
        InputError: there are optimizers and not exactly one model, whose names theirs are.
    """
    models = [owner for owner in state.values() if isinstance(owner, torch.nn.Module)]
    found: dict[str, Any] = {}
    for name, owner in state.items():
        if isinstance(owner, torch.nn.Module):
            found[name] = _states.get_model_state_dict(owner)
        elif isinstance(owner, torch.optim.Optimizer):
            if len(models) != 1:
                raise InputError("a sharded state needs exactly one model beside its optimizers")
            found[name] = _states.get_optimizer_state_dict(models[0], owner)
        else:
            found[name] = owner.state_dict()
    return found


def put_back_sharded(state: Mapping[str, Any], path: Path, group: Any) -> None:
    """Loads the states at a path into their objects; all workers call it.

    Args:
        state: the objects by name.
        path: of the checkpoint.
        group: of processes that can send from the CPU.
    """
    saved = sharded_state(state)
    _dcp.load(saved, storage_reader=_Reader(path), planner=_Planner(), process_group=group)
    model = next(owner for owner in state.values() if isinstance(owner, torch.nn.Module))
    for name, owner in state.items():
        if isinstance(owner, torch.nn.Module):
            _states.set_model_state_dict(owner, saved[name])
        elif isinstance(owner, torch.optim.Optimizer):
            _states.set_optimizer_state_dict(model, owner, saved[name])
        else:
            owner.load_state_dict(saved[name])


def start_writing(state: Mapping[str, Any], path: Path, group: Any) -> Any:
    """Copies the states and writes them in the background; returns a future. All workers call it.

    Args:
        state: the objects by name.
        path: the folder to write into.
        group: of processes that can send from the CPU, used by nothing else meanwhile.
    """
    writer = _dcp.FileSystemWriter(path, sync_files=True)
    return _dcp.async_save(sharded_state(state), storage_writer=writer, process_group=group)


class _Unpickler(pickle.Unpickler):  # the only classes it makes are named above
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        records: Any = _dcp.metadata
        kind: Any = getattr(records, global_name, None) if module_name == _RECORDS else None
        if isinstance(kind, type) and kind.__module__ == _RECORDS:
            return kind
        value: Any = getattr(torch, global_name, None) if module_name == "torch" else None
        if isinstance(value, (torch.dtype, torch.layout)):
            return value
        if (module_name, global_name) in _KNOWN:
            return super().find_class(module_name, global_name)
        raise pickle.UnpicklingError(f"the index names {module_name}.{global_name}")


class _Reader(_dcp.FileSystemReader):
    def read_metadata(self, *_: Any, **__: Any) -> Any:
        source = Path(self.path) / ".metadata"
        try:
            with source.open("rb") as file:
                found: Any = _Unpickler(file).load()
        except (pickle.UnpicklingError, EOFError, AttributeError, ValueError) as error:
            raise InputError(f"is no index of a checkpoint: {error}", str(source)) from None
        if not isinstance(found, _dcp.metadata.Metadata):
            raise InputError("is no index of a checkpoint", str(source))
        if getattr(found, "storage_meta", None) is None:
            found.storage_meta = _dcp.metadata.StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class _Planner(_dcp.DefaultLoadPlanner):
    def load_bytes(self, read_item: Any, value: Any) -> None:
        # What this accepts holds nothing that the library's own unpickling could run.
        torch.load(value, map_location="cpu", weights_only=True)
        value.seek(0)
        super().load_bytes(read_item, value)
