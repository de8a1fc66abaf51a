"""Everything Srifty raises on purpose.

SriftyError
├── InputError          what the user gave is wrong: a file, a flag, a value
│   └── NotationError   a cluster configuration that does not parse
├── ModelError          a model was asked for something that its data cannot answer
├── CloudRefused        a cloud did not do what was asked: credentials, permission, region, quota
├── ProbeFailed         a measurement ended early: a rank was lost, or a reduction gave a wrong sum
├── ProfileFailed       a model could not be profiled, or is not as it was before
└── TrainingStalled     training begins again and again and does not get on

Each carries a message that says what is wrong, where, and what to write instead. Expected outcomes
(no feasible plan) are not errors: see `srifty.core.plan.Verdict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class SriftyError(Exception):
    """Base of all errors that Srifty raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input.

    Attributes:
        where: the path inside the input, such as `offers.quota.p3.8xlarge`; empty for the whole.
        message: what is wrong and what to write instead.
    """

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class InputError(SriftyError):
    """The input is wrong; all that is wrong with it is reported together.

    Args:
        problems: one sentence, or several `Problem`s of one input.
        source: the file (or flag) that holds the input; None where the caller knows it better.
    """

    def __init__(self, problems: str | Sequence[Problem], source: str | None = None) -> None:
        if isinstance(problems, str):
            problems = (Problem("", problems),)
        self.problems = tuple(problems)
        self.source = source
        lines = [f"{source}: {problem}" if source else str(problem) for problem in self.problems]
        super().__init__("\n".join(lines))


class NotationError(InputError):
    """A cluster configuration such as `1p3.8xlarge@512 + 8g3.8xlarge@64` does not parse."""


class ModelError(SriftyError):
    """A model cannot answer: no data, or data that contradict each other."""


class CloudRefused(SriftyError):  # noqa: N818 - an answer of the cloud's, named as the contract does
    """A cloud refused: no credentials, not allowed, an unknown region, or no answer at all."""


class ProbeFailed(SriftyError):  # noqa: N818 - an outcome of the machines', not a wrong input
    """A measurement could not be ended: a rank was lost or silent, or a sum came out wrong."""


class ProfileFailed(SriftyError):  # noqa: N818 - an outcome of the model's, as for a probe
    """A model could not be profiled to the end, or its state could not be put back."""


class TrainingStalled(SriftyError):  # noqa: N818 - an outcome, as for a profile
    """Training was started again and again at the same step, and never came to its next save."""
