import csv
import json
from pathlib import Path

import pytest

import srifty
from srifty.core.allreduce import AllreduceSample
from srifty.core.hardware import GpuModel
from srifty.core.profile import (
    BatchLatency,
    Gradient,
    GradientSchedule,
    Item,
    Layer,
    WorkloadProfile,
)

DATA = Path(srifty.__file__).parent / "data"
PROFILES = sorted((DATA / "profiles").glob("*.json"))
LATENCY_FIELDS = {"batch", "forward_s", "backward_s", "optimizer_s", "iteration_s"}
MEASURED = {
    *(
        (workload, gpu)
        for workload in (
            "resnet50",
            "resnet18-cifar",
            "bert-base",
            "deepspeech2",
            "yolov3",
            "neumf",
        )
        for gpu in ("T4", "V100")
    ),
    *(("opt-350m", gpu) for gpu in ("A100-40GB", "V100", "RTX-3090")),
}
# Well-known sizes of the gradients in fp32, megabytes.
MEGABYTES = {
    "resnet50": 102.2,
    "vgg16": 553.5,
    "resnet18-cifar": 44.7,
    "bert-base": 438,
    "alexnet": 244.4,
    "inception-v3": 95.3,
    "shufflenet-v2": 9.1,
    "yolov3": 248,
    "opt-350m": 1325,
    "xlm": 2668,
}


def profile_rows(path: Path) -> dict:
    return json.loads(path.read_text())


def gpus() -> list[GpuModel]:
    return [GpuModel(**row) for row in json.loads((DATA / "gpus.json").read_text())]


def allreduce_rows() -> list[dict[str, str]]:
    with (DATA / "allreduce.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_gpu_is_valid_named_once_and_sourced():
    names = [gpu.name for gpu in gpus()]
    assert len(names) == len(set(names)) == 14
    for gpu in gpus():
        assert "data sheet" in gpu.source or "white paper" in gpu.source
        assert 1e11 < gpu.memory_bytes_per_s < 1e13
        assert all(1e12 < flops < 2e15 for flops in gpu.peak_flops.values())


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_profile_is_valid(path):
    rows = profile_rows(path)
    assert rows["format"] == "srifty-profile/1"
    assert path.name == f"{rows['workload']}.{rows['gpu']}.json"
    assert rows["source"]
    profile = WorkloadProfile(
        workload=rows["workload"],
        gpu=rows["gpu"],
        precision=rows["precision"],
        latencies=tuple(BatchLatency(**row) for row in rows["latencies"]),
        gradients=GradientSchedule(tuple(Gradient(**row) for row in rows["gradients"])),
        layers=tuple(Layer(**row) for row in rows["layers"]),
        max_batch=rows["max_batch"],
        max_batch_evidence=rows["max_batch_evidence"],
        min_batch=rows["min_batch"],
        item=Item(**rows["item"]),
        estimated=rows["estimated"],
        interval_fraction=rows.get("interval_fraction"),
    )
    assert profile.gradients is not None
    assert profile.gradients.gradients[-1].ready == 1.0
    names = [gradient.name for gradient in profile.gradients.gradients]
    assert len(names) == len(set(names))
    parameters = sum(layer.parameters for layer in profile.layers)
    assert profile.gradients.total_bytes == 4 * parameters
    assert all(set(row) <= LATENCY_FIELDS for row in rows["latencies"])
    assert profile.gpu in {gpu.name for gpu in gpus()}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_estimates_are_marked_and_measurements_are_not(path):
    rows = profile_rows(path)
    measured = (rows["workload"], rows["gpu"]) in MEASURED
    assert rows["estimated"] is not measured
    if measured:
        assert "interval_fraction" not in rows
    else:
        assert rows["interval_fraction"] >= 0.3
        assert rows["max_batch_evidence"] == "estimated"
        assert any(note.startswith("ESTIMATED") for note in rows["notes"])


def test_every_measured_profile_is_there():
    present = {(rows["workload"], rows["gpu"]) for rows in map(profile_rows, PROFILES)}
    assert present >= MEASURED


def test_gradients_have_the_known_sizes():
    seen = set()
    for path in PROFILES:
        rows = profile_rows(path)
        total = sum(row["bytes"] for row in rows["gradients"])
        if rows["workload"] in MEGABYTES:
            seen.add(rows["workload"])
            assert total / 1e6 == pytest.approx(MEGABYTES[rows["workload"]], rel=0.02), path.name
    assert seen == set(MEGABYTES)


def test_max_batch_stays_within_what_was_run_where_it_was_run():
    for path in PROFILES:
        rows = profile_rows(path)
        assert rows["max_batch"] <= rows["latencies"][-1]["batch"], path.name


def test_a_stronger_gpu_is_faster_at_the_largest_estimated_batch():
    for workload in ("vgg16", "alexnet", "inception-v3", "shufflenet-v2", "dlrm"):
        per_sample = {}
        for gpu in ("M60", "T4", "V100"):
            last = profile_rows(DATA / "profiles" / f"{workload}.{gpu}.json")["latencies"][-1]
            per_sample[gpu] = (last["forward_s"] + last["backward_s"]) / last["batch"]
        assert per_sample["M60"] > per_sample["T4"] > per_sample["V100"]


def test_every_allreduce_row_is_valid_and_sourced():
    names = {gpu.name for gpu in gpus()}
    for row in allreduce_rows():
        sample = AllreduceSample(
            instance_type=row["instance_type"],
            vms=int(row["nodes"]),
            world_size=int(row["world_size"]),
            size_bytes=int(row["size_bytes"]),
            time_s=float(row["time_us"]) * 1e-6,
        )
        assert sample.world_size == sample.vms * int(row["gpus_per_node"])
        assert row["source"]
        assert row["transport"]
        assert row["gpu"] in names


def test_no_two_allreduce_rows_measure_the_same():
    keys = [
        tuple(value for column, value in row.items() if column != "time_us")
        for row in allreduce_rows()
    ]
    assert len(keys) == len(set(keys))
