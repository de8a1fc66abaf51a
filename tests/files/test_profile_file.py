import json

import pytest

from srifty.core import BatchLatency, Gradient
from srifty.errors import InputError
from srifty.files import builtin_profiles, builtin_workloads, read_profile
from tests.command import JOB, PROFILE, profile_document, srifty, write_job

from .malformed import PROFILES


def write(folder, content):
    path = folder / "toy.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PROFILES)
def test_a_malformed_profile_is_named_with_file_path_and_remedy(tmp_path, name):
    content, *words = PROFILES[name]
    path = write_job(tmp_path, JOB, content)
    outcome = srifty("plan", path)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert all(line.startswith(f"error: {path}: ") for line in outcome.err.splitlines())
    for word in words:
        assert word in outcome.err


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - {"too large for the GPU"}))
def test_a_malformed_profile_is_an_input_error(tmp_path, name):
    path = write(tmp_path, PROFILES[name][0])
    with pytest.raises(InputError) as caught:
        read_profile(path)
    assert caught.value.source == str(path)


def test_binary(tmp_path):
    path = tmp_path / "toy.json"
    path.write_bytes(b"\x89PNG\xff\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_profile(path)


def test_what_a_profile_says(tmp_path):
    profile = read_profile(
        write(
            tmp_path,
            profile_document(
                item={"unit": "sequence", "seq_len": 512},
                peak_memory_bytes={"8": 1000},
                notes=["a note"],
                min_batch=2,
                verified_batches=[2, 4],
                spatial_std_fraction=0.02,
                software={"torch": "2.5"},
                layers=[{"name": "conv", "flops": 1.2e8, "bytes": 3, "parameters": 9}],
            ),
        )
    )
    assert (profile.workload, profile.gpu, profile.max_batch) == ("toy", "T4", 64)
    assert profile.latencies[0] == BatchLatency(1, 0.01, 0.02)
    assert profile.gradients.gradients[1] == Gradient("conv.weight", 1000000, 1.0)
    assert (profile.item.unit, profile.item.seq_len) == ("sequence", 512)
    assert profile.peak_memory_bytes == {8: 1000}
    assert profile.verified_batches == (2, 4)
    assert profile.notes == ("a note",)
    assert profile.layers[0].flops == 1.2e8
    assert profile.max_batch_evidence == "estimated"


def test_iteration_times_alone_are_accepted(tmp_path):
    document = profile_document(latencies=[{"batch": 1, "iteration_s": 0.3}], gradients=None)
    profile = read_profile(write(tmp_path, document))
    assert not profile.is_split
    assert profile.gradients is None


def test_a_byte_order_mark_is_fine(tmp_path):
    path = tmp_path / "toy.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(PROFILE).encode())
    assert read_profile(path).workload == "toy"


@pytest.mark.parametrize("workload", builtin_workloads())
def test_builtin_profiles_are_of_their_workload(workload):
    profiles = builtin_profiles(workload)
    assert profiles
    assert {profile.workload for profile in profiles} == {workload}
    assert all(profile.source for profile in profiles)


def test_a_name_that_begins_another_is_not_confused():
    assert {profile.workload for profile in builtin_profiles("xlm")} == {"xlm"}
    with pytest.raises(InputError, match="no built-in workload 'resnet'; there are: "):
        builtin_profiles("resnet")


def test_an_iteration_time_beside_its_parts_is_refused():
    with pytest.raises(InputError, match="give one of the two"):
        BatchLatency(8, forward_s=0.1, backward_s=0.2, iteration_s=0.1)
