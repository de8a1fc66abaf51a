"""Cases 1 to 7 of Luo et al. 2022 at full scale, answered by the simulator alone.

    python -m benchmarks.paper.cases [-o docs/results/paper_cases.md]

from the repository's root, half a minute on one core. No VM was rented: what a choice takes and
costs is our simulator's word, on built-in samples and prices.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.paper.pages import RESULTS, made_by, table, write
from benchmarks.paper_jobs import PAPER_CASES, PaperCase, Prepared, prepare
from srifty.baselines import Choice, Rivals
from srifty.catalog import builtin_gpus
from srifty.core.cluster import ClusterConfig
from srifty.core.job import Objective
from srifty.core.notation import format_config
from srifty.planner import Method, choose, plan
from srifty.units import format_duration, format_usd

# What the paper says of its choice, and how ours compares; section 5.2.
SAID = {
    "1 ResNet-50": "16 g4dn.8xlarge",
    "2 VGG-16": "32 g3.8xlarge, 7 % faster than what all baselines choose",
    "3 AlexNet": "not stated; a concave curve, and no batch below 64 per GPU",
    "4 DLRM": "all of the batch on the fewest GPUs, as APM and CGF",
    "5 XLM": "not stated; few GPUs with large batches, up to 1.26 times cheaper",
    "5 BERT": "16 g3.8xlarge, fully packed, as all but FGF",
    "6 Inception": "several types, balanced; all others break a limit",
    "7 ShuffleNet": "no plan: the limits are too tight; all others break one",
}
_REPEATS = 3


def seconds(ready: Prepared, method: Method) -> float:
    """Returns the CPU seconds of an answer, the best of three."""
    best_s = float("inf")
    for _ in range(_REPEATS):
        began = time.process_time()
        if method is Method.ANCHORED:
            choose(ready.job, ready.offers, ready.simulator, ready.batch_ranges, method=method)
        else:
            plan(ready.job, ready.offers, ready.simulator, ready.batch_ranges)
        best_s = min(best_s, time.process_time() - began)
    return best_s


def case(one: PaperCase) -> tuple[list[str], tuple[object, ...]]:
    """Returns a case's lines, and its row of the table of answers."""
    ready = prepare(one)
    rivals = Rivals(ready.job, ready.offers, ready.simulator, ready.batch_ranges, builtin_gpus())
    choices = rivals.line_up()
    job, ours = ready.job, choices[0]
    best = ours.value(job.objective)
    deadline_s, budget_usd = job.limits.deadline_s, job.limits.budget_usd
    limits = ""
    if deadline_s is not None and budget_usd is not None:
        limits = f", within {format_duration(deadline_s)} and {format_usd(budget_usd)}"
    quota = " and ".join(f"{count} {name}" for name, count in one.quota.items())
    lines = [
        f"### Case {one.name}",
        "",
        f"Global batch {job.global_batch:,}, {job.iterations:,} iterations, least {job.objective}"
        f"{limits}; {quota}. The paper's choice: {SAID[one.name]}.",
        "",
        *table(
            ("method", "choice", "time", "cost", "throughput", "over ours", "limits"),
            [_row(job.global_batch * job.iterations, choice, job.objective, best, limits)
             for choice in choices],
            words=2,
        ),
        "",
    ]  # fmt: skip
    answer = (
        one.name, SAID[one.name], _config(ours.config), f"{one.paper_s:.1f}",
        f"{seconds(ready, Method.AUTO):.3f}", f"{seconds(ready, Method.ANCHORED):.3f}",
    )  # fmt: skip
    return lines, answer


def _row(
    samples: int, choice: Choice, objective: Objective, best: float | None, limits: str
) -> tuple[str, ...]:
    if choice.config is None or choice.simulated is None:
        return (choice.method, choice.reason, "", "", "", "", "")
    value = choice.value(objective)
    over = "" if value is None or best is None else f"{value / best - 1:+.1%}"
    time_s, usd = choice.simulated.time_s.mean, choice.simulated.cost_usd.mean
    kept = "kept" if choice.meets_limits else "**broken**"
    return (
        choice.method, _config(choice.config), format_duration(time_s), format_usd(usd),
        f"{samples / time_s:,.0f}/s", over, kept if limits else "",
    )  # fmt: skip


def _config(config: ClusterConfig | None) -> str:
    return "no plan" if config is None else f"`{format_config(config)}`"


_HEAD = """\
# Cases 1 to 7, by the simulator alone

The jobs of section 5.2 of Luo et al. 2022 at full scale. **No VM was rented for this page**: times
and costs are our simulator's forecasts, so that our choice is the best by construction wherever
the search is complete; what the tables show is how methods choose. Cases scaled down and measured
are a matter of the emulated cluster, [testbed.md](testbed.md).

**The same**: models, global batches (1K = 1,024; case 6 is 2,112, case 7 is 6,144), quotas,
objectives, limits, spot VMs; no launch time; the baselines behind one planner. **Not the same**:
prices are the built-in snapshot (the paper's are not public); most workloads are estimated from
their layers and not profiled on these GPUs; no public log has allreduces between g3 or p3.8xlarge
VMs, so that their links are taken from relatives; Oracle BO explores our simulator, not real VMs;
where the batch does not fit, ours may accumulate. The paper leaves out batches below a threshold
that it probes; our sample of ResNet-50 on the T4 has no knee, so that case 1 may go down to two
samples a GPU. So choices differ from the paper's, and in case 7 the answer does: our sample of
ShuffleNet is fast enough for the limits, the paper's was not.
"""


def page() -> list[str]:
    """Returns the page's lines."""
    lines: list[str] = []
    answers: list[tuple[object, ...]] = []
    for one in PAPER_CASES:
        own, answer = case(one)
        lines += own
        answers.append(answer)
    head = ("case", "the paper's choice", "ours", "paper, s", "ours, s", "anchored, s")
    return [
        _HEAD,
        "## Answers and solver times",
        "",
        "CPU seconds of our whole answer (with its hints and front) and of the paper's anchored",
        "scheme as built here, each the best of three, one core. Larger spaces:",
        "[planner_scale.md](planner_scale.md); configurations per second:",
        "[planner_speed.md](planner_speed.md).",
        "",
        *table(head, answers, words=3),
        "",
        "## Every method",
        "",
        "`anchored` is the paper's integer program on our simulator; the other methods are told in",
        "[../rivals.md](../rivals.md), their own forecasts and Oracle BO from other starts in",
        "[rivals.md](rivals.md).",
        "",
        *lines,
    ]  # fmt: skip


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "paper_cases.md")
    options = parser.parse_args()
    write(options.output, [*page(), made_by("python -m benchmarks.paper.cases")])


if __name__ == "__main__":
    main()
