"""Watching a run and deciding what to do: pure, fed a clock, joins events and the planner's plans."""

from srifty.control.blame import Blame, Culprit, blame
from srifty.control.pace import Pace, PaceRule, Watch, pace_of, watch
from srifty.control.policy import decide
from srifty.control.pools import PoolRule, Pools
from srifty.control.situation import Candidate, PolicyRule, Situation

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
    "decide",
    "pace_of",
    "watch",
]
