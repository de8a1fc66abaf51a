"""Runs with several VMs that somebody else measured, each with what may be learned beside it.

Every set is one publisher's measurements. What is held out together is a whole workload, or all
larger clusters; what is left in are the other rows with several workers of the same machines, and
one-worker rows for the computation. Where a source has no one-GPU rows, a whole VM is one worker
and its one-VM run the one-worker row: what happens inside a VM is then measured, not forecast.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from srifty.calibration import Fold
from srifty.core.observation import Observation

Row = dict[str, str]
Split = Callable[[Sequence[Observation]], list[Fold]]

# Bytes of all gradients at four bytes a parameter; parameters from the models' papers.
_RESNET50, _BERT_BASE, _BERT_LARGE = 102_228_128, 440_000_000, 1_344_000_000
_TRANSFORMER_XL_LARGE = 1_028_000_000
_TRANSFORMER_XL_TOKENS = 384  # per sample, as its published configuration has it
_MLPERF_BYTES = {
    "resnet": _RESNET50, "bert": _BERT_LARGE, "gnmt": 640_000_000, "maskrcnn": 176_000_000,
    "ssd": 144_000_000,
}  # fmt: skip
# Gbit/s of a VM's network, all cards together. DLPerf: its own page, 100 Gb/s InfiniBand. DGX: data
# sheets of DGX-1 (4 x EDR), DGX-2 (8 x EDR) and DGX A100 (8 x HDR). Other sources state none.
_DLPERF_GBIT = 100.0
_DGX_GBIT = {"8xV100": 400.0, "16xV100": 800.0, "8xA100": 1600.0, "dgx2h": 800.0, "dgxa100": 1600.0}
# A one-VM run says little about a batch further away than this factor.
_NEAR = 2.0


@dataclass(frozen=True)
class RunSet:
    """One publisher's runs on one kind of machine.

    Attributes:
        name: the data folder, and the cluster where it has several.
        rows: as `srifty evaluate iterations` reads them.
        split: what is learned from and what is forecast.
        fitted: what was learned from, in words.
        predicted: what was forecast, in words.
        usd_per_hour: of one VM; None where nobody rents these machines.
    """

    name: str
    rows: tuple[Row, ...]
    split: Split
    fitted: str
    predicted: str
    usd_per_hour: float | None = None


def run_sets(data: Path) -> Iterator[RunSet]:
    """Returns all sets, largest first."""
    yield _sia(data, "aws", "g4dn.12xlarge", 3.912)
    yield _sia(data, "azure", "azure-8xV100", 22.032)
    yield _dlperf(data)
    yield _nvidia(data)
    yield _mlperf(data)
    yield _gavel(data)
    yield _bamboo(data)


def each_group(group: Callable[[Observation], str]) -> Split:
    """Returns the split that forecasts each group of an instance type from its other groups."""

    def split(rows: Sequence[Observation]) -> list[Fold]:
        found: list[Fold] = []
        for kind in dict.fromkeys(row.instance_type for row in rows):
            mine = [row for row in rows if row.instance_type == kind and row.world_size > 1]
            for name in dict.fromkeys(group(row) for row in mine):
                held = tuple(row for row in mine if group(row) == name and row.vms > 1)
                learned = tuple(row for row in mine if group(row) != name)
                if held and any(row.vms > 1 for row in learned):
                    found.append(Fold(kind, learned, held))
        return found

    return split


def larger(most: int) -> Split:
    """Returns the split that forecasts clusters of more VMs from those of at most `most`."""

    def split(rows: Sequence[Observation]) -> list[Fold]:
        found: list[Fold] = []
        for kind in dict.fromkeys(row.instance_type for row in rows):
            mine = [row for row in rows if row.instance_type == kind and row.world_size > 1]
            learned = tuple(row for row in mine if row.vms <= most)
            held = tuple(row for row in mine if row.vms > most)
            if held and any(row.vms > 1 for row in learned):
                found.append(Fold(kind, learned, held))
        return found

    return split


def read(path: Path) -> Iterator[Row]:
    """Returns the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _row(
    workload: str, gpu: str, kind: str, placement: Sequence[int], batch: float, step_s: float,
    size: int = 0, sync_s: str = "", gbit_per_s: float | None = None, passes: int = 1,
) -> Row:  # fmt: skip
    return {
        "workload": workload,
        "gpu": gpu,
        "instance_type": kind,
        "placement": "-".join(map(str, placement)),
        "vms": str(len(placement)),
        "workers": str(sum(placement)),
        "local_batch": str(round(batch)),
        "step_s": repr(step_s),
        "sync_s": sync_s,
        "gradient_bytes": str(size or ""),
        "rated_gbit_per_s": str(gbit_per_s or ""),
        "accumulation": str(passes),
    }


def _sia(data: Path, cluster: str, kind: str, usd_per_hour: float) -> RunSet:
    rows: list[Row] = []
    for row in read(data / "sia_pollux" / "step_times.csv"):
        if row["cluster"] == cluster:
            vms, workers = int(row["num_nodes"]), int(row["num_replicas"])
            least, extra = divmod(workers, vms)
            placement = [int(digit) for digit in row["placement"]] or (
                [least + 1] * extra + [least] * (vms - extra)
            )
            made = _row(
                row["model"], row["gpu"], kind, placement, int(row["local_bsz"]),
                float(row["step_time"]), sync_s=row["sync_time"],
            )  # fmt: skip
            rows.append(made)
    several = {"aws": "1 to 16 VMs of 4 x T4", "azure": "1 to 5 VMs of 8 x V100"}[cluster]
    return RunSet(
        f"sia_pollux, {cluster}",
        tuple(rows),
        each_group(lambda row: row.workload),
        "at most 4 one-GPU rows of each workload; the links from the other workloads",
        f"every run with several VMs of the workload left out; {several}",
        usd_per_hour,
    )


def _dlperf(data: Path) -> RunSet:
    found: dict[tuple[str, str, int, int, int], list[float]] = defaultdict(list)
    for row in read(data / "dlperf_oneflow" / "tables.csv"):
        place, section = row["framework_model_dir"], row["section"]
        model = "bert" if "bert" in place.lower() else "resnet50" if _is_resnet(place) else ""
        per_s = _number(row["value"])
        if not model or "real data" in section or per_s <= 0 or "latency" in row["metric"]:
            continue
        stated = re.search(r"batch[ _]?size\s*=\s*(\d+)", section, re.IGNORECASE)
        batch = int(_number(row["batch_size_per_device"])) or (int(stated[1]) if stated else 0)
        vms, gpus = int(row["num_nodes"]), int(row["gpus_per_node"])
        gpus = gpus // vms if gpus > 8 else gpus
        if not batch or not 1 <= gpus <= 8:
            continue
        words = re.sub(r"batch[ _]?size\s*=\s*\d+(\(max\))?", "", section, flags=re.IGNORECASE)
        words = words.rpartition(" / ")[0] + words.rpartition(" / ")[2]
        half = re.search(r"fp16|amp\b|\bdynamic loss", words, re.IGNORECASE)
        name = f"{model} {place} {row['source_file'].rpartition('/')[2]} {words} {row['metric']}"
        key = (f"{' '.join(name.split())} {'half' if half else 'full'}", model, batch, vms, gpus)
        found[key].append(batch * gpus * vms / per_s)
    sizes = {"bert": _BERT_BASE, "resnet50": _RESNET50}
    rows = tuple(
        _row(
            name, "V100", "dlperf-8xV100", [gpus] * vms, batch, median(steps_s),
            sizes[model] // (2 if name.endswith("half") else 1), gbit_per_s=_DLPERF_GBIT,
        )
        for (name, model, batch, vms, gpus), steps_s in found.items()
    )  # fmt: skip
    return RunSet(
        "dlperf_oneflow",
        rows,
        each_group(lambda row: row.workload.partition(" ")[0]),
        "one-GPU rows of the same framework; the links from the other model (ResNet-50 from BERT "
        "and the other way round)",
        "2 and 4 VMs of 8 x V100, seven frameworks",
    )


def _is_resnet(place: str) -> bool:
    return bool(re.search(r"resnet50|rn50", place, re.IGNORECASE))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _nvidia(data: Path) -> RunSet:
    def key(row: Row) -> tuple[str, ...]:
        names = ("source_file", "gpu", "gpu_mem_GB", "precision", "seq_len")
        return (*(row[name] for name in names), row["local_batch"])

    rows = [
        row
        for row in read(data / "nvidia_dle" / "training_throughput.csv")
        if row["gpus"] and row["local_batch"]
        and (row["grad_accum"] or ("Transformer-XL" in row["source_file"]
                                   and "Large" in row["section"]))
    ]  # fmt: skip
    alone: dict[tuple[tuple[str, ...], int], list[float]] = defaultdict(list)
    for row in rows:
        if row["nodes"] in ("", "1"):
            alone[key(row), int(float(row["gpus"]))].append(float(row["throughput_per_s"]))
    made: list[Row] = []
    for row in rows:
        vms = int(float(row["nodes"] or 1))
        gpus = int(float(row["gpus"])) // vms
        known = alone.get((key(row), gpus))
        if vms < 2 or not known:
            continue
        passes = round(float(row["grad_accum"] or 1))
        micro = gpus * float(row["local_batch"])
        per_s = float(row["throughput_per_s"])
        size = _BERT_LARGE
        scale = 1.0
        if not row["grad_accum"]:
            size, scale = _TRANSFORMER_XL_LARGE, float(_TRANSFORMER_XL_TOKENS)
        size //= 2 if row["precision"] == "mixed" else 1
        # Throughput of a DLE table counts sequences, Transformer-XL's counts tokens.
        machine = f"{gpus}x{row['gpu']}-{row['gpu_mem_GB']}GB"
        name = " ".join((row["source_file"].replace("/README.md", ""), row["precision"],
                         row["seq_len"], row["local_batch"])).strip()  # fmt: skip
        kind, rate = f"dle-{machine}", _DGX_GBIT[f"{gpus}x{row['gpu']}"]
        one_s = micro * scale / median(known)
        step_s = passes * micro * vms * scale / per_s
        made.append(_row(name, machine, kind, [1], micro, one_s, size, gbit_per_s=rate))
        made.append(
            _row(name, machine, kind, [1] * vms, passes * micro, step_s, size, gbit_per_s=rate,
                 passes=passes)
        )  # fmt: skip
    return RunSet(
        "nvidia_dle",
        tuple(made),
        each_group(lambda row: row.workload.partition(" ")[0]),
        "throughput of one VM at the same micro-batch; the links from the other repositories' "
        "models on the same machine",
        "2 to 64 VMs of 8 or 16 GPUs, with gradient accumulation",
    )


def _mlperf(data: Path) -> RunSet:
    found: dict[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for row in read(data / "mlperf_training_v0.7" / "per_run_epoch_times.csv"):
        machine = re.match(r"(?:\d+x)?(dgx2h|dgxa100|C4140)", row["system"])
        if not machine or row["benchmark"] not in _MLPERF_BYTES or not row["iter_s_median"]:
            continue
        vms = int(float(row["nodes"]))
        key = (row["benchmark"], machine[1], vms, round(int(row["gbs"]) / vms))
        found[key].append(float(row["iter_s_median"]))
    rows: list[Row] = []
    for (benchmark, machine, vms, batch), steps_s in found.items():
        alone = [b for name, on, count, b in found if (name, on, count) == (benchmark, machine, 1)]
        if any(batch / _NEAR <= one <= batch * _NEAR for one in alone):
            size = _MLPERF_BYTES[benchmark] // 2
            rows.append(
                _row(benchmark, machine, f"mlperf-{machine}", [1] * vms, batch, median(steps_s),
                     size, gbit_per_s=_DGX_GBIT.get(machine))
            )  # fmt: skip
    return RunSet(
        "mlperf_training_v0.7",
        tuple(rows),
        each_group(lambda row: row.workload),
        "one VM's run of the same benchmark; the links from the other benchmarks",
        "2 to 32 VMs whose batch per VM is within a factor of 2 of the one-VM run's",
    )


def _gavel(data: Path) -> RunSet:
    sizes = {"ResNet-18": 44_700_000, "ResNet-50": _RESNET50}
    rows = [
        _row(
            row["model"], gpu.upper(), f"gavel-{gpu}", [1] * int(row["scale_factor"]),
            float(row["batch_size_per_gpu"]), float(row["iter_time_s"]),
            sizes.get(row["model"], 0),
        )
        for row in read(data / "gavel_shockwave" / "throughputs_isolated.csv")
        if row["source_file"] == "gavel_physical_cluster" and row["scale_factor"] in ("1", "2")
        and (gpu := row["worker_type"].partition("_")[0]) + "_unconsolidated" == row["worker_type"]
        and _number(row["batch_size_per_gpu"]) > 0 and _number(row["iter_time_s"]) > 0
    ]  # fmt: skip
    return RunSet(
        "gavel_shockwave",
        tuple(rows),
        each_group(lambda row: row.workload),
        "at most 4 one-GPU rows of each model; the links from the other models",
        "2 GPUs on 2 servers (more are left out: their placement is not stated)",
    )


def _bamboo(data: Path) -> RunSet:
    batch = 64
    rows = [
        _row(
            "resnet50", "V100", "p3.2xlarge", [1] * int(row["gpus"]), batch,
            batch * int(row["gpus"]) / float(row["images_per_s"]), _RESNET50,
        )
        for row in read(data / "variance" / "bamboo_p3_resnet50_scaling_2020.csv")
        if row["placement"].startswith("spread")
    ]  # fmt: skip
    return RunSet(
        "bamboo, p3.2xlarge",
        tuple(rows),
        larger(2),
        "one VM and two",
        "4 and 8 VMs spread over zones (the batch is not stated; 64 is assumed)",
        3.06,
    )
