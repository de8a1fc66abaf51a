from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.core import BatchLatency, Gradient, GradientSchedule, WorkloadProfile
from srifty.core.profile import Item, Layer
from srifty.errors import InputError
from srifty.files.profile_file import builtin_profiles, read_profile
from srifty.files.profile_writer import write_profile

SECONDS = st.floats(1e-6, 1e3)
FULL = WorkloadProfile(
    workload="toy – é",
    gpu="T4",
    latencies=(
        BatchLatency(1, 0.1, 0.2, 0.01, std_s=0.001, steps=12),
        BatchLatency(8, 0.3, 0.4),
    ),
    max_batch=64,
    gradients=GradientSchedule(
        (
            Gradient("b", 4, 0.25, {4: 0.2, 128: 0.5}, "bfloat16", 2, sparse=True),
            Gradient("a", 8, 1.0, {4: 0.9, 128: 1.0}, "float32", 0),
        ),
        estimated=True,
        unused=(Gradient("c", 12, 0.0, dtype="float32", index=1),),
        find_unused_parameters=True,
    ),
    precision="bf16",
    max_batch_evidence="measured",
    min_batch=2,
    spatial_std_fraction=0.02,
    input_samples_per_s_per_vcpu=12.5,
    estimated=True,
    interval_fraction=0.3,
    layers=(Layer("conv", 1e9, 1e6, 100),),
    item=Item("sequence", 512),
    verified_batches=(2, 4, 64),
    peak_memory_bytes={1: 1000, 64: 2000},
    measured_at="2026-11-30T12:00:00+00:00",
    source="made up",
    software={"torch": "2.13.0"},
    compile_s=1.5,
    notes=("a", "b"),
)


def test_a_full_profile_comes_back_as_it_was(tmp_path):
    write_profile(FULL, tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_what_is_not_known_of_gradients_is_left_out(tmp_path):
    known = replace(FULL, gradients=GradientSchedule((Gradient("b", 4, 0.25),)))
    write_profile(known, tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["gradients"] == [{"name": "b", "bytes": 4, "ready": 0.25}]
    assert document["unused_parameters"] == []
    assert read_profile(tmp_path / "p.json") == known


def test_the_built_in_profiles_come_back_as_they_were(tmp_path):
    for profile in builtin_profiles("resnet50"):
        write_profile(profile, tmp_path / "p.json")
        assert read_profile(tmp_path / "p.json") == profile


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(1, 10**6), st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=6
    )
)
def test_any_latencies_come_back_to_the_last_bit(tmp_path_factory, latencies):
    path = tmp_path_factory.mktemp("profile") / "p.json"
    profile = WorkloadProfile(
        workload="toy",
        gpu="T4",
        latencies=tuple(BatchLatency(b, *latencies[b]) for b in sorted(latencies)),
        max_batch=max(latencies),
    )
    write_profile(profile, path)
    assert read_profile(path) == profile


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_profile(FULL, tmp_path / "no-such-folder" / "p.json")


def test_the_old_file_survives_a_failed_write(tmp_path):
    path = tmp_path / "p.json"
    write_profile(FULL, path)
    (tmp_path / ".p.json.part").mkdir()  # in the way of the new one
    with pytest.raises(InputError):
        write_profile(FULL, path)
    assert json.loads(path.read_text())["workload"] == "toy – é"
