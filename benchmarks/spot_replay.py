"""Deadlines met and money paid on public spot traces, policy against policy.

    python -m benchmarks.spot_replay --data ../shared/data/spot [-o docs/results/spot_replay.md]

200 seeded (trace, start, deadline) triples under both readings of the one-VM traces. Every policy
sees only the past, and all live in the same simulated cloud (`benchmarks.spot_world`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.spot_policies import RIVALS, srifty
from benchmarks.spot_traces import Trace, read_traces
from benchmarks.spot_world import Look, Outcome, Terms, run

_S_PER_HOUR = 3600.0
_OURS = "Srifty"
_EQUAL = 1e-6


def triples(traces: Sequence[Trace], count: int, seed: int, **terms: float) -> list[Terms]:
    """Returns jobs on random traces, with random starts and deadlines.

    Work takes 1 to 12 hours on demand, less where the trace is short; the deadline is 1.2 to 3
    times the time that the job takes on demand.

    Args:
        traces: what to draw from, each as likely as any other.
        count: how many.
        seed: of the draw.
        terms: what differs from the defaults of `Terms`.
    """
    rng = np.random.default_rng(seed)
    drawn: list[Terms] = []
    while len(drawn) < count:
        trace = traces[int(rng.integers(len(traces)))]
        factor = float(rng.uniform(1.2, 3.0))
        longest_s = min(12 * _S_PER_HOUR, 0.9 * trace.end_s / 3.0)
        work_s = float(round(rng.uniform(min(1.0 * _S_PER_HOUR, longest_s / 2), longest_s)))
        made = Terms(trace, 0.0, 1.0, work_s, **terms)
        deadline_s = factor * (made.launch_s + made.setup_s + work_s)
        latest_s = trace.end_s - deadline_s
        if latest_s <= 0:
            continue
        drawn.append(replace(made, start_s=float(rng.uniform(0, latest_s)), deadline_s=deadline_s))
    return drawn


def replay(
    jobs: Sequence[Terms], policies: Mapping[str, Callable[[Terms], Look]]
) -> dict[str, list[Outcome]]:
    """Returns how each job ended under each policy."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in policies}
    for index, terms in enumerate(jobs):
        for name, policy in policies.items():
            outcomes[name].append(run(terms, policy(terms)))
        if sys.stderr.isatty():
            print(f"\r{index + 1} of {len(jobs)}", end="", file=sys.stderr)
    return outcomes


def table(jobs: Sequence[Terms], outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Returns the figures of one reading as Markdown."""
    full = np.array(
        [t.on_demand_usd_per_hour * t.vms * (t.work_s + t.setup_s) / _S_PER_HOUR for t in jobs]
    )
    share = {name: np.array([o.cost_usd for o in own]) / full for name, own in outcomes.items()}
    reliable = [name for name, own in outcomes.items() if name != _OURS and all(o.met for o in own)]
    best = np.min([share[name] for name in reliable], axis=0)
    lines = [
        "| policy | deadlines met | mean cost | median | interruptions | we cost no more in |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in outcomes.items():
        lines.append(
            f"| {name} | {sum(o.met for o in own)} of {len(own)} | {share[name].mean():.3f} | "
            f"{np.median(share[name]):.3f} | {np.mean([o.interruptions for o in own]):.1f} | "
            + ("" if name == _OURS else _no_dearer(share[_OURS], share[name]))
            + " |"
        )
    lines.append(
        f"| the cheapest of {', '.join(reliable)}, job by job | | {best.mean():.3f} | "
        f"{np.median(best):.3f} | | {_no_dearer(share[_OURS], best)} |"
    )
    lines += ["", "| jobs | | Srifty, mean | the cheapest, mean | we cost no more in |"]
    lines += ["|---|---|---|---|---|"]
    clusters = np.array([t.vms > 1 for t in jobs])
    for words, chosen in (("one VM", ~clusters), ("several VMs", clusters)):
        if chosen.any():
            ours, theirs = share[_OURS][chosen], best[chosen]
            lines.append(
                f"| {words} | {chosen.sum()} | {ours.mean():.3f} | {theirs.mean():.3f} | "
                f"{_no_dearer(ours, theirs)} |"
            )
    return "\n".join(lines)


def _no_dearer(ours: np.ndarray, theirs: np.ndarray) -> str:
    return f"{np.mean(ours <= theirs * (1 + _EQUAL)):.1%}"


def report(traces: Sequence[Trace], count: int, seed: int) -> str:
    """Returns the whole page."""
    policies = {**RIVALS, _OURS: srifty}
    readings = {
        "`available` counts the VMs that can be had": list(traces),
        "1 in a one-VM trace says that none can be had": [
            trace.inverted() if trace.vms == 1 else trace for trace in traces
        ],
    }
    parts = [_HEAD.format(count=count, seed=seed)]
    for reading, read in readings.items():
        jobs = triples(read, count, seed)
        parts.append(f"\n## {reading}\n\n{table(jobs, replay(jobs, policies))}\n")
    return "\n".join(parts)


_HEAD = """# Spot replays

`python -m benchmarks.spot_replay --data ../shared/data/spot`; {count} (trace, start, deadline)
triples, seed {seed}, drawn evenly over the traces. The parameters of the policy were set on other
draws from the same traces (seed 101), so the traces themselves are not new to it.

Data: `skypilot_spot_traces` (availability and preemption traces, 1 and 4 VMs) and
`bamboo_node_events` (clusters; jobs on them ask for 16 VMs). What `available` counts is read both
ways; traces of several VMs read the same under both. Work takes 1 to 12 h on demand, less on short
traces; deadlines are 1.2 to 3 times the time on demand.

All policies live in one simulated cloud: launching takes 150 s (not billed), set-up 60 s and a
change of VMs 30 s; a checkpoint is kept after every 600 s of full-speed work and before each
planned change; a reclaim comes without notice. Spot costs 0.3 of on-demand, whose VMs can always
be had. Work is proportional to the number of VMs. Billing is per second from running, at least a
minute. Policies look every minute and see only the past; Srifty does not even see whether spot
VMs can be had: it asks and is refused. Costs are fractions of what the job costs on demand. "The
cheapest" is, job by job, the cheapest policy among those that met *every* deadline.

Uniform Progress is Wu et al. 2024; the paper's rule is that of Luo et al. 2022: a reclaimed type is
gone for good, its survivors are kept. Both are our own writing; the last moment of Uniform Progress
is set as late as keeps every deadline here."""


def main() -> None:
    """Prints or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/spot"))
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    page = report(read_traces(options.data), options.jobs, options.seed)
    if options.output is None:
        print(page)
    else:
        options.output.write_text(page)


if __name__ == "__main__":
    main()
