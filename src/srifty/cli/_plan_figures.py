"""What a plan's report draws, computed while everything that the plan rests on is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srifty.cli._digest import digest_of
from srifty.cli._json import request_document, scaling_document, timeline_document
from srifty.cli._observed import builtin_name, open_observed
from srifty.cli._workbench import Workbench
from srifty.core.job import Job
from srifty.core.plan import PlanResult
from srifty.planner import scaling_curves
from srifty.simulator import Predictor, Simulator, timeline_of

# Curves that can still be told apart in one drawing.
_MOST_CURVES = 4


def asked_document(path: Path, changes: list[str], job: Job) -> dict[str, Any]:
    """Returns what was asked for, and in which file, so that it can be asked again."""
    return request_document(job) | {
        "job_file": str(path.resolve()),
        "digest": digest_of(path),
        "changes": changes,
        "batches": str(job.batch_rule),
        "accumulate": job.accumulate,
    }


def figures_document(
    bench: Workbench, job: Job, result: PlanResult, predictor: Predictor
) -> dict[str, Any]:
    """Returns `scaling` and `timeline` of a planner's answer.

    Args:
        bench: of the job file.
        job: as it was planned for.
        result: the answer; its plan, or else the nearest one, is drawn.
        predictor: what forecast it; only our simulator knows a timeline.
    """
    best = result.plan or result.nearest
    seen = [plan for plan in (best, *result.ranking, *result.front) if plan is not None]
    kinds = [group.offer.instance_type for plan in seen for group in plan.config.groups]
    curves = scaling_curves(
        job,
        bench.catalog.offers,
        predictor,
        bench.batch_ranges,
        list(dict.fromkeys(kinds))[:_MOST_CURVES],
        allow_cross_zone=bench.file.allow_cross_zone,
    )
    timeline = None
    if best is not None and isinstance(predictor, Simulator):
        timeline = timeline_document(timeline_of(predictor, job, best.config))
    return {
        "scaling": {
            "curves": scaling_document(curves),
            "measured": _measured(bench, job),
        },
        "timeline": timeline,
    }


def _measured(bench: Workbench, job: Job) -> list[dict[str, Any]]:
    """Returns what the job's own iteration times say of this workload at this global batch."""
    path = bench.file.observed
    if path is None:
        return []
    names = {profile.workload for profile in job.profiles}
    names |= {name for each in names if (name := builtin_name(each)) is not None}
    return [
        {
            "instance_type": row.instance_type,
            "vms": row.vms,
            "samples_per_s": job.global_batch / row.step_s,
        }
        for row in open_observed(path).observations
        if (row.workload in names or builtin_name(row.workload) in names)
        and row.local_batch * row.world_size == job.global_batch
    ]
