"""The results as a table for machines (CSV) and a page for people (Markdown). Pure."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.testbed.cases import MIX, PROBED, RATE, WORLD
from benchmarks.testbed.limits import limit_of
from benchmarks.testbed.predict import PREDICTORS, SRIFTY
from benchmarks.testbed.results import Result, mape, worst
from benchmarks.testbed.variance import Variation

_BARS = {PROBED: 0.025, "unseen": 0.05}
_LATENCY_BOUND = 0.25


def csv_text(results: Sequence[Result]) -> str:
    """Returns every run with its settings as CSV."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(
        ["varied", "part", "model", "config", "mode", "slots", "world_size", "delay_ms"]
        + ["rates_mbit", "gpus", "iterations", "measured_s", "repeats_s", "step_std_s"]
        + [f"{name.replace(' ', '_')}_s" for name in PREDICTORS]
        + ["p90_s", "exposed_s", "latency_share", "own_cores", "all_cores", "waited", "void"]
    )
    for r in results:
        writer.writerow(
            [int(r.varied), r.part, r.model, r.config, r.mode, r.slots or "unlimited"]
            + [r.world_size, f"{r.delay_ms:g}", " ".join(f"{rate:g}" for rate in r.rates_mbit)]
            + [" ".join(r.gpus), r.iterations, f"{r.measured_s:.6f}"]
            + [" ".join(f"{s:.6f}" for s in r.repeats_s), f"{r.step_std_s:.6f}"]
            + [f"{r.forecast_s[name]:.6f}" for name in PREDICTORS]
            + [f"{r.p90_s:.6f}", f"{r.exposed_s:.6f}", f"{r.latency_share:.3f}"]
            + [f"{r.own_cores:.2f}", f"{r.all_cores:.2f}", f"{r.waited:.3f}", r.void]
        )
    return output.getvalue()


@dataclass(frozen=True)
class Interval:
    """How Srifty's bounds did.

    Attributes:
        runs: how many.
        covered: part of them below the nine-in-ten bound.
        under: part of them that took longer than the mean forecast.
        under_by_little: part of those that took at most a tenth longer.
    """

    runs: int
    covered: float
    under: float
    under_by_little: float

    @classmethod
    def of(cls, results: Sequence[Result]) -> Interval:
        """Returns what one or more results show."""
        under = [r for r in results if r.measured_s > r.forecast_s[SRIFTY]]
        little = sum(r.measured_s <= 1.1 * r.forecast_s[SRIFTY] for r in under)
        return cls(
            len(results),
            sum(r.measured_s <= r.p90_s for r in results) / len(results),
            len(under) / len(results),
            little / len(under) if under else 1.0,
        )


def page_text(results: Sequence[Result], command: str, variation: Variation) -> str:
    """Returns the page.

    Args:
        results: at least one.
        command: what made them.
        variation: what the varied ones were drawn from.
    """
    return "\n".join(_page(results, command, variation)) + "\n"


def _page(results: Sequence[Result], command: str, variation: Variation) -> Iterator[str]:
    steady = [r for r in results if not r.varied and not r.void]
    varied = [r for r in results if r.varied and not r.void]
    yield from (
        "# Forecasts against an emulated cluster",
        "",
        "**This tests the mechanism, not any cloud**: overlap, queues, stragglers, learning from",
        "probes. Network stack, processes, gradients, DistributedDataParallel and gloo are real;",
        "each VM is a network namespace of [one machine](../testbed.md), its link is shaped and",
        "delayed, and its GPU is a wait as long as a public curve says. Sizes, bucket caps and",
        "rates are 1/32 of the originals.",
        "",
        "Forecasts come from what `srifty probe` and `srifty profile` measured on the bed, on the",
        "way that `srifty simulate` goes; no number was fitted to iteration times. How gradients",
        "are exchanged (buckets or layers, slots) is what the job file says.",
        "",
        f"Made by `{command}`; every run with its settings: [testbed.csv](testbed.csv).",
        "",
        _counts(results),
        "",
    )
    if steady:
        yield from _errors(steady)
    if varied:
        yield from _intervals(varied, variation)
    yield from _void(results)


def _counts(results: Sequence[Result]) -> str:
    steady = [r for r in results if not r.varied]
    latency = sum(r.delay_ms > 0 for r in steady)
    mixed = sum(len(set(r.gpus)) > 1 for r in steady)
    slots = Counter(str(r.slots or "unlimited") for r in steady)
    words = ", ".join(f"{slots[name]} with {name}" for name in ("1", "2", "unlimited"))
    void = sum(bool(r.void) for r in results)
    return (
        f"{len(steady)} configurations without injected variance ({latency} with a delay of 0.25 "
        f"to 3 ms one way, {mixed} of mixed types; slots: {words}), "
        f"{len(results) - len(steady)} with it. {void} runs are void, see below."
    )


def _errors(steady: Sequence[Result]) -> Iterator[str]:
    yield from (
        "## Mean absolute error (worst), per cent",
        "",
        f"| what had been probed | runs | {' | '.join(PREDICTORS)} | bar |",
        f"|---|---|{'---|' * len(PREDICTORS)}---|",
    )
    unseen = [r for r in steady if r.part != PROBED]
    parts = [(name, [r for r in steady if r.part == name]) for name in (WORLD, RATE, MIX)]
    yield _row("world size and link", [r for r in steady if r.part == PROBED], _BARS[PROBED])
    yield _row("all unseen", unseen, _BARS["unseen"])
    for name, runs in parts:
        yield _row(f"- {name}", runs, None)
    yield from ("", f"| which runs | runs | {' | '.join(PREDICTORS)} | |")
    yield f"|---|---|{'---|' * len(PREDICTORS)}---|"
    for name, chosen in _slices():
        yield _row(name, [r for r in steady if chosen(r)], None)
    yield from (
        "",
        "*paper's sharing*: transfers share the link as Luo et al. 2022 have it, with Srifty's",
        "allreduce times. *APM*: one line in the batch size, one allreduce of all gradients (with",
        "Srifty's allreduce times, which are better than the ring that it would fit), the longer",
        "of the two. *compute only*: the exchange costs nothing.",
        "",
    )


def _slices() -> Iterator[tuple[str, Callable[[Result], bool]]]:
    for name in ("buckets", "per layer"):
        for slots in (1, 2, 0):
            yield (
                f"{name}, {slots or 'unlimited'} slots",
                lambda r, n=name, s=slots: r.mode == n and r.slots == s,
            )
    yield "no delay", lambda r: r.delay_ms == 0
    for delay_ms in (0.25, 1.0, 3.0):
        yield f"{delay_ms:g} ms one way", lambda r, d=delay_ms: r.delay_ms == d
    yield (
        f"latency over {_LATENCY_BOUND:.0%} of the transfers' own times",
        lambda r: r.latency_share > _LATENCY_BOUND,
    )
    for model in ("resnet18", "resnet50", "vgg16", "alexnet", "bert-base", "dlrm"):
        yield model, lambda r, m=model: r.model == m
    for n in (2, 3, 4, 6, 8):
        yield f"{n} ranks", lambda r, n=n: r.world_size == n


def _row(name: str, runs: Sequence[Result], bar: float | None) -> str:
    if not runs:
        return f"| {name} | 0 |{' |' * len(PREDICTORS)} |"
    cells = [f"{100 * mape(runs, p):.1f} ({100 * worst(runs, p):.0f})" for p in PREDICTORS]
    met = (
        ""
        if bar is None
        else f"{100 * bar:.1f}: {'met' if mape(runs, SRIFTY) <= bar else 'missed'}"
    )
    return f"| {name} | {len(runs)} | {' | '.join(cells)} | {met} |"


def _intervals(varied: Sequence[Result], variation: Variation) -> Iterator[str]:
    found = Interval.of(varied)
    mean = limit_of(varied, variation, quantile=None)
    median = limit_of(varied, variation, quantile=0.5)
    yield from (
        "## With injected variance",
        "",
        "Each run is an allocation of its own: every VM has its own pace and link, and every step",
        "its own noise. Probes and profiles ran on other draws, and are few: what is off in one of",
        "them is off in many runs. The last columns are what a forecast could reach that knew all",
        "distributions exactly and said each run's mean or median: nothing says beforehand which",
        "links a run will get. VMs and steps were drawn from:",
        "",
        *(f"- {source}" for source in variation.sources),
        "",
        "| | found | bar | the mean, known | the median, known |",
        "|---|---|---|---|---|",
        f"| runs | {found.runs} | | | |",
        f"| below the P90 | {found.covered:.0%} | 85 to 95 % | | |",
        f"| took longer than forecast | {found.under:.0%} | at most 50 % | {mean.under:.0%} "
        f"| {median.under:.0%} |",
        f"| of those, by at most a tenth | {found.under_by_little:.0%} | at least 90 % "
        f"| {mean.under_by_little:.0%} | {median.under_by_little:.0%} |",
        f"| mean absolute error, Srifty | {mape(varied, SRIFTY):.1%} | | | |",
        "",
    )


def _void(results: Sequence[Result]) -> Iterator[str]:
    void = [r for r in results if r.void]
    yield from ("## Void runs", "")
    if not void:
        yield "None."
        return
    yield from (
        "A run is void where the CPU, and not the link, set the pace, where its repeats differ, or",
        "where it failed.",
        "",
        "| run | why |",
        "|---|---|",
    )
    for r in void:
        yield f"| {r.label}{', varied' * r.varied} | {r.void} |"
