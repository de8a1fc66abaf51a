"""`srifty allreduce predict`: what the models say of one world."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from srifty.allreduce.atlas import Atlas
from srifty.allreduce.base import Z90
from srifty.allreduce.learned import LearnedModel
from srifty.allreduce.loading import blend_of, plan_source
from srifty.catalog import builtin_instance_types
from srifty.cli._json import dump
from srifty.cli._options import AsJson, StoreFile
from srifty.cli._progress import SearchProgress
from srifty.cli._show import console_for_results
from srifty.core.allreduce import Collective
from srifty.core.hardware import InstanceType
from srifty.errors import InputError
from srifty.units import format_bandwidth, format_bytes, parse_bytes

_DEFAULT_SIZES = "4 B, 1 KiB, 64 KiB, 1 MiB, 25 MiB, 256 MiB, 1 GiB"
# What is assumed of a type that was measured but stands in no catalog.
_UNLISTED_GBIT_PER_S = 10.0


def predict_times(
    instance_type: Annotated[str, typer.Argument(metavar="TYPE", help="The instance type.")],
    world_size: Annotated[int, typer.Option(min=2, help="GPUs that take part.")],
    vms: Annotated[
        int | None,
        typer.Option(min=1, help="VMs that hold them; default: as few as the type allows."),
    ] = None,
    sizes: Annotated[
        str, typer.Option(metavar="LIST", help="Message sizes, separated by commas.")
    ] = _DEFAULT_SIZES,
    efa: Annotated[
        bool | None, typer.Option("--efa/--no-efa", help="Whether the run uses AWS's fabric.")
    ] = None,
    nccl: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The NCCL version of the run.")
    ] = None,
    db: StoreFile = None,
    as_json: AsJson = False,
) -> None:
    """Forecast allreduce times in one world, as plans use them, with 90 % intervals."""
    wanted = np.array([_size(text) for text in sizes.split(",")], dtype=np.float64)
    source = plan_source(db)
    types = builtin_instance_types()
    with SearchProgress("Fitting the allreduce models") as progress:
        blend = blend_of(source, types, progress=progress)
    kind = types.get(instance_type) or _unlisted(blend.atlas, instance_type)
    count = -(-world_size // kind.gpus) if vms is None else vms
    if not count <= world_size <= count * kind.gpus or world_size % count:
        raise InputError(
            f"{world_size} GPUs do not spread evenly over {count} x {instance_type} of "
            f"{kind.gpus} GPU{'s' if kind.gpus > 1 else ''} each; choose another --vms or "
            "--world-size"
        )
    model = LearnedModel(blend, efa=efa, library_version=nccl)
    world = np.array([world_size]), np.array([count])
    time_s = model.time_s(kind, *world, wanted)[0]
    sd = np.array(
        [
            float(model.uncertainty(kind, *world, wanted[i : i + 1]).model_fraction[0])
            for i in range(len(wanted))
        ]
    )
    factor = Collective.ALL_REDUCE.bus_factor(world_size)
    document: dict[str, Any] = {
        "instance_type": instance_type,
        "world_size": world_size,
        "vms": count,
        "predictions": [
            {
                "size_bytes": int(size),
                "time_s": float(t),
                "low_s": float(t * np.exp(-Z90 * s)),
                "high_s": float(t * np.exp(Z90 * s)),
                "bus_bytes_per_s": float(factor * size / t),
            }
            for size, t, s in zip(wanted, time_s, sd, strict=True)
        ],
        "warnings": list(model.warnings(kind, world_size, count, wanted)),
        "assumptions": model.basis(kind, between=count > 1)
        + ([source.note] if source.note else []),
    }
    if instance_type not in types:
        document["warnings"].append(
            f"{instance_type} is in no catalog: where bandwidth was not measured, "
            f"{_UNLISTED_GBIT_PER_S:g} Gbit/s are assumed."
        )
    if as_json:
        typer.echo(dump(document))
    else:
        _show(console_for_results(), document)


def _size(text: str) -> float:
    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise InputError(f"--sizes: {error}") from None
    if size < 1:
        raise InputError("--sizes: a message has at least 1B")
    return size


def _unlisted(atlas: Atlas, name: str) -> InstanceType:
    """Returns a stand-in for a type that was measured but is in no catalog.

    Raises:
        InputError: it was not measured either.
    """
    points = [p for sheet, p in atlas.sheets.items() if sheet.curve.instance_type == name]
    if not points:
        measured = sorted({sheet.curve.instance_type for sheet in atlas.sheets})
        raise InputError(
            f"{name} is neither in the catalog nor measured; measured were {', '.join(measured)}"
        )
    return InstanceType(
        name=name,
        cloud="own",
        gpu=atlas.gpus.get(name, "unknown"),
        gpus=int(max(float((p.world_size / p.vms).max()) for p in points)),
        gpu_memory_bytes=1,
        vcpus=1,
        rated_gbit_per_s=_UNLISTED_GBIT_PER_S,
    )


def _show(console: Console, document: dict[str, Any]) -> None:
    console.print(
        Text(
            f"{document['world_size']} GPUs on {document['vms']} x {document['instance_type']}",
            style="bold",
        )
    )
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in ("size", "time", "90 % interval", "bus bandwidth"):
        table.add_column(heading, justify="right")
    for row in document["predictions"]:
        table.add_row(
            format_bytes(row["size_bytes"]),
            _time(row["time_s"]),
            f"{_time(row['low_s'])} to {_time(row['high_s'])}",
            format_bandwidth(row["bus_bytes_per_s"]),
        )
    console.print(table)
    for heading, style in (("warnings", "yellow"), ("assumptions", "dim")):
        if document[heading]:
            console.print(Text(heading.capitalize(), style="bold"))
        for sentence in document[heading]:
            console.print(Text(f"  - {sentence}", style=style))


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
