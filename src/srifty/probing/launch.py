"""What torchrun tells each process, and the settings of the library that a sample names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srifty.errors import InputError

_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
HOW_TO_START = (
    "start it with torchrun, on one VM: torchrun --nproc-per-node GPUS -m srifty probe ..., on "
    "several, on each: torchrun --nnodes VMS --nproc-per-node GPUS --rdzv-backend c10d "
    "--rdzv-endpoint FIRST_VM:29500 -m srifty probe ..."
)
# Settings that say what is printed or where peers meet, not how fast they talk.
_NOT_RELEVANT = ("DEBUG", "DUMP", "COMM_ID", "FILE")


@dataclass(frozen=True, slots=True)
class Launch:
    """Where this process stands among all.

    Attributes:
        rank: of this process, from 0.
        local_rank: on its VM, from 0.
        world_size: processes, 2 or more.
        local_world_size: processes on this VM.
        vms: VMs, as torchrun counts its agents.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    vms: int


def launch_from(environment: Mapping[str, str]) -> Launch:
    """Returns what torchrun's environment says.

    Raises:
        InputError: it was not started by torchrun, or there is one process alone.
    """
    if any(name not in environment for name in (*_NAMES, *_ADDRESS)):
        raise InputError(f"a probe needs several processes; {HOW_TO_START}")
    try:
        values = {name: int(environment[name]) for name in _NAMES}
    except ValueError:
        wrong = ", ".join(f"{name}={environment[name]!r}" for name in _NAMES)
        raise InputError(f"torchrun's environment holds no numbers ({wrong})") from None
    if values["WORLD_SIZE"] < 2:
        raise InputError(f"one process alone has nobody to reduce with; {HOW_TO_START}")
    return Launch(
        rank=values["RANK"],
        local_rank=values["LOCAL_RANK"],
        world_size=values["WORLD_SIZE"],
        local_world_size=values["LOCAL_WORLD_SIZE"],
        vms=values["GROUP_WORLD_SIZE"],
    )


def library_settings(environment: Mapping[str, str], backend: str) -> str:
    """Returns the backend's settings as `KEY=VALUE`, sorted, joined by spaces.

    Args:
        environment: of one process.
        backend: `nccl` or `gloo`; only settings that start with its name are taken.
    """
    return " ".join(
        f"{name}={_one_line(value)}"
        for name, value in sorted(environment.items())
        if name.startswith(f"{backend.upper()}_")
        and not any(word in name for word in _NOT_RELEVANT)
    )


def _one_line(text: str) -> str:
    """Returns the text without blanks around and with a `?` for what would not print."""
    return "".join(letter if letter.isprintable() else "?" for letter in text.strip())
