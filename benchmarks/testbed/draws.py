"""The draws that make one VM differ from another, and one step from the next. Pure."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass, field
from typing import Self


@dataclass
class Draws:
    """What was drawn for one VM.

    Attributes:
        pace_factor: this VM's seconds over the type's, for the whole allocation.
        step_std: standard deviation of log seconds from step to step.
        seed: of the steps' draws.
    """

    pace_factor: float = 1.0
    step_std: float = 0.0
    seed: int = 0
    _random: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - noise, not a secret

    def step_factor(self) -> float:
        """Returns the factor on the seconds of the next step; its mean is `pace_factor`."""
        if self.step_std == 0:
            return self.pace_factor
        noise = self._random.gauss(-(self.step_std**2) / 2, self.step_std)
        return self.pace_factor * math.exp(noise)

    def to_text(self) -> str:
        """Returns it as JSON."""
        return json.dumps({k: v for k, v in asdict(self).items() if not k.startswith("_")})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns what `to_text` wrote; no noise for an empty text."""
        return cls(**json.loads(text or "{}"))
