import pytest

from srifty.core import GpuModel, InstanceType
from srifty.errors import InputError
from srifty.units import GIB

GPU = {
    "name": "T4",
    "architecture": "Turing",
    "memory_bytes": 16 * GIB,
    "memory_bytes_per_s": 3.2e11,
    "peak_flops": {"fp32": 8.1e12},
    "source": "made up",
}
TYPE = {
    "name": "g4dn.12xlarge",
    "cloud": "aws",
    "gpu": "T4",
    "gpus": 4,
    "gpu_memory_bytes": 16 * GIB,
    "vcpus": 48,
    "rated_gbit_per_s": 50.0,
}


def test_family_and_memory():
    kind = InstanceType(**TYPE)
    assert kind.family == "g4dn"
    assert kind.gpu_memory_gib == 16
    assert InstanceType(**TYPE | {"name": "lab"}).family == "lab"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "a GPU model needs a name"),
        ({"memory_bytes": 0}, "memory_bytes must be a whole number of at least 1, not 0"),
        ({"memory_bytes": 1.5}, "memory_bytes"),
        ({"memory_bytes_per_s": -1.0}, "memory_bytes_per_s must be above 0, not -1.0"),
        ({"memory_bytes_per_s": float("nan")}, "memory_bytes_per_s must be above 0, not nan"),
        ({"memory_bytes_per_s": float("inf")}, "memory_bytes_per_s must lie between"),
        ({"peak_flops": {"fp16": 1e12}}, "peak_flops needs an entry for fp32"),
        ({"peak_flops": {"fp32": 0.0}}, "peak_flops['fp32'] must be above 0"),
    ],
)
def test_gpus_refused(change, words):
    with pytest.raises(InputError) as caught:
        GpuModel(**GPU | change)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["", "4xl", "a b", "a@b", "a(b", "a)b", "a:b", "a,b", "a\tb"])
def test_names_that_the_notation_cannot_hold(name):
    with pytest.raises(InputError, match="starts with a letter"):
        InstanceType(**TYPE | {"name": name})


@pytest.mark.parametrize("field", ["gpus", "vcpus", "gpu_memory_bytes", "rated_gbit_per_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), 10**400])
def test_types_refused(field, value):
    with pytest.raises(InputError) as caught:
        InstanceType(**TYPE | {field: value})
    assert f"g4dn.12xlarge: {field}" in str(caught.value)
