import importlib
import types
from importlib.util import find_spec

import pytest

PACKAGES = [
    "srifty.allreduce",
    "srifty.baselines",
    "srifty.calibration",
    "srifty.catalog",
    "srifty.cloud.export",
    "srifty.core",
    "srifty.files",
    "srifty.planner",
    "srifty.simulator",
    pytest.param(
        "srifty.training",
        marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is an extra"),
    ),
]


def _constants_classes_functions(name):
    """The order that ruff (RUF022) keeps."""
    return (not name.isupper(), not name[:1].isupper(), name)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_complete(name):
    package = importlib.import_module(name)
    public = {
        key
        for key, value in vars(package).items()
        if not key.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", name) != "__future__"
    }
    assert package.__all__ == sorted(package.__all__, key=_constants_classes_functions)
    assert set(package.__all__) == public
