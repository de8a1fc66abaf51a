"""Regenerates the built-in sample data and `docs/samples.md` from the public measurements.

Run in the repository root, with the package importable:

    python tools/build_samples.py --data ../shared/data

It writes `allreduce.csv` and `profiles/` under `src/srifty/data`; `gpus.json` there is written by
hand and read here, and `catalog_tables.py` writes the instance types and prices. The same input
gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import architectures
import check_roofline
import public_curves
import samples_page
from architectures import LayerSpec
from check_roofline import layer_of, profile_of
from public_curves import GAVEL, NETX, SAILOR, SIA

from srifty.compute.memory import estimate_max_batch
from srifty.compute.roofline import layer_times_s, profile_from_layers
from srifty.compute.scaling import estimate_profile
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    Gradient,
    GradientSchedule,
    Item,
    WorkloadProfile,
)

TARGET = Path("src/srifty/data")
PAGE = Path("docs/samples.md")

LAYERS_INTERVAL_FRACTION = 0.4
SCALED_INTERVAL_FRACTION = 0.5
# The M60 has no measured curve at all, so its layer-table estimates get the wider interval.
M60_INTERVAL_FRACTION = 0.5
LARGEST_BATCH = 32768
SAMPLE = Item()


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload of the samples.

    Attributes:
        name: its name in the profiles.
        table: its layers in forward order.
        about: the architecture and the sample's size, for the notes.
        order: the netx log that has its real gradient order, if any.
        sia: its name in the Sia traces, if measured there.
        item: what one sample is.
        interval_fraction: half width of the estimate's interval, where the default is too narrow.
        doubt: why it is.
    """

    name: str
    table: Sequence[LayerSpec]
    about: str
    order: str | None = None
    sia: str | None = None
    item: Item = SAMPLE
    interval_fraction: float | None = None
    doubt: str | None = None


def workloads() -> list[Workload]:
    """Returns all workloads of the samples."""
    a = architectures
    return [
        Workload(
            "resnet50",
            a.resnet50(),
            "ResNet-50 v1.5, 224 x 224, 1000 classes",
            "resnet50",
            "imagenet",
        ),
        Workload(
            "resnet18-cifar",
            a.resnet18_cifar(),
            "ResNet-18 for CIFAR-10, 32 x 32",
            sia="cifar10",
        ),
        Workload(
            "bert-base",
            a.bert_base(),
            "BERT-base with a SQuAD head, sequences of 384 tokens",
            sia="bert",
            item=Item("sequence", 384),
        ),
        Workload(
            "deepspeech2",
            a.deepspeech2(),
            "DeepSpeech 2, 5 bidirectional GRU layers of 800; the layer table takes 4 s of speech",
            sia="deepspeech2",
        ),
        Workload(
            "yolov3",
            a.yolov3(),
            "YOLOv3, 20 classes; trained at several scales, the layer table counts 448 x 448",
            sia="yolov3",
        ),
        Workload(
            "neumf",
            a.neumf(),
            "NeuMF, 32 factors; the layer table assumes MovieLens-1M (6040 users, 3706 items)",
            sia="ncf",
        ),
        Workload("vgg16", a.vgg16_bn(), "VGG-16 with batch normalisation, 224 x 224", "vgg16"),
        Workload("alexnet", a.alexnet(), "AlexNet in one tower, 224 x 224"),
        Workload(
            "inception-v3",
            a.inception_v3(),
            "Inception v3 without the auxiliary classifier, 299 x 299",
        ),
        Workload(
            "shufflenet-v2",
            a.shufflenet_v2(),
            "ShuffleNet v2 x1.0, 224 x 224",
            interval_fraction=0.6,
            doubt="depthwise convolutions and channel shuffles reach less of the peak rates than "
            "the nets that the efficiencies were fitted on; probably slower than estimated",
        ),
        Workload(
            "xlm",
            a.xlm(2048, 12, 16, 30_145, 256),
            "XLM of the size of xlm-mlm-en-2048 (12 layers of 2048), sequences of 256 tokens, "
            "15 % of them predicted",
            item=Item("sequence", 256),
        ),
        Workload(
            "xlm-1024",
            a.xlm(1024, 6, 8, 64_699, 256),
            "XLM of the size of xlm-mlm-ende-1024 (6 layers of 1024), sequences of 256 tokens, "
            "15 % of them predicted",
            item=Item("sequence", 256),
        ),
        Workload(
            "dlrm",
            a.dlrm_small(),
            "DLRM small enough for data parallelism: 26 tables of 150,000 rows of 16, perceptrons "
            "13-512-256-64-16 and 367-512-256-1; the tables' gradients are exchanged dense",
            interval_fraction=0.6,
            doubt="no recommendation model was among the nets that the efficiencies were fitted on",
        ),
        Workload(
            "opt-350m",
            a.opt_350m(),
            "OPT-350M, sequences of 2048 tokens (our reading: the rates fit that length)",
            item=Item("sequence", 2048),
        ),
    ]


def build_profiles(data: Path, gpus: Mapping[str, GpuModel]) -> list[WorkloadProfile]:
    """Returns all sample profiles."""
    profiles: list[WorkloadProfile] = []
    for workload in workloads():
        gradients, order_note = _gradients(data, workload, gpus["V100"])
        base = replace(
            profile_of(public_curves.Curve(workload.name, "none", "fp32", [(1, 1.0)])),
            gradients=gradients,
            layers=tuple(layer_of(spec) for spec in workload.table),
            item=workload.item,
        )
        if workload.sia is not None:
            profiles += _measured_by_sia(data, workload, base, order_note, gpus)
        elif workload.name == "opt-350m":
            profiles += _measured_by_sailor(data, workload, base, order_note, gpus)
        else:
            profiles += _from_layers(workload, base, order_note, gpus)
    return profiles


def _measured_by_sia(
    data: Path,
    workload: Workload,
    base: WorkloadProfile,
    order_note: str,
    gpus: Mapping[str, GpuModel],
) -> list[WorkloadProfile]:
    curves = public_curves.sia_curves(data)
    t4, v100 = (curves[workload.sia or "", gpu] for gpu in ("T4", "V100"))
    largest = t4.points[-1][0]
    shared = [workload.about, order_note]
    if t4.precision == "fp16":
        shared.append(
            "mixed precision: the authors' ImageNet script trains through apex AMP (petuum/adaptdl "
            "@60d25f2a38, benchmark/models/imagenet), and the V100 rates exceed its fp32 peak; "
            "gradients stay fp32"
        )
    shared.append("whole steps with a real input pipeline; forward and backward were not split")
    measured_t4 = replace(
        base,
        gpu="T4",
        precision=t4.precision,
        latencies=profile_of(t4).latencies,
        max_batch=largest,
        max_batch_evidence="stopped-at",
        source=f"measured on one T4 of an EC2 g4dn.12xlarge: {SIA}, one-GPU rows",
        notes=tuple(shared),
    )
    measured_v100 = replace(
        base,
        gpu="V100",
        precision=v100.precision,
        latencies=profile_of(v100).latencies,
        max_batch=largest,
        max_batch_evidence="estimated",
        source=f"measured on one V100 of an Azure VM (8 x V100): {SIA}, one-GPU rows",
        notes=(
            *shared,
            "the Azure cards seem to hold 32 GiB; max_batch is what the T4, also 16 GiB, ran in "
            f"the same source, though the curve goes on to {v100.points[-1][0]}",
            "small batches look bound by the host or the input: they hardly grow with the batch"
            + (", and no batch is faster than on the T4" if workload.sia == "ncf" else ""),
        ),
    )
    return [measured_t4, measured_v100, _m60(data, workload, measured_t4, measured_v100, gpus)]


def _m60(
    data: Path,
    workload: Workload,
    t4: WorkloadProfile,
    v100: WorkloadProfile,
    gpus: Mapping[str, GpuModel],
) -> WorkloadProfile:
    """The M60's estimate, from those curves that the GPU and not the host decides."""
    if workload.name == "resnet50":
        # The M60 has no fast half precision, so Sia's mixed-precision curves say little about it.
        gavel = public_curves.gavel_curves(data)
        parts = [
            replace(
                t4,
                gpu=gpu,
                precision="fp32",
                latencies=profile_of(gavel["ResNet-50", gpu]).latencies,
                max_batch=128,
                source=f"fp32 curves of {GAVEL}",
            )
            for gpu in ("V100", "P100")
        ]
        why = "from fp32 curves of another source, as those of the T4 and V100 are mixed precision"
    elif workload.name in ("resnet18-cifar", "neumf"):
        parts = [t4]
        why = "from the T4 alone: the V100's curve is bound by its host"
    else:
        parts = [t4, v100]
        why = "from the T4 and the V100"
    estimate = estimate_profile(
        parts,
        gpus,
        gpus["M60"],
        speed=check_roofline.SPEED,
        interval_fraction=SCALED_INTERVAL_FRACTION,
    )
    return replace(
        estimate,
        notes=(
            *estimate.notes,
            why,
            "max_batch scaled with the memory from the largest batch that ran in 16 GiB; larger "
            "ones were not tried there, so it is on the safe side",
            *(note for note in t4.notes if "mixed" not in note),
        ),
    )


def _measured_by_sailor(
    data: Path,
    workload: Workload,
    base: WorkloadProfile,
    order_note: str,
    gpus: Mapping[str, GpuModel],
) -> list[WorkloadProfile]:
    profiles: list[WorkloadProfile] = []
    parameters = sum(layer.parameters for layer in base.layers)
    for gpu, name in (("A100-40GB", "A100-40"), ("V100", "V100-16"), ("RTX-3090", "RTX-3090")):
        points = public_curves.sailor_points(data, "OPT-350", name)
        free = gpus[gpu].memory_bytes - 16 * parameters - 0.8 * 2**30
        profiles.append(
            replace(
                base,
                gpu=gpu,
                precision="unknown",
                latencies=tuple(BatchLatency(**point._asdict()) for point in points),
                max_batch=2 ** math.floor(math.log2(free / _OPT_BYTES_PER_SAMPLE)),
                max_batch_evidence="estimated",
                source=f"layer times measured in isolation, summed by us: {SAILOR}, "
                "layer_profiles without tensor parallelism",
                notes=(
                    workload.about,
                    order_note,
                    "layers were timed one at a time, so no whole step and no whole model's memory "
                    "was measured",
                    "max_batch: about 9.6 GB per sequence, from the peak memory of Sailor's GH200 "
                    "runs with 4-way tensor parallelism; activation checkpointing would allow more",
                    "the source does not state the precision; the V100's rates fit fp32, the "
                    "A100's exceed its fp32 peak (TF32?)",
                ),
            )
        )
    return profiles


# Sailor's GH200 runs, tensor parallelism 4: 32.56 GB at micro-batch 8, 9.55 GB at 1, so 3.3 GB a
# sequence; 1.2 GB of it are replicated, the rest is a quarter: 1.2 + 4 * 2.1.
_OPT_BYTES_PER_SAMPLE = 9.6e9


def _from_layers(
    workload: Workload,
    base: WorkloadProfile,
    order_note: str,
    gpus: Mapping[str, GpuModel],
) -> list[WorkloadProfile]:
    profiles: list[WorkloadProfile] = []
    fast = {spec.name for spec in workload.table if spec.fast}
    for gpu in ("T4", "V100", "M60"):
        max_batch = estimate_max_batch(base.layers, gpus[gpu].memory_bytes, largest=LARGEST_BATCH)
        if max_batch < 1:
            continue
        interval = M60_INTERVAL_FRACTION if gpu == "M60" else LAYERS_INTERVAL_FRACTION
        profile = profile_from_layers(
            workload.name,
            base.layers,
            base.gradients,
            gpus[gpu],
            max_batch=max_batch,
            efficiency=check_roofline.EFFICIENCIES.get(gpu, check_roofline.EFFICIENCY),
            fast_layers=fast,
            source="estimated by Srifty's roofline from our own layer table of the published "
            "architecture; nobody measured this curve",
            interval_fraction=workload.interval_fraction or interval,
        )
        profiles.append(
            replace(
                profile,
                item=workload.item,
                notes=(
                    *profile.notes,
                    workload.about,
                    order_note,
                    *([workload.doubt] if workload.doubt else []),
                    "max_batch from the memory: 16 bytes a parameter, 0.8 GiB for the context, 1.3 "
                    "times the bytes that the layers write",
                ),
            )
        )
    return profiles


def _gradients(data: Path, workload: Workload, gpu: GpuModel) -> tuple[GradientSchedule, str]:
    """The gradients in order of readiness, and a note that says how that is known."""
    tensors = [
        (name, 4 * size)
        for spec in reversed(workload.table)
        for name, size in reversed(spec.tensors)
    ]
    if workload.order is not None:
        log = public_curves.backward_order(data, workload.order)
        if [size for size, _ in log] == [size for _, size in tensors]:
            named = "names from the architecture (a layer's weight and bias of one size may swap)"
            names = [name for name, _ in tensors]
        else:
            named = "tensors unnamed"
            names = [f"tensor-{number:03d}" for number in range(len(log))]
        total_s = log[-1][1]
        schedule = tuple(
            Gradient(name, size, _digits(min(time_s / total_s, 1.0)))
            for name, (size, time_s) in zip(names, log, strict=True)
        )
        note = f"gradient order and readiness measured on a V100, batch 32, fp32: {NETX}; {named}"
        return GradientSchedule(schedule), note
    layers = [layer_of(spec) for spec in workload.table]
    fast = {spec.name for spec in workload.table if spec.fast}
    batch = 8 if workload.item.unit == "sequence" else 32
    _, backward_s = layer_times_s(
        layers, gpu, batch, efficiency=check_roofline.EFFICIENCY, fast_layers=fast
    )
    total_s, elapsed_s = float(backward_s.sum()), 0.0
    gradients: list[Gradient] = []
    for spec, time_s in zip(reversed(workload.table), reversed(backward_s.tolist()), strict=True):
        elapsed_s += time_s
        ready = _digits(min(elapsed_s / total_s, 1.0))
        gradients += [Gradient(name, 4 * size, ready) for name, size in reversed(spec.tensors)]
    last = gradients[-1]
    gradients[-1] = replace(last, ready=1.0)
    note = (
        "gradient order ESTIMATED: tensors in reverse layer order, ready after their layer's share "
        f"of the backward work (layer table, V100, batch {batch})"
    )
    return GradientSchedule(tuple(gradients), estimated=True), note


_ALLREDUCE_COLUMNS = (
    "cloud",
    "instance_type",
    "gpu",
    "nodes",
    "gpus_per_node",
    "world_size",
    "nccl_version",
    "size_bytes",
    "time_us",
    "transport",
    "config",
    "source",
)


def allreduce_csv(data: Path) -> tuple[str, list[samples_page.AllreduceCurve]]:
    """Returns the allreduce table as CSV text, and one line per curve for the page."""
    groups: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for row in public_curves.allreduce_rows(data):
        if row["inplace"] == "0" and _wanted(row):
            config = row["config"].split(";")[0]
            if config in ("socket", "efa"):  # the transport column says the same
                config = ""
            key = (
                row["cloud"],
                row["instance_type"],
                row["gpu"].removesuffix("-16GB"),
                row["nodes"],
                row["gpus_per_node"],
                row["world_size"],
                row["nccl_version"],
                row["transport"],
                config,
                row["source"],
            )
            sizes = groups.setdefault(key, {})
            sizes.setdefault(int(row["size_bytes"]), []).append(float(row["time_us"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_ALLREDUCE_COLUMNS)
    curves: list[samples_page.AllreduceCurve] = []
    for key in sorted(groups, key=lambda k: (k[0], k[1], int(k[5]), int(k[3]), k[7:])):
        sizes = groups[key]
        kept = _thinned(sorted(sizes))
        for size in kept:
            time_us = _digits(sum(sizes[size]) / len(sizes[size]))
            writer.writerow([*key[:7], size, time_us, *key[7:]])
        curves.append(
            samples_page.AllreduceCurve(
                key, kept[0], kept[-1], len(kept), max(len(times) for times in sizes.values())
            )
        )
    return text.getvalue(), curves


def _wanted(row: Mapping[str, str]) -> bool:
    kind, shape = row["instance_type"], f"{row['nodes']}x{row['gpus_per_node']}"
    if kind in ("g4dn.8xlarge", "g4dn.metal", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge"):
        return True
    if kind == "p5.48xlarge":
        plain = "awsome-distributed-training" in row["source"] and not row["config"]
        return plain or row["config"].startswith("hyperpod-eks")
    return kind.startswith("n1-standard") or (kind == "abci-V" and shape == "1x4")


def _thinned(sizes: Sequence[int]) -> list[int]:
    """Every second power of two from the smallest, and the largest."""
    kept = [sizes[0]]
    for size in sizes[1:]:
        if size >= 4 * kept[-1] or size == sizes[-1]:
            kept.append(size)
    return kept


def _digits(value: float) -> float:
    """Returns the value at five significant digits, whole numbers as such."""
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e18 else rounded


def _rows(rows: Sequence[object]) -> str:
    return "[\n" + ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]"


# Models whose layer tables hold batch normalisation.
_WITH_BATCH_NORM = frozenset(
    {
        "deepspeech2",
        "inception-v3",
        "resnet18-cifar",
        "resnet50",
        "shufflenet-v2",
        "vgg16",
        "yolov3",
    }
)


def profile_json(profile: WorkloadProfile) -> str:
    """Returns a profile in the project's file format, one row a line."""
    item: dict[str, object] = {"unit": profile.item.unit, "seq_len": profile.item.seq_len}
    head: dict[str, object] = {
        "format": "srifty-profile/1",
        "workload": profile.workload,
        "gpu": profile.gpu,
        "precision": profile.precision,
        "estimated": profile.estimated,
    }
    if profile.interval_fraction is not None:
        head["interval_fraction"] = profile.interval_fraction
    head |= {
        "source": profile.source,
        "item": item,
        "max_batch": profile.max_batch,
        "max_batch_evidence": profile.max_batch_evidence,
        "min_batch": profile.min_batch,
        "batch_norm": profile.workload in _WITH_BATCH_NORM,
        "gradients_estimated": bool(profile.gradients and profile.gradients.estimated),
        "notes": list(profile.notes),
    }
    latencies: list[dict[str, float]] = []
    for latency in profile.latencies:
        row: dict[str, float] = {"batch": latency.batch}
        for key in ("forward_s", "backward_s", "optimizer_s", "iteration_s"):
            value = getattr(latency, key)
            if value is not None:
                row[key] = _digits(value)
        latencies.append(row)
    gradients = profile.gradients.gradients if profile.gradients else ()
    tables = {
        "latencies": latencies,
        "gradients": [{"name": g.name, "bytes": g.bytes, "ready": g.ready} for g in gradients],
        "layers": [
            {
                "name": layer.name,
                "flops": _digits(layer.flops),
                "bytes": _digits(layer.bytes),
                "parameters": layer.parameters,
            }
            for layer in profile.layers
        ],
    }
    lines = [f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in head.items()]
    lines += [f" {json.dumps(key)}: {_rows(rows)}" for key, rows in tables.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Writes all files and prints a summary."""
    parser = argparse.ArgumentParser(description="Regenerates the built-in sample data.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data: Path = parser.parse_args().data
    gpus = {row["name"]: GpuModel(**row) for row in json.loads((TARGET / "gpus.json").read_text())}
    profiles = build_profiles(data, gpus)
    folder = TARGET / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.json"):
        stale.unlink()
    for profile in profiles:
        (folder / f"{profile.workload}.{profile.gpu}.json").write_text(profile_json(profile))
    table, curves = allreduce_csv(data)
    (TARGET / "allreduce.csv").write_text(table)
    scaling = check_roofline.scores(check_roofline.scaling_points(data, gpus))
    layers = check_roofline.layer_scores(data, gpus)
    about = {workload.name: workload.about for workload in workloads()}
    PAGE.write_text(samples_page.page(profiles, about, curves, scaling, layers))
    measured = sum(not profile.estimated for profile in profiles)
    points = sum(curve.points for curve in curves)
    sys.stdout.write(
        f"{len(profiles)} profiles ({measured} measured, {len(profiles) - measured} estimated) of "
        f"{len(about)} workloads\n{points} allreduce points in {len(curves)} curves\n"
    )
    for profile in profiles:
        total = profile.gradients.total_bytes if profile.gradients else 0
        kind = "estimated" if profile.estimated else "measured"
        sys.stdout.write(
            f"  {profile.workload}.{profile.gpu}: {kind}, gradients {total / 1e6:.1f} MB, "
            f"max_batch {profile.max_batch}, {profile.latencies[-1].batch} samples in "
            f"{profile.latencies[-1].step_s:.4g} s\n"
        )
    for score in [*scaling, *layers]:
        sys.stdout.write(
            f"  {score.group}: {score.points} points, median error {score.median:.0%}, 90 % within "
            f"{score.p90:.0%}; {score.within_30:.0%} within 30 %\n"
        )


if __name__ == "__main__":
    main()
