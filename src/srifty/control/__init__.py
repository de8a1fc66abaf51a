"""Watching a run and deciding what to do: pure, fed a clock; joins events and plans."""

from srifty.control.blame import Blame, Culprit, blame
from srifty.control.pace import Pace, PaceRule, Watch, pace_of, watch
from srifty.control.policy import decide
from srifty.control.pools import PoolRule, Pools
from srifty.control.situation import (
    Candidate,
    PolicyRule,
    Situation,
    candidates_of,
    least_pace,
    offers_left,
    remaining_job,
)

__all__ = [
    "Blame",
    "Candidate",
    "Culprit",
    "Pace",
    "PaceRule",
    "PolicyRule",
    "PoolRule",
    "Pools",
    "Situation",
    "Watch",
    "blame",
    "candidates_of",
    "decide",
    "least_pace",
    "offers_left",
    "pace_of",
    "remaining_job",
    "watch",
]
