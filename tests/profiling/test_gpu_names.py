import pytest

from srifty.catalog.builtin import builtin_gpus
from srifty.profiling.gpu_names import gpu_model_of
from srifty.units import GIB

KNOWN = {name: gpu.memory_bytes for name, gpu in builtin_gpus().items()}


@pytest.mark.parametrize(
    ("device", "memory_gib", "model"),
    [
        ("Tesla T4", 14.6, "T4"),
        ("Tesla V100-SXM2-16GB", 15.8, "V100"),
        ("Tesla V100-SXM2-32GB", 31.7, "V100-32GB"),
        ("NVIDIA A10G", 22.1, "A10G"),
        ("NVIDIA L4", 22.0, "L4"),
        ("NVIDIA L40S", 44.5, "L40S"),
        ("NVIDIA A100-SXM4-40GB", 39.4, "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", 79.1, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", 79.1, "H100"),
        ("NVIDIA GeForce RTX 3090", 23.6, "RTX-3090"),
        ("NVIDIA GeForce RTX 2080 Ti", 10.6, "RTX-2080Ti"),
        # Others that only sound alike.
        ("NVIDIA L40", 44.5, None),
        ("NVIDIA A10", 22.1, None),
        ("NVIDIA H200", 139.8, None),
        ("NVIDIA H100 NVL", 93.0, None),
        ("AMD Instinct MI300X", 191.0, None),
    ],
)
def test_the_driver_s_names_are_recognised(device, memory_gib, model):
    assert gpu_model_of(device, int(memory_gib * GIB), KNOWN) == model


def test_without_memory_only_what_is_unmistakable_is_recognised():
    assert gpu_model_of("Tesla T4", None, KNOWN) == "T4"
    assert gpu_model_of("NVIDIA A100", None, KNOWN) is None
