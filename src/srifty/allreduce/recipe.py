"""What cross-validation chose: weights of the blend's members, and how wide intervals are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from srifty.errors import InputError

KRIGING = "kriging"
INTERPOLATED = "interpolated"
ALPHA_BETA = "alpha-beta"
BOOSTED = "boosted"
MEMBERS = (KRIGING, INTERPOLATED, ALPHA_BETA, BOOSTED)


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose for one regime and size class.

    Attributes:
        regime: what answers rest on.
        large: messages of 1 MiB and more, or smaller ones.
        weights: weight of each member, by name; they sum to 1.
        error: mean over families of the mean absolute relative error, held out.
        errors: the same of each member alone.
        groups: how many (curve, world) were held out.
    """

    regime: str
    large: bool
    weights: Mapping[str, float]
    error: float
    errors: Mapping[str, float]
    groups: int


@dataclass(frozen=True)
class Recipe:
    """The blend's outcome of cross-validation; with it, a blend needs no more of that.

    Attributes:
        choices: one per regime and size class that could be tried.
        scales: by regime, the factor on the standard deviations.
    """

    choices: tuple[Choice, ...] = ()
    scales: Mapping[str, float] = field(default_factory=dict[str, float])

    def weights(self, regime: str, *, large: bool) -> Mapping[str, float]:
        """Returns the weights for a regime; kriging alone where nothing could be tried."""
        for choice in self.choices:
            if choice.regime == regime and choice.large == large:
                return choice.weights
        return {KRIGING: 1.0}

    @property
    def members(self) -> set[str]:
        """Names of the members with any weight."""
        return {name for choice in self.choices for name, w in choice.weights.items() if w > 0}

    def document(self) -> dict[str, Any]:
        """Returns it as JSON types."""
        return {"choices": [asdict(choice) for choice in self.choices], "scales": {**self.scales}}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Returns what `document` held.

        Raises:
            InputError: it is no recipe.
        """
        try:
            choices = tuple(
                Choice(
                    regime=str(entry["regime"]),
                    large=bool(entry["large"]),
                    weights=_numbers(entry["weights"], of=MEMBERS),
                    error=float(entry["error"]),
                    errors=_numbers(entry["errors"], of=MEMBERS),
                    groups=int(entry["groups"]),
                )
                for entry in document["choices"]
            )
            return cls(choices, _numbers(document["scales"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"is no recipe of allreduce models: {error!r}") from None


def _numbers(values: Mapping[str, Any], of: tuple[str, ...] | None = None) -> dict[str, float]:
    numbers = {str(name): float(value) for name, value in values.items()}
    for name, value in numbers.items():
        if not math.isfinite(value) or value < 0 or (of is not None and name not in of):
            raise ValueError(f"{name}: {value}")
    return numbers
