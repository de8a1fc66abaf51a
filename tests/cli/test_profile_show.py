from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from srifty.cli._profile_plot import plot_profile
from srifty.cli._profile_show import show_profile
from srifty.core import BatchLatency, Gradient, GradientSchedule, Item, WorkloadProfile
from srifty.errors import InputError
from tests.command import srifty

PROFILE = WorkloadProfile(
    workload="toy",
    gpu="T4",
    latencies=tuple(
        BatchLatency(b, 0.01 + b / 1e3, 0.02 + b / 500, 0.001, None, 0.002, 30) for b in (1, 8)
    ),
    max_batch=16,
    gradients=GradientSchedule((Gradient("fc", 4096, 0.25), Gradient("conv", 4096, 1.0))),
    input_samples_per_s_per_vcpu=120.0,
    compile_s=3.0,
    notes=("Something [odd] happened.",),
)


def shown(profile=PROFILE) -> str:
    text = io.StringIO()
    show_profile(Console(file=text, width=200), profile)
    return text.getvalue()


def test_the_table_has_every_part():
    out = shown()
    for words in (
        "18 ms",
        "36 ms",
        "145",
        "Batches of 1 to 16",
        "2 gradients, 8 KiB",
        "fc at 25%",
        "120 samples/s",
        "3 s",
        "[odd]",
    ):
        assert words in out


def test_rates_are_in_what_a_sample_is_and_the_knee_is_explained():
    out = shown(replace(PROFILE, item=Item("sequence", 128)))
    assert "sequences/s" in out
    assert "120 sequences/s for each vCPU" in out
    assert "samples/s" not in out
    assert "(the knee: below it a pass hardly gets shorter)" in out


def test_the_plot_is_a_drawing_with_both_axes(tmp_path):
    pytest.importorskip("matplotlib")
    plot_profile(PROFILE, tmp_path / "p.svg")
    drawing = (tmp_path / "p.svg").read_text()
    assert drawing.startswith("<?xml")
    assert drawing.count("<path") > 10


@pytest.mark.parametrize("name", ["p.no-such-format", "nowhere/p.svg"])
def test_a_plot_that_cannot_be_made_is_refused(tmp_path, name):
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="cannot be"):
        plot_profile(PROFILE, tmp_path / name)


def test_without_torch_the_command_says_what_to_install(monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("srifty.profiling")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    outcome = srifty("profile", "train:make")
    assert outcome.code == 2
    assert "srifty[train]" in outcome.err


def test_help_needs_no_torch():
    outcome = srifty("profile", "--help")
    assert outcome.code == 0
    assert "MODULE:FACTORY" in outcome.out
