"""Files that people give us: jobs, profiles, plans, CSV; read with all their errors at once."""

from srifty.files.iterations_csv import ObservedIterations, read_iterations
from srifty.files.job_file import JobFile, read_job
from srifty.files.latency_csv import LatencyCurve, read_latency_curves
from srifty.files.plan_file import read_plan
from srifty.files.profile_file import (
    builtin_profiles,
    builtin_workloads,
    read_profile,
)

__all__ = [
    "JobFile",
    "LatencyCurve",
    "ObservedIterations",
    "builtin_profiles",
    "builtin_workloads",
    "read_iterations",
    "read_job",
    "read_latency_curves",
    "read_plan",
    "read_profile",
]
