"""The pace of a GPU and a network that are played: a step takes as long as it would take there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

PACE = "SRIFTY_PACE"


class Pace:
    """Holds every step up until a played GPU would be done with it.

    Args:
        file: a JSON file whose `step_s` is how many seconds a step takes at least, and whose
            `exchange_s`, if any, is how many more its exchange takes; it is read at every step,
            since a played VM may become slow. None: steps take as long as they do.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Pace:
        """Returns the pace that SRIFTY_PACE names; steps are not held up if it names none."""
        variables = os.environ if environment is None else environment
        named = variables.get(PACE)
        return cls(Path(named) if named else None)

    def hold(self, began_s: float) -> float:
        """Waits until a step that began at a time of `time.perf_counter` has taken long enough.

        Returns the seconds of that which the played exchange took.
        """
        if self._file is None:
            return 0.0
        said: dict[str, float] = json.loads(self._file.read_text(encoding="utf-8"))
        exchange_s = float(said.get("exchange_s", 0.0))
        time.sleep(max(0.0, began_s + float(said["step_s"]) - time.perf_counter()) + exchange_s)
        return exchange_s
