"""What others would have forecast or chosen: behind the same signatures as the simulator."""

from srifty.baselines.apm import Apm, apm_of, linear_latency
from srifty.baselines.comparison import PREDICTORS, Comparison, compare
from srifty.baselines.compute_only import ComputeOnly
from srifty.baselines.lineup import Choice, Rivals
from srifty.baselines.oracle_bo import Found, oracle_bo
from srifty.baselines.paleo import Paleo, paleo_of
from srifty.baselines.ring import Ring, RingAllreduce, fit_ring, ring_of_two_vms

__all__ = [
    "PREDICTORS",
    "Apm",
    "Choice",
    "Comparison",
    "ComputeOnly",
    "Found",
    "Paleo",
    "Ring",
    "RingAllreduce",
    "Rivals",
    "apm_of",
    "compare",
    "fit_ring",
    "linear_latency",
    "oracle_bo",
    "paleo_of",
    "ring_of_two_vms",
]
