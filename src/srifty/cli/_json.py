"""Results as JSON documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from srifty import __version__
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.forecast import Distribution, IterationForecast, JobForecast
from srifty.core.job import Job
from srifty.core.notation import format_config
from srifty.core.plan import Plan, PlanResult
from srifty.core.settings import RunSettings

if TYPE_CHECKING:  # whoever only lists prices needs neither planner nor simulator
    from srifty.planner import ScalingCurve
    from srifty.simulator import Timeline


def dump(document: dict[str, Any]) -> str:
    """Returns the document as text; infinities and NaN, which JSON lacks, become null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def plan_result_document(result: PlanResult) -> dict[str, Any]:
    """Returns the planner's answer; the contract names the keys."""
    document: dict[str, Any] = {
        "format": "srifty-plan/1",
        "srifty": __version__,
        "verdict": result.verdict.name.lower(),
        "message": result.verdict.value,
        "plan": plan_document(result.plan) if result.plan else None,
        "ranking": [plan_document(plan) for plan in result.ranking],
        "front": [plan_document(plan) for plan in result.front],
        "knee": result.knee,
        "marginals": [
            {
                "message": marginal.message,
                "config": format_config(marginal.plan.config),
                "extra_usd": marginal.extra_usd,
                "extra_s": marginal.extra_s,
            }
            for marginal in result.marginals
        ],
        "nearest": plan_document(result.nearest) if result.nearest else None,
        "reasons": [
            {
                "kind": reason.kind.value,
                "message": reason.message,
                "nearest": reason.nearest,
                "subject": reason.subject,
            }
            for reason in result.reasons
        ],
        "warnings": list(result.warnings),
        "assumptions": list(result.assumptions),
        "method": result.method,
        "considered": result.considered,
        "considered_remainder": result.considered_remainder,
        "proved_optimal": result.proved_optimal,
        "gap": result.gap,
        "seconds": result.seconds,
    }
    return document


def settings_document(settings: RunSettings) -> dict[str, Any]:
    """Returns how the VMs of a run are set up, as a job file's `run` says it."""
    document = asdict(settings)
    for name in ("env", "tags"):
        document[name] = dict(document[name])
    return document


def request_document(job: Job) -> dict[str, Any]:
    """Returns what was asked for."""
    limits, overheads = job.limits, job.overheads
    return {
        "minimize": str(job.objective),
        "global_batch": job.global_batch,
        "iterations": job.iterations,
        "deadline_s": limits.deadline_s,
        "budget_usd": limits.budget_usd,
        "confidence": limits.confidence,
        "launch_s": overheads.launch_s,
        "extra_usd_per_hour": job.extra_usd_per_hour,
    }


def scaling_document(curves: Sequence[ScalingCurve]) -> list[dict[str, Any]]:
    """Returns how single instance types do the job, over the number of their VMs."""
    return [
        {
            "instance_type": curve.instance_type,
            "points": [
                {
                    "vms": point.config.vms,
                    "config": format_config(point.config),
                    "samples_per_s": asdict(point.samples_per_s),
                    "time_s": asdict(point.time_s),
                    "cost_usd": asdict(point.cost_usd),
                    "success_probability": point.success_probability,
                }
                for point in curve.points
            ],
        }
        for curve in curves
    ]


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """Returns one iteration: who computes when, when transfers are ready, and when they run."""
    ready_s = {span.name: span.start_s for span in timeline.ready}
    return {
        "iteration_s": timeline.iteration_s,
        "compute": [
            {
                "track": span.track,
                "name": span.name,
                "start_s": span.start_s,
                "duration_s": span.duration_s,
            }
            for span in timeline.compute
        ],
        "transfers": [
            {
                "track": span.track,
                "name": span.name,
                "bytes": span.details["bytes"],
                "ready_s": ready_s[span.name],
                "start_s": span.start_s,
                "duration_s": span.duration_s,
            }
            for span in timeline.transfers
        ],
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    """Returns one plan."""
    return config_document(plan.config) | forecast_document(plan.forecast)


def config_document(config: ClusterConfig) -> dict[str, Any]:
    """Returns a cluster configuration."""
    return {
        "config": format_config(config),
        "groups": [_group_document(group) for group in config.groups],
        "world_size": config.world_size,
        "usd_per_hour": config.usd_per_hour,
    }


def forecast_document(forecast: JobForecast) -> dict[str, Any]:
    """Returns the forecast of a job."""
    return {
        "iteration_s": asdict(forecast.iteration_s),
        "parts": _parts(forecast.iteration),
        "time_s": _distribution(forecast.time_s),
        "cost_usd": _distribution(forecast.cost_usd),
        "traffic_usd": forecast.traffic_usd,
        "success_probability": forecast.success_probability,
        "interruptions": asdict(forecast.interruptions) if forecast.interruptions else None,
    }


def _group_document(group: VmGroup) -> dict[str, Any]:
    return {
        "instance_type": group.offer.instance_type.name,
        "cloud": group.offer.instance_type.cloud,
        "gpu": group.offer.instance_type.gpu,
        "gpus": group.offer.instance_type.gpus,
        "vcpus": group.offer.instance_type.vcpus,
        "cpu_vendor": group.offer.instance_type.cpu_vendor,
        "market": str(group.offer.market),
        "location": {
            "region": group.offer.location.region,
            "zone": group.offer.location.zone,
        },
        "count": group.count,
        "samples_per_vm": group.samples_per_vm,
        "gpus_used": group.gpus_used,
        "local_batch": list(group.local_batches),
        "accumulation": group.accumulation,
        "usd_per_hour_each": group.offer.usd_per_hour,
        "price_source": group.offer.price_source,
        "price_date": group.offer.price_date,
    }


def _parts(iteration: IterationForecast) -> dict[str, float]:
    return {
        "forward_s": iteration.forward_s,
        "backward_s": iteration.backward_s,
        "exchange_s": iteration.exchange_s,
        "exposed_exchange_s": iteration.exposed_exchange_s,
        "optimizer_s": iteration.optimizer_s,
        "input_s": iteration.input_s,
        "step_std_s": iteration.step_std_s,
        "allocation_std_s": iteration.allocation_std_s,
        "gpu_std_s": iteration.gpu_std_s,
        "model_std_s": iteration.model_std_s,
    }


def _distribution(distribution: Distribution) -> dict[str, float]:
    return asdict(distribution)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
