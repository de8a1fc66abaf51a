"""What is run, how it is watched, and how it may end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from srifty.core.settings import RunSettings


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    REFUSED = "refused"
    MONEY = "money"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RunRule:
    """How a run is watched.

    Attributes:
        tick_s: real seconds between two looks.
        silence_s: real seconds without a step after which workers count as hung; more where a step
            takes long.
        start_s: real seconds that workers have until their first step.
        save_s: real seconds that workers have to save and stop.
        broken_s: real seconds that they have when one of them is gone: the others may wait for it
            without an end, or write what was agreed on before.
        release_s: real seconds that VMs have to end.
        launch_s: seconds of the run after which a VM that never came counts as refused.
        most_stalls: worlds in a row that may end without a checkpoint newer than before.
        note_s: seconds of the run between two notes of progress.
        preflight_s: real seconds that a sweep between VMs may take.
    """

    tick_s: float = 0.5
    silence_s: float = 30.0
    start_s: float = 300.0
    save_s: float = 120.0
    broken_s: float = 10.0
    release_s: float = 30.0
    launch_s: float = 900.0
    most_stalls: int = 5
    note_s: float = 10.0
    preflight_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What is run, and how.

    Attributes:
        run_id: the run's name.
        user: whose it is.
        command: the training script and its arguments.
        hard_end_s: seconds since the command at which all VMs end themselves.
        settings: how the VMs are set up.
        plays_gpus: whether steps are held to the pace of the GPUs that are planned with.
        checkpoint_folder: where checkpoints can be seen by the controller; None: nowhere.
        preflight: what VMs run before they train together, one process on each; None: nothing.
    """

    run_id: str
    user: str
    command: tuple[str, ...]
    hard_end_s: float
    settings: RunSettings = field(default_factory=RunSettings)
    plays_gpus: bool = False
    checkpoint_folder: Path | None = None
    preflight: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and why.

    Attributes:
        ending: how.
        message: a full sentence.
        at_s: seconds since the command.
        usd: dollars, total for this run.
        iteration: iterations that were made.
    """

    ending: Ending
    message: str
    at_s: float
    usd: float
    iteration: int
