"""Why a plan is as it is: what holds it back, what more would buy, what would change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from srifty.core.plan import Plan


class ExplanationKind(StrEnum):
    """What an explanation is about."""

    BINDING = "binding"
    WORTH = "worth"
    RUNNER_UP = "runner-up"
    SENSITIVITY = "sensitivity"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One fact about a plan, found by planning again or by comparing with another plan.

    Attributes:
        kind: a limit that binds, what a little more of it is worth, why the runner-up lost, or what
            becomes of the choice if the world is a little different.
        subject: the limit, or what is different.
        message: a full sentence.
        plan: the other plan; None where there is none.
        extra_usd: expected dollars of the other plan more than of the chosen one (negative: fewer),
            both as things are in the explanation.
        extra_s: expected seconds, likewise.
        parts: for a runner-up: what of its excess comes from what, in the objective's unit.
    """

    kind: ExplanationKind
    subject: str
    message: str
    plan: Plan | None
    extra_usd: float
    extra_s: float
    parts: dict[str, float] = field(default_factory=dict[str, float])
