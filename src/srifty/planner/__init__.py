"""A job + offers + a predictor → the best plan, its runners-up, the front, or why there is none."""

from srifty.planner.explain import explain
from srifty.planner.method import Method
from srifty.planner.one_type import one_type_configs
from srifty.planner.plan import TIME_LIMIT_S, choose, plan
from srifty.planner.scaling import Band, ScalingCurve, ScalingPoint, scaling_curves
from srifty.planner.supply import BatchRange, TypeSupply, places_of, supplies_of
from srifty.planner.worker_times import worker_speed

__all__ = [
    "TIME_LIMIT_S",
    "Band",
    "BatchRange",
    "Method",
    "ScalingCurve",
    "ScalingPoint",
    "TypeSupply",
    "choose",
    "explain",
    "one_type_configs",
    "places_of",
    "plan",
    "scaling_curves",
    "supplies_of",
    "worker_speed",
]
