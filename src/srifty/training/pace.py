"""The pace of a GPU that is played: a step takes at least as long as it would there."""

from __future__ import annotations

import json
import time
from pathlib import Path

from srifty.errors import InputError

PACE = "SRIFTY_PACE"


class PlayedPace:
    """Holds each step up to the seconds that a file names.

    The local back end plays GPUs that this machine does not have. The file is read anew in each
    step: a VM may become slow.

    Args:
        path: a JSON file, `{"step_s": 0.25}`; None: nothing is played.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None

    def hold(self, began_s: float) -> None:
        """Waits until a step has taken as long as it should.

        Args:
            began_s: when the step began, by `time.perf_counter`.

        Raises:
            InputError: the file does not say how long.
        """
        if self._path is None:
            return
        try:
            step_s = float(json.loads(self._path.read_text(encoding="utf-8"))["step_s"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f'{PACE} must name a file such as {{"step_s": 0.25}}', str(self._path)
            ) from None
        time.sleep(max(began_s + step_s - time.perf_counter(), 0.0))
