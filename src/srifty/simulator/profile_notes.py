"""What forecasts take for granted about the profiles that they are made of, in full sentences."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.core.job import GradientSync, Job, SyncMode
from srifty.core.profile import GradientSchedule
from srifty.simulator.transfers import keeps_registration, schedule_profile

_MOST_NAMES = 3


def gradient_assumptions(schedule: GradientSchedule, sync: GradientSync) -> list[str]:
    """Returns what is not known of the gradients."""
    sentences: list[str] = []
    if schedule.estimated:
        sentences.append("Gradient order and ready times are estimated, not measured.")
    if keeps_registration(schedule, sync) and schedule.registered is None:
        sentences.append(
            "find_unused_parameters keeps the order in which parameters are registered; that is "
            "not in the profile: the reverse of the gradients' order is assumed."
        )
    return sentences


def cpu_assumptions(job: Job, gpus: Sequence[str]) -> list[str]:
    """Returns which profiles stand for a GPU and were measured on a CPU."""
    profiles = [profile for gpu in gpus if (profile := job.profile_for(gpu)) is not None]
    return [
        f"Warning: the profile for {profile.gpu} was measured on a CPU ({profile.source}), so its "
        f"times are not those of a {profile.gpu}; srifty profile --estimate-for estimates them."
        for profile in profiles
        if profile.is_cpu_posing
    ]


def unfound_warnings(job: Job) -> tuple[str, ...]:
    """Returns a warning where DistributedDataParallel would wait for gradients that stay away."""
    profile = schedule_profile(job)
    schedule = None if profile is None else profile.gradients
    if (
        schedule is None
        or job.sync.mode is not SyncMode.DDP
        or job.sync.find_unused_parameters is not False
        or not schedule.find_unused_parameters
    ):
        return ()
    setting = "gradient_sync.find_unused_parameters is false, but the profile needs it: "
    ends = "plain DistributedDataParallel ends with an error. "
    if not schedule.unused:
        return (
            f"{setting}some parameters get no gradient in some steps, and {ends}Leave it at auto.",
        )
    names = [parameter.name for parameter in schedule.unused]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (
        f"{setting}{', '.join(names[:_MOST_NAMES])}{more} get no gradient, and {ends}It only runs "
        "with static_graph=True, which this forecast takes; else leave it at auto.",
    )
