"""Why a job's time is not known better: each cause's part of the spread, and what would lessen it.

Var(time) = N·σ_step² + N²·(σ_allocation² + σ_gpu² + σ_model²) + what lost VMs add
"""

from __future__ import annotations

from dataclasses import dataclass

from srifty.files.plan_document import PlanDocument
from srifty.report.layout import Bar, bar_list, both
from srifty.report.quantities import duration, share
from srifty.report.table import Figure, Row, Table, columns


@dataclass(frozen=True, slots=True)
class Doubt:
    """A cause of doubt.

    Attributes:
        name: what it is.
        std_s: standard deviation of the job's time that it alone would make, seconds.
        remedy: what would make it smaller.
    """

    name: str
    std_s: float
    remedy: str


def doubts(document: PlanDocument) -> tuple[Doubt, ...]:
    """Returns the causes of a plan's spread, in the order of the formula."""
    plan = document.plan or document.nearest
    request = document.request
    if plan is None or request is None:
        return ()
    n, parts = request.iterations, plan.parts
    step_s = n**0.5 * parts.step_std_s
    lasting = (n * parts.allocation_std_s, n * parts.gpu_std_s, n * parts.model_std_s)
    known = [
        Doubt("noise from step to step", step_s, "averages out over the iterations"),
        Doubt(
            "which network the VMs get",
            lasting[0],
            "a sweep once they run (srifty probe), a placement group",
        ),
        Doubt("GPUs of one type differ", lasting[1], "profiles of several VMs"),
        Doubt(
            "error of the models",
            lasting[2],
            "more batch sizes in the profile, allreduces measured on these types",
        ),
    ]
    if plan.interruptions is not None and plan.time_s.std is not None:
        rest = plan.time_s.std**2 - step_s**2 - sum(std_s**2 for std_s in lasting)
        lost_s = max(rest, 0.0) ** 0.5
        known.append(Doubt("spot VMs that are lost", lost_s, "checkpoints, on-demand VMs"))
    return tuple(known)


def doubt_figure(document: PlanDocument) -> Figure | None:
    """Returns the drawing of what a plan's spread comes from; None where that is not known."""
    causes = doubts(document)
    variance = sum(cause.std_s**2 for cause in causes)
    if not variance > 0:
        return None
    bars = [
        Bar(
            cause.name,
            cause.std_s,
            f"± {duration(cause.std_s).text}",
            "first" if cause.std_s**2 > variance / 2 else "soft",
        )
        for cause in causes
    ]
    wide, narrow = both(bar_list(bars, "What the spread comes from"))
    rows = tuple(
        Row((each.name, duration(each.std_s), share(each.std_s**2 / variance), each.remedy))
        for each in causes
    )
    plan = document.plan or document.nearest
    name = "plan" if document.plan else "nearest"
    total = None if plan is None else duration(plan.time_s.std, f"{name}.time_s.std")
    table = Table(
        "What the spread comes from",
        columns("cause", "#± of the job's time", "#share of the variance", "what lessens it"),
        rows,
        Row(("all together", total or "", share(1.0), "")),
    )
    caption = (
        "By how much each cause alone would let the job's time vary (standard deviation). The odds "
        "above count them all."
    )
    return Figure("doubt", caption, wide, narrow, (), table)
