"""Writes `docs/samples.md`: which of the built-in figures were measured, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from check_roofline import Score

from srifty.core.profile import WorkloadProfile
from srifty.units import format_bytes


class AllreduceCurve(NamedTuple):
    """One curve of the allreduce table.

    Attributes:
        key: cloud, type, GPU, VMs, GPUs per VM, world size, library, transport, config, source.
        smallest: smallest message, bytes.
        largest: largest message, bytes.
        points: message sizes kept.
        repeats: runs averaged.
    """

    key: tuple[str, ...]
    smallest: int
    largest: int
    points: int
    repeats: int


_INTRODUCTION = """\
# What the built-in samples are, and which of them were measured

Written by `python tools/build_samples.py --data ../shared/data`; do not edit by hand. Every file
carries its own `source` and `notes`; this page lists them side by side.

The samples let you try Srifty without a GPU. Before you spend money on a plan, measure your own
model: profiles of your own replace them ([files.md](files.md)).
"""

_PROFILES = """\
## Workload profiles

*measured*: somebody timed it, and we name the source. *estimated*: scaled from other GPUs or
counted from a layer table; the interval is the half width that 9 of 10 true latencies should keep
to, as far as the GPUs below tell.
`max_batch`: *stopped-at* means that larger batches were not tried, *estimated* that it follows from
memory.
"""

_LEFT_OUT = """\
Left out, because they do not fit under pure data parallelism with Adam (16 bytes a parameter):

* `xlm` (667 million parameters, 10.7 GB before the first activation) on the M60's 8 GiB;
* `gpt-neo-2.7b` on the A100 with 40 GB and on the V100, though Sailor timed its layers there: its
  2.65 billion parameters need 42.4 GB.

No profile has the spread between GPUs of one type or the step-to-step spread: these sources print
means only. No V100 profile holds for 32 GB cards' memory: p3dn.24xlarge needs a profile of yours.
"""

_SCALING = """\
## How wrong the estimates are

### Scaled from another GPU

Each measured curve is predicted from the other GPU's curve of the same source (`scale_profile`,
weight 0.75 on bandwidth). Errors are |true / predicted - 1|. Points at which the faster GPU was no
faster than the slower one are left out, as there the host or the input decides and no GPU figure
can help: on the Azure V100 machines these are many (all of NeuMF, small batches of the CNNs).

An interval of 30 % would not hold 9 cases of 10, so the samples take 50 %. It does not hold for the
K80: that generation reaches a smaller share of its published rates than the later ones. How far the
M60 is from its own is unknown: **we found no published training curve of it**, so its intervals
are untested.

The weight was chosen on these same curves (0.5 and 1.0 do about as well), so the table is a little
kind to it.
"""

_LAYERS = """\
### Counted from layers

`profile_from_layers` against measured fp32 curves; efficiencies (55 % of the peak operations, 80 %
of the bandwidth, 80 us per layer and pass; on the T4, probably for its 70 W limit, 70 % of the two
rates) were fitted on these curves, so this is no held-out error. Points where the V100 took more
than 60 % of the T4's time are left out as host-bound. The interval is 40 %, on the M60 50 %.

The library's own figures are fitted on more curves: [estimates.md](estimates.md).

Not for recurrent nets: DeepSpeech 2 took about twice as long as its layers say, so no estimate
here rests on a recurrent layer table.
"""

_ALLREDUCE = """\
## Allreduce points

Measured with nccl-tests by others, out of place, averaged over repeats, thinned to every second
power of two. No public log has concurrent allreduces, and none has g3, p3.2xlarge, p3.8xlarge,
p3.16xlarge, g5 or g6 across VMs: predictions there rest on other types.
"""

_PRICES = """\
## Prices

Instance types, prices and billing rules, each with its source and date: [catalog.md](catalog.md).
"""


def page(
    profiles: Sequence[WorkloadProfile],
    about: Mapping[str, str],
    curves: Sequence[AllreduceCurve],
    scaling: Sequence[Score],
    layers: Sequence[Score],
) -> str:
    """Returns the whole page as Markdown."""
    parts = [
        _INTRODUCTION,
        _PROFILES,
        _profile_table(profiles),
        "What each workload is:\n\n"
        + "\n".join(f"* `{name}`: {text}" for name, text in about.items())
        + "\n",
        _LEFT_OUT,
        _SCALING,
        _score_table("predicted", scaling),
        _LAYERS,
        _score_table("curve", layers),
        _ALLREDUCE,
        _allreduce_table(curves),
        _PRICES,
    ]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _profile_table(profiles: Sequence[WorkloadProfile]) -> str:
    rows: list[list[str]] = []
    for profile in profiles:
        kind = "measured"
        if profile.estimated:
            kind = f"estimated, ±{profile.interval_fraction or 0:.0%}"
        order = next((note for note in profile.notes if note.startswith("gradient order")), "")
        batches = [latency.batch for latency in profile.latencies]
        total = profile.gradients.total_bytes if profile.gradients else 0
        rows.append(
            [
                f"`{profile.workload}`",
                profile.gpu,
                kind,
                profile.precision,
                f"{batches[0]} to {batches[-1]}",
                f"{total / 1e6:.1f} MB",
                "estimated" if "ESTIMATED" in order else "measured",
                f"{profile.max_batch} ({profile.max_batch_evidence})",
                profile.source,
            ]
        )
    return _table(
        (
            "workload",
            "GPU",
            "latencies",
            "precision",
            "batches",
            "gradients",
            "gradient order",
            "max_batch",
            "source",
        ),
        rows,
    )


def _score_table(first: str, scores: Sequence[Score]) -> str:
    return _table(
        (first, "points", "median error", "90 % of errors below", "within 30 %", "within 50 %"),
        [
            [
                score.group,
                str(score.points),
                f"{score.median:.0%}",
                f"{score.p90:.0%}",
                f"{score.within_30:.0%}",
                f"{score.within_50:.0%}",
            ]
            for score in scores
        ],
    )


def _allreduce_table(curves: Sequence[AllreduceCurve]) -> str:
    rows: list[list[str]] = []
    for curve in curves:
        cloud, kind, gpu, vms, per_vm, _, library, transport, config, source = curve.key
        rows.append(
            [
                f"{cloud} {kind}",
                f"{vms} x {per_vm} {gpu}",
                f"{transport} {config}".strip(),
                library or "not stated",
                f"{format_bytes(curve.smallest)} to {format_bytes(curve.largest)}",
                f"{curve.points}",
                f"{curve.repeats}",
                source,
            ]
        )
    return _table(
        ("type", "VMs x GPUs", "transport", "NCCL", "sizes", "points", "runs", "source"), rows
    )
