"""What others would have forecast: the baselines, behind the same signatures as the simulator."""

from srifty.baselines.apm import Apm, linear_latency
from srifty.baselines.comparison import PREDICTORS, Comparison, compare
from srifty.baselines.compute_only import ComputeOnly
from srifty.baselines.ring import Ring, RingAllreduce, fit_ring

__all__ = [
    "PREDICTORS",
    "Apm",
    "Comparison",
    "ComputeOnly",
    "Ring",
    "RingAllreduce",
    "compare",
    "fit_ring",
    "linear_latency",
]
