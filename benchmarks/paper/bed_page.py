"""The page of the measured cases, its table for machines, and its plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib import pyplot as plt

from benchmarks.paper.bed_jobs import CASES, BedCase, Config
from benchmarks.paper.bed_plans import OURS, Chosen
from benchmarks.paper.bed_runs import Run
from benchmarks.paper.bed_verdict import Found, mape
from benchmarks.paper.pages import percent, save, table
from srifty.units import format_duration, format_usd

REPEATS = 3
_BAR = 0.02

_HEAD = """\
# Cases 1 to 7, scaled and measured

The jobs of section 5.2 of Luo et al. 2022 on the [emulated cluster](../testbed.md). **This tests
the mechanism, not any cloud**: network stack, processes, gradients, DistributedDataParallel and
gloo are real; a VM is a network namespace with one GPU, which is a wait as long as a public curve
says.

`srifty probe` and `srifty profile` ran on the bed first; `srifty plan` and the rivals chose from
that alone. Then **every** configuration of the case's rule was run, and each choice that is none of
them: {repeats} repeats of 5 to 10 timed iterations, round after round, so that the repeats of a
configuration lie minutes apart. Nothing was fitted to these runs.

**As in the paper**: models, objectives, iterations and local batches; case 6's deadline; no launch
time; means (confidence 0.5); the baselines behind one planner; Oracle BO asks the measurements
themselves.
**Not as in the paper**:

- Quotas and global batches are divided by 4 or 8, each case by one factor. A VM of the bed has one
  GPU: in cases 1 to 5 it stands for a VM (a g3.8xlarge has two), in 6 and 7 for a GPU. What is sent
  and what links carry is 1/32. g4dn has 12.8 Gbit/s in full-scale terms where EC2 rates 50, as two
  cores carry no more for 16 ranks; g3 and p3 have 9.6. In cases 1 and 3, with up to 16 ranks, GPU
  and link both take eight times as long (`g4dn-x8`, `g3-x8`): at full speed 17 of their 32
  configurations were void, as ranks waited for a core. Their times are as measured, slow.
- Computation is the built-in samples' (most of them estimated), memory limits too; prices are
  on-demand, of a GPU's share of the VM. The paper's spot prices are not public.
- A homogeneous case has few configurations in powers of two (3 to 5). In cases 1 to 3 every number
  of VMs is measured, local batches equal but for one sample, and methods may choose among all;
  Srifty's choice under the paper's rule stands beside.
- Case 5 is XLM alone: 128 sequences of our BERT sample do not fit on eight such GPUs in one pass.
- Limits of 6 and 7 were set from nominal figures before anything was measured; 7's so that no
  configuration of powers of two keeps them.
- Case 5 was planned twice. Profiles of 25 s had not reached its largest batches, and said so; every
  method, held to the batches that were tried, then chose `4g4dn@16`, 54 % above the best. The page
  shows what is chosen from profiles of 120 s, made after its configurations had been measured.

At full scale the same cases are answered by the simulator alone, on a page of their own.
"""


def page_lines(found: Sequence[Found], plot: str) -> list[str]:
    """Returns the page but for its last line.

    Args:
        found: the cases, in the order of the page.
        plot: file name of the plot.
    """
    lines = _HEAD.format(repeats=REPEATS).splitlines()
    missing = sorted({case.number for case in CASES} - {one.case.number for one in found})
    if missing:
        words = ", ".join(map(str, missing))
        lines += ["", f"**Not measured yet: case {words}.** `--resume` goes on with them."]
    lines += ["", "## In one table", "", *_summary(found), ""]
    lines += [f"![All configurations: throughput over cost]({plot})", ""]
    lines += ["All repeats: [cases_measured.csv](cases_measured.csv).", ""]
    for one in found:
        lines += [*_case(one), ""]
    return [*lines, *_void(found), ""]


def _summary(found: Sequence[Found]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = []
    for one in found:
        rivals = [(gap, choice.method) for gap, choice in _rival_gaps(one)]
        ours = one.gap(one.ours.config)
        median, most = one.noise
        errors = one.errors
        rows.append(
            (
                f"{one.case.number} {one.case.title}",
                _code(one.ours.config),
                _code(one.best),
                "–" if ours is None else percent(ours),
                _nearest(rivals),
                f"{percent(median, 2)} ({percent(most)})",
                f"{percent(mape(errors))} ({percent(max(map(abs, errors)))})" if errors else "–",
                f"{sum(map(one.counts, one.configs))} of {len(one.configs)}",
            )
        )
    head = ["case", "Srifty's choice", "best measured", "gap", "nearest rivals"]
    head += ["noise, median (most)", "forecast error, mean (most)", "configurations that count"]
    yield from table(head, rows, words=3)
    yield ""
    yield "*gap*: how far the objective lies above the best measured configuration that keeps the"
    yield "limits. *noise*: between the repeats of a configuration, largest less smallest over the"
    yield "median. *nearest rivals*: those with the smallest gap whose choice keeps the limits."
    yield ""
    judged = [(one, gap) for one in found if (gap := one.gap(one.ours.config)) is not None]
    within = sum(gap <= _BAR for _, gap in judged)
    yield f"Srifty's choice lies within {_BAR:.0%} of the best measured in {within} of the"
    yield f"{len(judged)} cases that have a best. {_beaten(judged)}"


def _beaten(judged: Sequence[tuple[Found, float]]) -> str:
    """Returns which rivals chose better than Srifty, by more than the noise."""
    better = [
        f"{choice.method} in case {one.case.number} (by {percent(ours - gap)})"
        for one, ours in judged
        for gap, choice in _rival_gaps(one)
        if ours - gap > one.noise[1]
    ]
    if not better:
        return (
            "No rival's choice is better than Srifty's by more than the largest noise of its case."
        )
    return f"Better than Srifty's by more than the largest noise of the case: {', '.join(better)}."


def _rival_gaps(one: Found) -> list[tuple[float, Chosen]]:
    """Returns the gaps of rivals' choices that keep the rule and the limits."""
    return [
        (gap, choice)
        for choice in one.rivals
        if choice.config is not None
        and one.inside(choice.config)
        and one.counts(choice.config)
        and one.keeps(choice.config)
        and (gap := one.gap(choice.config)) is not None
    ]


def _nearest(rivals: Sequence[tuple[float, str]]) -> str:
    if not rivals:
        return "none keeps the limits"
    least = min(gap for gap, _ in rivals)
    names = [name for gap, name in rivals if gap <= least + 1e-9]
    return f"{percent(least)}: {', '.join(names)}"


def _case(one: Found) -> Iterator[str]:
    case = one.case
    yield f"## Case {case.number}: {case.title}"
    yield ""
    yield _about(case)
    yield ""
    median, most = one.noise
    powers = (
        "powers of two" if not case.any_batch else "any equal batches, powers of two among them"
    )
    yield (
        f"{len(one.configs)} configurations ({powers}); {len(one.measured)} were run, choices "
        f"outside the rule among them, {len(one.void)} are void; repeats differ by "
        f"{percent(median, 2)} at the median, {percent(most)} at most."
    )
    if one.best is not None and (void := [c for c in one.void if one.measured[c].repeats]):
        above = min(map(one.value, void)) / one.value(one.best) - 1
        yield f"What is void lies {above:+.1%} and more from the best, as far as it was measured."
    fewer = [c for c, m in one.measured.items() if m.repeats < REPEATS]
    if fewer:
        yield f"**{len(fewer)} have fewer than {REPEATS} repeats.**"
    if not one.whole:
        yield ""
        yield "**Not all of it was run.**"
    yield ""
    limited = case.deadline_s is not None
    head = ["method", "choice", "own forecast", "measured", "samples/s", "job", "cost", "gap"]
    rows = [_choice_row(one, choice, limited=limited) for choice in one.chosen]
    yield from table([*head, "limits"] if limited else head, rows, words=2)
    if one.oracle_values and one.best is not None:
        gaps = [value / one.value(one.best) - 1 for value in one.oracle_values]
        yield ""
        yield (
            f"Oracle BO from {len(gaps)} starts: {percent(sum(gaps) / len(gaps))} above the best "
            f"on the mean, {percent(max(gaps))} at worst."
        )
    yield ""
    yield "<details><summary>All configurations, best first</summary>"
    yield ""
    yield from _all_rows(one, limited=limited)
    yield ""
    yield "</details>"


def _about(case: BedCase) -> str:
    quota = " and ".join(f"{count} {kind}" for kind, count in case.quota)
    limits = ""
    if case.deadline_s is not None and case.budget_usd is not None:
        limits = f", within {format_duration(case.deadline_s)} and {format_usd(case.budget_usd)}"
    return (
        f"Least {case.minimize}{limits}; {case.iterations:,} iterations of {case.global_batch} "
        f"samples on up to {quota}: the paper's divided by {case.factor:g}."
    )


def _choice_row(one: Found, choice: Chosen, *, limited: bool) -> tuple[object, ...]:
    blank = ("",) * (7 if limited else 6)
    if choice.config is None:
        return (choice.method, choice.reason, *blank)
    own = "" if choice.own_s is None else _ms(choice.own_s)
    outside = "" if one.inside(choice.config) else " (outside the rule)"
    shown = f"{_code(choice.config)}{outside}"
    if not one.counts(choice.config):
        why = "void" if choice.config in one.measured else "not run"
        return (choice.method, shown, own, why, *blank[2:])
    gap = one.gap(choice.config)
    cells = [choice.method, shown, own, *_measured_cells(one, choice.config)]
    cells.append("" if gap is None else f"{gap:+.1%}")
    if limited:
        cells.append("kept" if one.keeps(choice.config) else "**broken**")
    return tuple(cells)


def _measured_cells(one: Found, config: Config) -> list[str]:
    seconds = one.measured[config].mean_s
    return [
        _ms(seconds),
        f"{one.case.global_batch / seconds:,.0f}",
        f"{one.case.iterations * seconds:,.1f} s",
        f"${one.case.cost_usd(seconds, config.usd_per_hour):.3f}",
    ]


def _all_rows(one: Found, *, limited: bool) -> Iterator[str]:
    by: dict[Config, list[str]] = {}
    for choice in one.chosen:
        if choice.config is not None:
            by.setdefault(choice.config, []).append(choice.method)
    head = ["configuration", "chosen by", "forecast", "measured", "samples/s", "job", "cost"]
    head += ["repeats differ by", "limits"] if limited else ["repeats differ by"]
    rows: list[list[str]] = []
    for config in sorted(filter(one.counts, one.measured), key=one.value):
        found = one.measured[config]
        forecast = one.forecast_s.get(config)
        cells = [_code(config), ", ".join(by.get(config, [])), _ms(forecast) if forecast else ""]
        cells += [*_measured_cells(one, config), percent(found.noise, 2)]
        if limited:
            cells.append("kept" if one.keeps(config) else "broken")
        rows.append(cells)
    yield from table(head, rows, words=2)


def _void(found: Sequence[Found]) -> Iterator[str]:
    yield "## Void runs"
    yield ""
    void = [(one, config) for one in found for config in one.void]
    if not void:
        yield "None."
        return
    yield "Not counted: where the CPU, and not the link, set the pace, where repeats differ by more"
    yield "than 5 %, or where a run failed."
    yield ""
    rows = [(one.case.number, _code(c), one.measured[c].void) for one, c in void]
    yield from table(("case", "configuration", "why"), rows, words=3)


def _code(config: Config | None) -> str:
    return "no plan" if config is None else f"`{config.notation}`"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def csv_text(found: Sequence[Found], runs: Sequence[Run]) -> str:
    """Returns every repeat with its settings as CSV."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    head = ["case", "model", "config", "world_size", "usd_per_hour", "in_rule", "repeat"]
    head += ["iterations", "mean_s", "least_s", "most_s", "srifty_s", "own_cores", "all_cores"]
    writer.writerow([*head, "waited", "chosen_by", "void"])
    for one in found:
        by_notation = {config.notation: config for config in one.measured}
        for run in runs:
            config = by_notation.get(run.config)
            if run.job != job_name(one.case) or config is None:
                continue
            methods = [c.method for c in one.chosen if c.config == config]
            seconds = run.seconds or (0.0,)
            waited = max(run.waited_s, default=0.0) / (sum(run.seconds) or 1.0)
            mean_s = sum(seconds) / len(seconds)
            forecast_s = one.forecast_s.get(config, 0.0)
            row = [one.case.number, run.model, run.config, config.world_size]
            row += [f"{config.usd_per_hour:.3f}", int(one.inside(config)), run.repeat + 1]
            row += [len(run.seconds), f"{mean_s:.6f}", f"{min(seconds):.6f}"]
            row += [f"{max(seconds):.6f}", f"{forecast_s:.6f}", f"{run.own_cores:.2f}"]
            row += [f"{run.all_cores:.2f}", f"{waited:.3f}", "; ".join(methods)]
            writer.writerow([*row, one.measured[config].void])
    return output.getvalue()


def job_name(case: BedCase) -> str:
    """Returns what a case's runs are called."""
    return f"case {case.number}"


_MARKS = {OURS: ("*", "C3"), "apm": ("s", "C0"), "paleo": ("D", "C1"), "oracle-bo": ("^", "C2"),
          "cgf": ("v", "C4"), "fgf": ("P", "C5")}  # fmt: skip


def plot(found: Sequence[Found], path: Path) -> None:
    """Draws all configurations of each case: throughput over cost, choices marked."""
    columns = 4
    rows = -(-len(found) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(11, 2.7 * rows), squeeze=False)
    for at, one in enumerate(found):
        _draw(axes[at // columns][at % columns], one)
    for at in range(len(found), rows * columns):
        axes[at // columns][at % columns].set_axis_off()
    handles = [
        plt.Line2D([], [], marker=mark, color=color, linestyle="", label=name)
        for name, (mark, color) in _MARKS.items()
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    save(figure, path)


def _draw(axis: plt.Axes, one: Found) -> None:
    case = one.case
    configs = [config for config in one.measured if one.counts(config)]

    def at(config: Config) -> tuple[float, float]:
        seconds = one.measured[config].mean_s
        return case.cost_usd(seconds, config.usd_per_hour), case.global_batch / seconds

    axis.scatter(*zip(*map(at, configs), strict=True), s=9, color="0.6", linewidths=0)
    for choice in one.chosen:
        if choice.method in _MARKS and choice.config is not None and one.counts(choice.config):
            mark, color = _MARKS[choice.method]
            size = 130 if choice.method == OURS else 45
            axis.scatter(*at(choice.config), marker=mark, s=size, facecolors="none",
                         edgecolors=color, linewidths=1.3)  # fmt: skip
    if case.budget_usd is not None and case.deadline_s is not None:
        axis.axvline(case.budget_usd, color="0.8", linewidth=1)
        least = case.global_batch * case.iterations / case.deadline_s
        axis.axhline(least, color="0.8", linewidth=1)
    axis.set_title(f"{case.number} {case.title}, least {case.minimize}", fontsize=9)
    axis.set_xlabel("USD for the job", fontsize=8)
    axis.set_ylabel("samples/s", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.minorticks_off()
