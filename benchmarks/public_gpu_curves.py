"""Single-GPU training curves of the public measurements, and the GPUs that they were measured on.

The GPUs that the built-in catalog lacks stand here with the rates of NVIDIA's data sheets and
architecture papers: dense, and with fp32 accumulation.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from srifty.catalog.builtin import builtin_gpus
from srifty.core.hardware import GpuModel
from srifty.units import GIB

# Rows that ran out of memory stand as 20 s in Sailor's table of operations.
_OUT_OF_MEMORY_US = 1e7
# Throughputs of one batch that differ by more come from settings that no column tells apart.
_REPEATS_WITHIN = 1.2


def _gpu(
    name: str,
    architecture: str,
    gib: int,
    gbytes_per_s: float,
    fp32: float,
    *,
    tf32: float | None = None,
    fp16: float | None = None,
) -> GpuModel:
    rates = {"fp32": fp32, "tf32": tf32, "fp16": fp16}
    return GpuModel(
        name=name,
        architecture=architecture,
        memory_bytes=gib * GIB,
        memory_bytes_per_s=gbytes_per_s * 1e9,
        peak_flops={precision: rate * 1e12 for precision, rate in rates.items() if rate},
        source="NVIDIA's data sheet",
    )


GPUS: dict[str, GpuModel] = builtin_gpus() | {
    gpu.name: gpu
    for gpu in (
        _gpu("RTX-8000", "Turing", 48, 672, 16.3, fp16=130.5),
        _gpu("TITAN-RTX", "Turing", 24, 672, 16.3, fp16=130.5),
        _gpu("A10", "Ampere", 24, 600, 31.2, tf32=62.5, fp16=125),
        _gpu("A6000", "Ampere", 48, 768, 38.7, tf32=77.4, fp16=154.8),
        _gpu("A100-40GB-PCIe", "Ampere", 40, 1555, 19.5, tf32=156, fp16=312),
        _gpu("A100-80GB-PCIe", "Ampere", 80, 1935, 19.5, tf32=156, fp16=312),
        _gpu("RTX-6000-Ada", "Ada Lovelace", 48, 960, 91.1, tf32=182, fp16=364),
        _gpu("RTX-4090", "Ada Lovelace", 24, 1008, 82.6, tf32=82.6, fp16=165.2),
        _gpu("H100-PCIe", "Hopper", 80, 2000, 51.2, tf32=378, fp16=756),
        _gpu("GH200", "Hopper", 96, 4000, 67, tf32=494.5, fp16=989.5),
        _gpu("B200", "Blackwell", 192, 8000, 80, tf32=1100, fp16=2250),
    )
}

_CHIPS = {
    "GV100": ("V100", "V100-32GB"),
    "GA100": ("A100-40GB", "A100-80GB", "A100-40GB-PCIe", "A100-80GB-PCIe"),
    "GH100": ("H100", "H100-PCIe", "GH200"),
    "TU102": ("RTX-2080Ti", "RTX-8000", "TITAN-RTX"),
    "GA102": ("RTX-3090", "A6000", "A10", "A10G"),
    "AD102": ("RTX-4090", "RTX-6000-Ada", "L40S"),
}
CHIP: dict[str, str] = {name: name for name in GPUS} | {
    name: chip for chip, names in _CHIPS.items() for name in names
}
"""The chip of each GPU: cards with the same one are held out together."""


@dataclass(frozen=True)
class Curve:
    """Step times of one workload on one GPU.

    Attributes:
        data_set: the folder that it comes from.
        workload: the workload's name, precision included.
        gpu: name of the GPU.
        precision: what ran; `tf32` is fp32 on GPUs without it.
        steps: batch sizes and seconds per step, by ascending batch.
    """

    data_set: str
    workload: str
    gpu: str
    precision: str
    steps: tuple[tuple[int, float], ...]


def public_curves(data: Path) -> list[Curve]:
    """Returns the curves of all data sets, several GPUs per workload or not."""
    return [*_sia(data), *_virtualflow(data), *_sailor(data), *_nvidia(data), *_lambda(data)]


def timm_curves(data: Path) -> list[Curve]:
    """Returns the steps on an RTX 3090 of the timm models whose layers we have tables of."""
    found: list[Curve] = []
    for layout in ("nchw", "nhwc"):
        name = f"timm/benchmark-train-amp-{layout}-pt112-cu113-rtx3090.csv"
        for row in _rows(data, name):
            if row["model"] in ("resnet50", "vgg16_bn", "inception_v3"):
                step = (int(row["train_batch_size"]), float(row["train_step_time"]) / 1e3)
                workload = f"{row['model']} {layout}"
                found.append(Curve("timm", workload, "RTX-3090", "fp16", (step,)))
    return found


def _sia(data: Path) -> list[Curve]:
    """T4 and V100; the authors' ImageNet script trains through apex AMP, the others in fp32."""
    curves = _Curves("sia_pollux")
    for row in _rows(data, "sia_pollux/step_times.csv"):
        if row["table"] == "placements" and row["num_replicas"] == "1":
            precision = "fp16" if row["model"] == "imagenet" else "fp32"
            key = (row["model"], row["gpu"], precision)
            curves.add(key, int(row["local_bsz"]), float(row["step_time"]))
    return curves.list()


def _virtualflow(data: Path) -> list[Curve]:
    """V100 and K80; the transformer's batches are tokens padded to sentences: left out."""
    curves = _Curves("virtualflow_het")
    for row in _rows(data, "virtualflow_het/single_gpu_batch_profiles.csv"):
        if row["workload"] != "transformer":
            key = (row["workload"], row["gpu"], row["dtype"])
            curves.add(key, int(row["batch_size"]), float(row["step_ms"]) / 1e3)
    return curves.list()


_SAILOR_GPUS = {
    "A100-40": "A100-40GB",
    "V100-16": "V100",
    "GH-96": "GH200",
    "RTX-2080": "RTX-2080Ti",
    "Titan-RTX": "TITAN-RTX",
}


def _sailor(data: Path) -> list[Curve]:
    """Layer times without tensor parallelism, summed, and one block's operations, summed.

    Taken as TF32 where the GPU has it: the A100 does more operations than its fp32 peak. The 2080
    is taken for the 11 GB Ti.
    """
    curves = _Curves("sailor")
    sums: dict[tuple[str, str, str, int], float] = defaultdict(float)
    for row in _rows(data, "sailor/layer_profiles.csv"):
        if row["tp"] == "1":
            gpu = _SAILOR_GPUS.get(row["gpu"], row["gpu"])
            key = (row["model"], gpu, "tf32", int(row["mbs"]))
            sums[key] += float(row["fwd_s"]) + float(row["bwd_s"])
    failed: set[tuple[str, str, str, int]] = set()
    for row in _rows(data, "sailor/aceso_op_profiles_tp1.csv"):
        if not row["op"].startswith("enc-"):
            continue
        gpu = _SAILOR_GPUS.get(row["gpu"], row["gpu"])
        precision = "tf32" if row["precision"] == "fp32" else "fp16"
        key = (f"{row['model']} block", gpu, precision, int(row["mbs"]))
        passes_us = float(row["fwd_us"]), float(row["bwd_us"])
        sums[key] += sum(passes_us) / 1e6
        if max(passes_us) >= _OUT_OF_MEMORY_US:
            failed.add(key)
    for key, seconds in sums.items():
        if key not in failed:
            curves.add(key[:3], key[3], seconds)
    return curves.list()


def _nvidia(data: Path) -> list[Curve]:
    """A100 and V100; what ran as TF32 on one and FP32 on the other is one workload.

    The tables mix settings that their columns do not tell apart. So a batch whose repeats differ
    by more than a fifth is left out, and so is a curve that falls by more than a tenth as the batch
    grows (nnU-Net in two and three dimensions, Transformer-XL base and large).
    """
    curves = _Curves("nvidia_dle")
    repeats: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    cards = {
        ("A100", "40"): "A100-40GB",
        ("A100", "80"): "A100-80GB",
        ("V100", "16"): "V100",
        ("V100", "32"): "V100-32GB",
    }
    for row in _rows(data, "nvidia_dle/training_throughput.csv"):
        card = cards.get((row["gpu"], row["gpu_mem_GB"]))
        if card and row["gpus"] == "1" and row["local_batch"] and row["throughput_per_s"]:
            name = f"{row['framework']} {row['model'].split('/')[-1]} {row['seq_len']}".strip()
            precision = "fp16" if row["precision"] == "mixed" else "tf32"
            key = (name, card, precision, int(float(row["local_batch"])))
            repeats[key].append(float(row["throughput_per_s"]))
    for key, rates in repeats.items():
        if max(rates) < _REPEATS_WITHIN * min(rates):
            curves.add(key[:3], key[3], key[3] * len(rates) / sum(rates))
    return [
        curve
        for curve in curves.list()
        if all(b[1] >= 0.9 * a[1] for a, b in zip(curve.steps, curve.steps[1:], strict=False))
    ]


_LAMBDA_GPUS = {
    "Quadro RTX 8000": "RTX-8000",
    "V100 16GB": "V100",
    "RTX 3090": "RTX-3090",
    "A10": "A10",
    "A100 40GB PCIe": "A100-40GB-PCIe",
    "A100 80GB PCIe": "A100-80GB-PCIe",
    "A100 80GB SXM4": "A100-80GB",
    "RTX 6000 Ada": "RTX-6000-Ada",
    "RTX A6000": "A6000",
    "RTX 4090": "RTX-4090",
    "H100 80GB PCIe": "H100-PCIe",
    "H100 80GB SXM5": "H100",
    "GH200 96GB": "GH200",
    "B200 192GB SXM5": "B200",
}
_LAMBDA_MODELS = (
    "ssd",
    "bert_base_squad",
    "bert_large_squad",
    "gnmt",
    "resnet50",
    "tacotron2",
    "waveglow",
)


def _lambda(data: Path) -> list[Curve]:
    """One batch per GPU: the largest that its memory holds."""
    curves = _Curves("lambda_gpu_benchmarks")
    for column, precision in (("fp16", "fp16"), ("fp32", "tf32")):
        stem = f"lambda_gpu_benchmarks/csv_v1_v2__pytorch-train-{{}}-{column}.csv"
        batches = {row["name_gpu"]: row for row in _rows(data, stem.format("bs"))}
        for row in _rows(data, stem.format("throughput")):
            if row["num_gpu"] == "1":
                gpu = _LAMBDA_GPUS[row["name_gpu"].removeprefix("LambdaCloud 1x ")]
                for model in _LAMBDA_MODELS:
                    batch = int(batches[row["name_gpu"]][model])
                    curves.add((model, gpu, precision), batch, batch / float(row[model]))
    return curves.list()


class _Curves:
    """Curves of one data set under construction.

    Args:
        data_set: its folder.
    """

    def __init__(self, data_set: str) -> None:
        self._data_set = data_set
        self._steps: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)

    def add(self, key: tuple[str, str, str], batch: int, seconds: float) -> None:
        """Adds a step of (workload, gpu, precision)."""
        self._steps[key][batch] = seconds

    def list(self) -> list[Curve]:
        """Returns the curves."""
        return [
            Curve(
                self._data_set,
                f"{workload} {precision}",
                gpu,
                precision,
                tuple(sorted(steps.items())),
            )
            for (workload, gpu, precision), steps in self._steps.items()
        ]


def _rows(data: Path, name: str) -> Iterator[dict[str, str]]:
    with (data / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
