"""How long an allreduce takes: measured samples → models that answer for any world and size."""

from srifty.allreduce.alpha_beta import AlphaBetaModel
from srifty.allreduce.base import AllreduceModel, Uncertainty
from srifty.allreduce.samples import builtin_samples, read_samples

__all__ = [
    "AllreduceModel",
    "AlphaBetaModel",
    "Uncertainty",
    "builtin_samples",
    "read_samples",
]
