"""The vocabulary: frozen values that check themselves when made. No I/O, no third-party import."""

from srifty.core.allreduce import AllreduceSample, Collective, CurveKey
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.forecast import Distribution, IterationForecast, JobForecast
from srifty.core.hardware import GpuModel, InstanceType
from srifty.core.job import (
    BatchRule,
    GradientSync,
    Job,
    Limits,
    Objective,
    Overheads,
    Sharing,
    SyncMode,
)
from srifty.core.notation import format_config, format_group, parse_config
from srifty.core.observation import Observation
from srifty.core.offers import Location, Market, Offer
from srifty.core.plan import Marginal, Plan, PlanResult, Reason, ReasonKind, Verdict
from srifty.core.profile import (
    BatchLatency,
    Gradient,
    GradientSchedule,
    Item,
    Layer,
    WorkloadProfile,
)
from srifty.core.work import StepMemory, StepWork

__all__ = [
    "AllreduceSample",
    "BatchLatency",
    "BatchRule",
    "ClusterConfig",
    "Collective",
    "CurveKey",
    "Distribution",
    "GpuModel",
    "Gradient",
    "GradientSchedule",
    "GradientSync",
    "InstanceType",
    "Item",
    "IterationForecast",
    "Job",
    "JobForecast",
    "Layer",
    "Limits",
    "Location",
    "Marginal",
    "Market",
    "Objective",
    "Observation",
    "Offer",
    "Overheads",
    "Plan",
    "PlanResult",
    "Reason",
    "ReasonKind",
    "Sharing",
    "StepMemory",
    "StepWork",
    "SyncMode",
    "Verdict",
    "VmGroup",
    "WorkloadProfile",
    "format_config",
    "format_group",
    "parse_config",
]
