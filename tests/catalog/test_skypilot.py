import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.catalog.skypilot import import_skypilot, read_skypilot
from srifty.core.offers import Market
from srifty.errors import InputError
from tests.catalog.skypilot_rows import (
    BASES,
    DATE,
    HEADER,
    KNOWN,
    OURS,
    assert_error_or_right,
    cells,
    imported,
    info,
    line_of,
    mutated_line,
)


def reasons(result):
    return {dropped.reason: dropped.count for dropped in result.dropped}


@pytest.mark.parametrize("base", BASES, ids=lambda base: base[0])
def test_a_right_row_gives_its_two_prices_and_its_type(base):
    result = imported(line_of(base))
    on_demand, spot = result.prices
    assert (on_demand.market, on_demand.zone, on_demand.usd_per_hour) == (
        Market.ON_DEMAND,
        None,
        float(base[6]),
    )
    assert (spot.market, spot.zone, spot.usd_per_hour) == (Market.SPOT, base[9], float(base[7]))
    (kind,) = result.types
    assert kind.gpus == float(base[2])
    assert (base[1], kind.gpu_memory_bytes >> 20) in OURS
    assert kind.gpu == OURS[base[1], kind.gpu_memory_bytes >> 20]
    assert result.dropped == ()
    assert_error_or_right(line_of(base))


def test_v100_and_a100_are_told_apart_by_memory():
    result = imported(
        line_of(cells("a.big", "V100", 8, 96, 32768, "31", "9")),
        line_of(cells("b.big", "A100", 8, 96, 81920, "27", "9")),
    )
    assert [(kind.name, kind.gpu) for kind in result.types] == [
        ("a.big", "V100-32GB"),
        ("b.big", "A100-80GB"),
    ]


def test_v100_without_memory_is_taken_for_a_known_type_only():
    known, unknown = list(BASES[1]), cells("p3.16xlarge", "V100", 8, 64, 16384, "24.48", "7")
    known[5] = unknown[5] = ""
    result = imported(line_of(known), line_of(unknown))
    assert [(kind.name, kind.gpu) for kind in result.types] == [("p3.8xlarge", "V100")]
    assert reasons(result) == {"GpuInfo has no memory that fits the GPU": 1}


def test_case_c01_zero_missing_other_region():
    """Rows A 0.00; B empty; C 0.22 in r1, 0.18 in r2; D only in r2; E without spot price."""

    def row(name, price, spot, region):
        return line_of(cells(name, "T4", 1, 4, 16384, price, spot, "", region))

    result = imported(
        row("a.x", "0.00", "", "us-east-1"),
        row("b.x", "", "", "us-east-1"),
        row("c.x", "0.22", "0.1", "us-east-1"),
        row("c.x", "0.18", "0.1", "us-west-2"),
        row("d.x", "0.30", "0.1", "us-west-2"),
        row("e.x", "0.40", "", "us-east-1"),
    )
    here = {
        (p.instance_type, p.market): p.usd_per_hour for p in result.prices if p.region[3] == "e"
    }
    assert here == {
        ("c.x", Market.ON_DEMAND): 0.22,
        ("c.x", Market.SPOT): 0.1,
        ("e.x", Market.ON_DEMAND): 0.40,
    }
    assert reasons(result)["on-demand: price is zero (sold by reservation only, or unknown)"] == 1
    assert reasons(result)["on-demand: price is missing"] == 1
    assert {kind.name for kind in result.types} == {"c.x", "d.x", "e.x"}


def test_on_demand_is_one_price_for_the_region_but_for_zones_that_differ():
    zones = (("use1-az1", "1.0"), ("use1-az2", "1.0"), ("use1-atl2-az1", "1.3"))
    result = imported(
        *(line_of(cells("g6.x", "L4", 1, 4, 22888, usd, "0.3", zone)) for zone, usd in zones)
    )
    on_demand = [(p.zone, p.usd_per_hour) for p in result.prices if p.market is Market.ON_DEMAND]
    assert on_demand == [(None, 1.0), ("use1-atl2-az1", 1.3)]


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        (0, "", "has no instance type (the price is of the GPU alone)"),
        (0, "p5 48", "instance type is not a name"),
        (1, "Gaudi HL-205", "GPU not known to Srifty: Gaudi HL-205"),
        (2, "0.125", "AcceleratorCount is not a whole number of GPUs"),
        (2, "4.0", "GpuInfo and AcceleratorCount differ in the number of GPUs"),
        (3, "many", "vCPUs is not a whole number"),
        (5, info("H100", 8, 16384), "GpuInfo has no memory that fits the GPU"),
        (5, "{}", "GpuInfo does not state the memory of one GPU"),
        (8, "us east", "Region is not a name"),
        (8, "moon", "Region is not a region of AWS"),
        (8, "us-east-1", "AvailabilityZone is of another region"),
    ],
)
def test_a_row_that_cannot_be_right_is_dropped_with_its_reason(column, text, reason):
    row = list(BASES[5])
    row[column] = text
    result = imported(line_of(BASES[0]), line_of(row))
    assert {p.instance_type for p in result.prices} == {"g4dn.xlarge"}
    (dropped,) = result.dropped
    assert (dropped.reason, dropped.count, dropped.first_lines) == (reason, 1, (3,))


def test_a_row_that_contradicts_a_known_type_is_dropped():
    result = imported(line_of(cells("p3.8xlarge", "V100", 8, 32, 16384, "12.24", "1.4")))
    assert result.prices == ()
    assert list(reasons(result)) == [
        "contradicts what Srifty knows of the type (GPU, their number, or vCPUs)"
    ]


def test_the_minority_of_contradicting_rows_is_dropped_and_a_tie_drops_all():
    right = [line_of(cells("n.x", "T4", 1, 4, 16384, "0.5", "", f"use1-az{i}")) for i in (1, 2)]
    wrong = line_of(cells("n.x", "T4", 2, 4, 16384, "0.5", "", "use1-az4"))
    assert [kind.gpus for kind in imported(*right, wrong).types] == [1]
    assert imported(right[0], wrong).prices == ()


def test_several_prices_for_one_zone_are_all_dropped():
    one = cells("n.x", "T4", 1, 4, 16384, "0.5", "0.2")
    other = cells("n.x", "T4", 1, 4, 16384, "0.5", "0.3")
    result = imported(line_of(one), line_of(other))
    assert [p.market for p in result.prices] == [Market.ON_DEMAND]
    assert reasons(result) == {"spot: several prices for one type and zone": 2}


def test_a_stray_quote_spoils_its_own_row_only():
    result = imported('g4dn.xlarge,"T4,1.0', line_of(BASES[0]))
    assert len(result.prices) == 2
    assert reasons(result) == {"does not have the header's columns": 1}


def test_rows_without_gpus_are_a_gap_not_a_fault():
    result = imported("m5.large,,,2.0,8.0,,0.096,0.03,us-east-1,use1-az1,x86_64")
    (dropped,) = result.dropped
    assert dropped.gap
    assert dropped.reason == "has no GPU"


def test_other_clouds_files_lack_zones_and_write_counts_as_floats():
    lines = [
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,"
        "SpotPrice",
        f'gpu_8x_v100,V100,8.0,92.0,448.0,4.4,us-east-1,"{info("V100", "8.0", 16384)}",',
    ]
    (price,) = import_skypilot(lines, "lambda", DATE, {}).prices
    assert (price.instance_type, price.zone, price.usd_per_hour) == ("gpu_8x_v100", None, 4.4)


def test_gcp_rows_of_a_machine_without_its_gpus_are_not_taken():
    lines = [
        "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,"
        "AvailabilityZone,Price,SpotPrice",
        "a2-highgpu-1g,12.0,85.0,,,,us-central1,us-central1-a,0.73948,0.29576",
        f',,,A100,1.0,"{info("A100", 1, 40960)}",us-central1,us-central1-a,2.93,1.1',
    ]
    result = import_skypilot(lines, "gcp", DATE, {})
    assert result.prices == ()
    assert {d.reason for d in result.dropped} == {
        "has no GPU",
        "has no instance type (the price is of the GPU alone)",
    }


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", HEADER.replace("SpotPrice", "Price")])
def test_another_file_is_an_input_error(tmp_path, text):
    path = tmp_path / "vms.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="no SkyPilot catalog"):
        read_skypilot(path, "aws", DATE, KNOWN)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", None])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, data):
    path = tmp_path / "vms.csv"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=r"vms\.csv"):
        read_skypilot(path, "aws", DATE, KNOWN)


def test_byte_order_mark_and_crlf_do_not_matter(tmp_path):
    path = tmp_path / "vms.csv"
    path.write_bytes(("\ufeff" + HEADER + "\r\n" + line_of(BASES[0]) + "\r\n").encode())
    assert len(read_skypilot(path, "aws", DATE, KNOWN).prices) == 2


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**63))
def test_a_mutated_row_is_an_error_or_right(seed):
    assert_error_or_right(mutated_line(random.Random(seed)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(max_size=120), max_size=6))
def test_any_text_is_an_error_or_dropped(lines):
    assert imported(*lines).prices == ()


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_file_is_an_error_or_dropped(text):
    with contextlib.suppress(InputError):
        assert import_skypilot(text.split("\n"), "aws", DATE, KNOWN).prices == ()


def test_regions_of_other_clouds_have_other_shapes():
    row = cells("Standard_NC4as", "T4", 1, 4, 16384, "0.526", "0.2", "", "eastus")
    result = import_skypilot([HEADER, line_of(row)], "azure", DATE, {})
    assert [(p.region, p.zone) for p in result.prices] == [("eastus", None)] * 2
