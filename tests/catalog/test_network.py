import pytest

from srifty.catalog import builtin_instance_types, mixed_host_warnings, network_notes
from srifty.core import InstanceType, Location, Market, Offer
from srifty.units import GIB


def offers(*names):
    types = builtin_instance_types()
    lab = InstanceType("lab", "own", "Q9", 8, 16 * GIB, 96, 10.0)
    return [Offer(types.get(name, lab), Market.ON_DEMAND, Location("r"), 1.0, 1) for name in names]


@pytest.mark.parametrize(
    ("names", "vms", "efa", "group", "words"),
    [
        (["g4dn.12xlarge"], 1, "auto", "auto", []),
        (["lab"], 2, "auto", "auto", []),
        (["g4dn.12xlarge"], 2, "auto", "auto", ["EFA (g4dn.12xlarge): unknown", "one placement"]),
        (["g4dn.12xlarge"], 2, "on", "on", []),
        (["g4dn.xlarge"], 2, "auto", "on", []),
        (["g4dn.xlarge"], 2, "on", "on", ["EFA is on, but g4dn.xlarge does not offer it"]),
        (["g4dn.xlarge"], 2, "off", "off", ["caps a flow at 5 Gbit/s"]),
    ],
)
def test_network_notes(names, vms, efa, group, words):
    notes = network_notes(offers(*names), vms, efa=efa, placement_group=group)
    assert len(notes) == len(words)
    for note, word in zip(notes, words, strict=True):
        assert word in note


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["g4dn.xlarge", "g4dn.12xlarge"], []),
        (["g4dn.xlarge", "p3.2xlarge"], ["GPU architectures differ (T4: Turing, V100: Volta)"]),
        (["p3.2xlarge", "p3dn.24xlarge"], ["GPU models differ (V100: Volta, V100-32GB: Volta)"]),
        (["g5.xlarge", "g4dn.xlarge"], ["CPU vendors differ (amd, intel)", "A10G: Ampere"]),
        (["g4dn.xlarge", "lab"], ["GPU architectures differ (Q9, T4: Turing)"]),
    ],
)
def test_mixed_hosts(names, words):
    warnings = mixed_host_warnings(offers(*names))
    assert len(warnings) == len(words)
    for warning, word in zip(warnings, words, strict=True):
        assert word in warning
