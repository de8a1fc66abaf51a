"""`srifty profile`: measure a model on the device at hand."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from srifty.catalog.builtin import builtin_gpus
from srifty.cli._json import dump
from srifty.cli._options import AsJson
from srifty.cli._profile_plot import plot_profile
from srifty.cli._profile_show import show_profile
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.cli.start import EXIT_INTERRUPTED, ending_at_once
from srifty.compute.fit import fit_latency
from srifty.errors import InputError
from srifty.files.profile_writer import profile_document, write_profile
from srifty.profiling.gpu_names import gpu_model_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from srifty.core.profile import WorkloadProfile
    from srifty.profiling.device import Device
    from srifty.profiling.placement import Predict
    from srifty.profiling.workload import Workload

app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)


EXIT_TERMINATED = 143


class _Precision(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


@app.command(epilog="Example: srifty profile train:make_workload --max-batch 256 -o PROFILE.json")
def profile(
    factory: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FACTORY", help="A function of yours that returns a Workload."
        ),
    ],
    batch_sizes: Annotated[
        str | None,
        typer.Option(metavar="8,16,...", help="Time these instead of choosing where to."),
    ] = None,
    max_batch: Annotated[
        int | None, typer.Option(min=1, help="Run no larger batch than this.")
    ] = None,
    probes: Annotated[int, typer.Option(min=2, max=64, help="How many batch sizes are timed.")] = 4,
    precision: Annotated[
        _Precision, typer.Option(help="bf16 and fp16: autocast; fp16 with a gradient scaler.")
    ] = _Precision.FP32,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Train through torch.compile.")
    ] = False,
    accumulation: Annotated[
        int, typer.Option(min=1, help="Passes before each optimizer step.")
    ] = 1,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda, cuda:1, or another device that torch knows.")
    ] = "auto",
    gpu: Annotated[
        str | None, typer.Option(help="The GPU's name in plans, where it is not recognised.")
    ] = None,
    isolate: Annotated[
        bool | None,
        typer.Option(
            "--isolate/--no-isolate",
            help="Try each batch size in a process of its own; default: on GPUs.",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=86400.0,
            help="Time for all of it, roughly; isolated or compiled trials get as much again.",
        ),
    ] = 180.0,
    precision_percent: Annotated[
        float,
        typer.Option(min=0.01, max=50.0, help="How well the median step time is to be known."),
    ] = 2.0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PROFILE.json", help="Write the file.")
    ] = None,
    estimates: Annotated[
        str | None,
        typer.Option(
            "--estimate-for",
            metavar="T4,V100,...",
            help="Write estimated profiles of GPUs that are not at hand, too; on a CPU only these.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw latency and throughput over the batch size."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--no-resume", help="Go on where an interrupted run with this output ended."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Measure a model: how long a step takes by batch size, what fits, when gradients are ready.

    The model is trained with real steps, and is as before afterwards.
    """
    with ending_at_once():  # only this command needs torch
        from srifty.profiling.device import find_device
        from srifty.profiling.options import Options
        from srifty.profiling.profile import profile as measure
        from srifty.profiling.workload import load_factory

    for path in (output, plot):
        _require_folder(path)
    names = _gpu_names(estimates)
    if names and output is None and not as_json:
        raise InputError(
            "needs -o PROFILE.json: the estimates are written beside it", "--estimate-for"
        )
    make = load_factory(factory)
    place = find_device(device)
    if place.kind == "cpu" and gpu in builtin_gpus():
        raise InputError(
            f"this machine's CPU would pose as a {gpu}; --estimate-for {gpu} estimates it", "--gpu"
        )
    if names and place.kind == "cpu":
        given = {"--batch-sizes": batch_sizes, "--max-batch": max_batch, "--plot": plot}
        idle = [option for option, value in given.items() if value is not None]
        if idle:
            raise InputError(
                f"on a CPU nothing is measured for it; leave out {' and '.join(idle)}",
                "--estimate-for",
            )
        _estimate(make(), names, None, precision.value, output, as_json=as_json)
        return
    options = Options(
        batch_sizes=_sizes(batch_sizes),
        max_batch=max_batch,
        probes=probes,
        precision=precision.value,
        compiled=compiled,
        accumulation=accumulation,
        isolate=isolate,
        gpu=gpu or _known_gpu(place),
        seconds=seconds,
        error=precision_percent / 100,
    )
    journal = None if output is None else output.with_name(f"{output.name}.journal")
    began_anew = journal is None or not resume or not journal.exists()
    if not began_anew:
        typer.echo(f"Going on from {journal}; --no-resume begins anew.", err=True)
    sigterms: list[int] = []
    try:
        with (
            _stopped_by_sigterm(sigterms),
            SearchProgress("Profiling", redraws=False) as progress,
        ):
            found = measure(
                make(),
                place,
                options,
                fit=_fit,
                journal_path=journal,
                resume=resume,
                reference=factory,
                progress=lambda fraction: progress(round(100 * fraction), 100),
            )
    except KeyboardInterrupt:
        by, code = ("SIGTERM", EXIT_TERMINATED) if sigterms else ("Ctrl-C", EXIT_INTERRUPTED)
        kept = "; what was measured is kept, run again to go on"
        if journal is None or not journal.exists():
            kept = ""
        typer.echo(f"error: stopped by {by}{kept}.", err=True)
        raise typer.Exit(code) from None
    _finish(found, output, plot, as_json=as_json and not names)
    if names:
        _estimate(make(), names, found, precision.value, output, as_json=as_json)


@contextmanager
def _stopped_by_sigterm(came: list[int]) -> Generator[None]:
    """Lets SIGTERM stop what runs as Ctrl-C does, so that nothing is left running.

    Args:
        came: gets the signals that came.
    """

    def stop(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _estimate(
    workload: Workload,
    names: Sequence[str],
    measured: WorkloadProfile | None,
    precision: str,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Writes one estimated profile per GPU beside the output: `PROFILE.T4.json`."""
    from srifty.cli._estimate import estimate_for  # imports torch

    with SearchProgress("Counting under fake tensors", redraws=False) as progress:
        found = estimate_for(
            workload, names, measured, precision=precision, on_batch=lambda size: progress(0, size)
        )
    if output is not None:
        for one in found:
            beside = output.with_name(f"{output.stem}.{one.gpu}{output.suffix}")
            write_profile(one, beside)
            words = _width(one)
            if one.precision != precision:
                words += f", {one.precision} instead of {precision}"
            typer.echo(f"{one.gpu}: {words}, in {beside}", err=True)
    if as_json:
        typer.echo(dump({"profiles": [profile_document(one) for one in found]}))


def _width(profile: WorkloadProfile) -> str:
    if not profile.estimated:
        return "measured"
    interval = profile.interval_fraction
    return "estimated" if interval is None else f"estimated, ±{interval:.0%}"


def _gpu_names(text: str | None) -> tuple[str, ...]:
    """Returns the GPUs to estimate for.

    Raises:
        InputError: a name that no catalog knows.
    """
    names = tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))
    known = builtin_gpus()
    unknown = [name for name in names if name not in known]
    if unknown or (text is not None and not names):
        raise InputError(
            f"takes GPUs between commas, of {', '.join(sorted(known))}; not "
            f"{', '.join(unknown) or 'nothing'}",
            "--estimate-for",
        )
    return names


def _finish(
    found: WorkloadProfile, output: Path | None, plot: Path | None, *, as_json: bool
) -> None:
    if output is not None:
        write_profile(found, output)
    if plot is not None:
        plot_profile(found, plot)
    if as_json:
        typer.echo(dump(profile_document(found)))
    else:
        show_profile(console_for_results(), found)
    if found.gpu.startswith("CPU"):
        note = "measured on a CPU, which no plan uses; --estimate-for T4 estimates GPUs"
        typer.echo(f"note: {note}.", err=True)
    elif found.gpu not in builtin_gpus():
        typer.echo(
            f"note: no VM shape has a {found.gpu!r}; name the GPU with --gpu to plan with it.",
            err=True,
        )
    where = "nowhere; -o PROFILE.json writes it" if output is None else str(output)
    typer.echo(
        f"The profile is written to {where}." if output else f"It is kept {where}.", err=True
    )


def _sizes(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d{0,8}", part, re.ASCII) for part in parts):
        raise InputError(
            f"must be batch sizes between commas, such as 8,16,32, not {text!r}", "--batch-sizes"
        )
    return tuple(int(part) for part in parts)


def _require_folder(path: Path | None) -> None:
    """Refuses a place that cannot be written to, before minutes are spent on measuring."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError("cannot be written: there is no such folder", str(path))
    if path.is_dir():
        raise InputError("is a folder; name a file", str(path))


def _known_gpu(device: Device) -> str | None:
    if device.kind == "cpu":
        return None
    known = {name: gpu.memory_bytes for name, gpu in builtin_gpus().items()}
    return gpu_model_of(device.name, device.memory_bytes(), known)


def _fit(batches: Sequence[int], latencies_s: Sequence[float]) -> Predict:
    return fit_latency(batches, latencies_s).predict
