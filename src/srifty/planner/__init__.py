"""A job + offers + a predictor → the best plan, its runners-up, the front, or why there is none."""

from srifty.planner.explain import explain
from srifty.planner.plan import TIME_LIMIT_S, plan
from srifty.planner.supply import BatchRange, TypeSupply, places_of, supplies_of

__all__ = [
    "TIME_LIMIT_S",
    "BatchRange",
    "TypeSupply",
    "explain",
    "places_of",
    "plan",
    "supplies_of",
]
