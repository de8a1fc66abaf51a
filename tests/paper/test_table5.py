"""Groups and underestimates of Table 5 and Figure 7."""

import numpy as np
import pytest
from benchmarks.paper import table5

from srifty.core.observation import Observation
from tests.paper.made_runs import forecasts


def run(workload, workers=2):
    return Observation(workload, "T4", "g4dn.12xlarge", (1,) * workers, 8, 1.0)


def test_models_are_called_by_one_name():
    assert table5.model(run("imagenet")) == table5.model(run("resnet50 MxNet/x")) == "ResNet-50"
    assert table5.model(run("PyTorch/LanguageModeling/BERT mixed 128")) == "BERT"
    assert table5.model(run("something")) == "something"


@pytest.mark.parametrize(
    ("workers", "name"), [(2, "2 to 4"), (4, "2 to 4"), (5, "5 to 8"), (64, "33 to 64")]
)
def test_classes_of_world_sizes(workers, name):
    assert table5.world(run("a", workers)) == name


def test_underestimates():
    share, mean, worst = table5.underestimates(np.array([0.5, 0.9, 1.0, 2.0]), np.ones(4))
    assert share == 0.5
    assert mean == pytest.approx(0.3)
    assert worst == pytest.approx(0.46)
    assert table5.underestimates(np.ones(2), np.ones(2)) == (0.0, 0.0, 0.0)


def test_errors_by_group():
    found = forecasts(
        [("a", (1, 1), 8, 1.0, 1.1, 2.0, 0.5), ("b", (1, 1), 8, 1.0, 0.9, 1.0, 0.5),
         ("a", (1, 1), 8, 1.0, 1.3, 1.0, 0.5)]
    )  # fmt: skip
    assert table5.grouped(found, lambda row: row.workload) == [
        ("a", "2", "20.0%", "50.0%", "50.0%"),
        ("b", "1", "10.0%", "0.0%", "50.0%"),
    ]
