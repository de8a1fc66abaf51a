"""`srifty profile --estimate-for`: profiles of GPUs that are not at hand, written beside."""

from __future__ import annotations

import json

import pytest

from srifty.files.profile_file import read_profile
from tests.command import srifty

pytest.importorskip("torch", reason="torch is an extra")

FACTORY = """
import torch
from srifty.profiling.workload import Workload

def make():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    return Workload(
        name="toy",
        model=model,
        loss=lambda m, batch: m(batch).square().mean(),
        make_batch=lambda size: torch.randn(size, 64),
    )

def few(size=20):
    workload = make()
    workload.make_batch = lambda batch: torch.randn(size, 64)[:batch]
    workload.dataset_size = size
    return workload

def three():
    return few(3)
"""


@pytest.fixture(name="factory")
def _factory(tmp_path, monkeypatch):
    (tmp_path / "toy_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "toy_factory:make"


def test_on_a_cpu_only_the_estimates_are_written(factory, tmp_path):
    output = tmp_path / "toy.json"
    outcome = srifty("profile", factory, "--device", "cpu", "--estimate-for", "T4,L4", "-o", output)
    assert outcome.code == 0, outcome.err
    assert not output.exists()
    for gpu in ("T4", "L4"):
        profile = read_profile(tmp_path / f"toy.{gpu}.json")
        assert profile.gpu == gpu
        assert profile.estimated
        assert profile.interval_fraction > 0
        assert profile.layers


def test_no_batch_is_larger_than_the_data_set(factory):
    arguments = ("--device", "cpu", "--estimate-for", "T4", "--json")
    outcome = srifty("profile", factory.replace("make", "few"), *arguments)
    assert outcome.code == 0, outcome.err
    (profile,) = json.loads(outcome.out)["profiles"]
    assert profile["max_batch"] == 20
    assert max(latency["batch"] for latency in profile["latencies"]) <= 20


def test_too_few_samples_to_count_are_told(factory):
    arguments = ("--device", "cpu", "--estimate-for", "T4", "--json")
    outcome = srifty("profile", factory.replace("make", "three"), *arguments)
    assert outcome.code == 2
    assert "3 samples are too few to count a step; 4 are needed" in outcome.err


def test_as_json(factory):
    outcome = srifty("profile", factory, "--device", "cpu", "--estimate-for", "V100", "--json")
    assert outcome.code == 0, outcome.err
    (profile,) = json.loads(outcome.out)["profiles"]
    assert profile["gpu"] == "V100"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--estimate-for", "T5", "--json"), "takes GPUs between commas"),
        (("--estimate-for", ",", "--json"), "takes GPUs between commas"),
        (("--estimate-for", "T4"), "needs -o"),
    ],
)
def test_bad_requests(factory, arguments, words):
    outcome = srifty("profile", factory, *arguments)
    assert outcome.code == 2
    assert words in outcome.err
