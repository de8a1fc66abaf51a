"""What clouds call the machines of a plan, where that is not the name of the type."""

from __future__ import annotations

from dataclasses import dataclass

from srifty.core.written import WrittenGroup
from srifty.errors import InputError

# Google Cloud's names of GPUs that are attached to a machine; all other machines have theirs built
# in. (Compute Engine, "GPU models on Compute Engine".)
_ATTACHED = {
    "K80": "nvidia-tesla-k80",
    "P4": "nvidia-tesla-p4",
    "P100": "nvidia-tesla-p100",
    "T4": "nvidia-tesla-t4",
    "V100": "nvidia-tesla-v100",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its cloud knows it.

    Attributes:
        name: the machine type.
        accelerator: the cloud's name of the GPUs that are attached to it; None where they are built
            in.
    """

    name: str
    accelerator: str | None = None


def machine_of(group: WrittenGroup) -> Machine:
    """Returns the machine behind a type: `n1-standard-8` with a GPU for `n1-standard-8+1xT4`.

    Raises:
        InputError: the GPU that is attached is none that Google Cloud attaches.
    """
    name, plus, attached = group.instance_type.partition("+")
    if not plus:
        return Machine(name)
    gpu = attached.partition("x")[2]
    if gpu not in _ATTACHED:
        known = ", ".join(sorted(_ATTACHED))
        raise InputError(
            f"{group.instance_type}: no cloud is known to attach a {gpu} to a machine ({known})"
        )
    return Machine(name, _ATTACHED[gpu])
