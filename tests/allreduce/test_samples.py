import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.allreduce import builtin_samples, read_samples
from srifty.allreduce.samples import parse_samples, write_samples
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError
from tests.allreduce.strategies import samples as any_samples

HEADER = "instance_type,nodes,world_size,size_bytes,time_us"


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "samples.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_all_columns(tmp_path):
    path = written(
        tmp_path,
        f"{HEADER},cloud,transport,nccl_version,source,config\n"
        "g4dn.8xlarge,2,2,4096,75.97,aws,efa,2.18,a log,whatever\n",
    )
    (sample,) = read_samples(path)
    assert sample.instance_type == "g4dn.8xlarge"
    assert (sample.vms, sample.world_size, sample.size_bytes) == (2, 2, 4096)
    assert sample.time_s == pytest.approx(75.97e-6, rel=1e-12)
    assert (sample.cloud, sample.transport, sample.library_version) == ("aws", "efa", "2.18")
    assert sample.source == "a log"


def test_the_required_columns_are_enough_in_any_order(tmp_path):
    path = written(tmp_path, "time_us,size_bytes,world_size,nodes,instance_type\n10,8,4,2,a1.x\n")
    (sample,) = read_samples(path)
    assert (sample.instance_type, sample.vms, sample.world_size) == ("a1.x", 2, 4)
    assert sample.transport == sample.cloud == ""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path, ending):
    path = written(tmp_path, ending.join([HEADER, "a1.x,2,2,1024,50", ""]), "utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert len(read_samples(path)) == 1


def test_every_bad_row_is_reported_with_file_and_line(tmp_path):
    path = written(
        tmp_path,
        f"{HEADER}\n"
        "a1.x,2,2,1024,50\n"
        "a1.x,two,2,1024,50\n"  # line 3
        "a1.x,2,1,1024,50\n"  # line 4: one rank exchanges nothing
        "a1.x,2,2,1024,-1\n"  # line 5
        "a1.x,2,2,1024\n"  # line 6: too short
        "a1.x,4,2,1024,50\n"  # line 7: more VMs than ranks
        "a1.x,2,2,1024,nan\n",  # line 8
    )
    with pytest.raises(InputError) as caught:
        read_samples(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    for number, line in enumerate(lines, start=3):
        assert line.startswith(f"{path}: line {number}: ")
    assert "'two'" in lines[0]
    assert "world_size" in lines[1]
    assert "time_us" in lines[2]
    assert caught.value.source == str(path)


def test_many_bad_rows_are_cut_short(tmp_path):
    path = written(tmp_path, HEADER + "\n" + "a1.x,2,2,x,50\n" * 50)
    with pytest.raises(InputError) as caught:
        read_samples(path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert "30 more bad rows" in lines[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instance_type,nodes,world_size\n", r"lacks the column\(s\) size_bytes, time_us"),
        ("", r"lacks the column\(s\)"),
        (HEADER + "\n", "has no rows"),
    ],
)
def test_a_file_without_columns_or_rows_is_named(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_samples(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent.csv", "there is no such file; a CSV file of allreduce samples"),
        (".", "cannot be read"),
        ("latin.csv", "is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, words):
    (tmp_path / "latin.csv").write_text(f"{HEADER}\nµ", encoding="latin-1")
    with pytest.raises(InputError, match=words) as caught:
        read_samples(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_the_built_in_samples_state_their_source():
    samples = builtin_samples()
    assert len(samples) > 200
    assert all(sample.source for sample in samples)
    assert all(sample.cloud for sample in samples)
    assert all(sample.bus_bytes_per_s < 1e12 for sample in samples)


PUBLIC = Path(__file__).parents[2] / "shared" / "data" / "nccl-tests" / "allreduce.csv"
if not PUBLIC.exists():
    PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "nccl-tests" / "allreduce.csv"


def parsed(row, columns=HEADER, **given):
    return parse_samples(f"{columns}\n{row}\n", "x.csv", given)


def reason(row, columns=HEADER, **given):
    outcome = parsed(row, columns, **given)
    assert outcome.samples == ()
    (dropped,) = outcome.dropped
    assert dropped.line == 2
    return dropped.reason


def test_every_column_of_the_contract():
    columns = (
        "cloud,instance_type,gpu,nodes,gpus_per_node,world_size,nccl_version,size_bytes,time_us,"
        "collective,region,zone,transport,dtype,inplace,config,run,concurrent,measured_at,"
        "placement_group,source"
    )
    row = (
        "aws,p4d.24xlarge,A100,2,8,16,2.18.5,1024,64.5,all_gather,us-east-1,use1-az1,efa,float,"
        "true,NCCL_ALGO=Ring,3,2,2026-07-20,0,a probe"
    )
    (sample,) = parsed(row, columns).samples
    assert sample == AllreduceSample(
        "p4d.24xlarge", 2, 16, 1024, 64.5e-6, "aws", "efa", "2.18.5", "a probe",
        Collective.ALL_GATHER, "A100", "us-east-1", "use1-az1", "NCCL_ALGO=Ring", "3", "float",
        True, 2, False, datetime(2026, 7, 20, tzinfo=UTC),
    )  # fmt: skip


@given(st.lists(any_samples(), max_size=5))
@settings(deadline=None)
def test_what_is_written_is_read_back_equal(samples):
    file = io.StringIO(newline="")
    assert write_samples(samples, file) == len(samples)
    again = parse_samples(file.getvalue(), "x.csv")
    assert again.dropped == ()
    assert again.samples == tuple(samples)


@given(st.floats(1e-6, 1e6))
@settings(deadline=None)
def test_every_float_of_a_time_survives(time_s):
    sample = AllreduceSample("a1.x", 2, 2, 1, time_s)
    file = io.StringIO(newline="")
    write_samples([sample], file)
    (again,) = parse_samples(file.getvalue(), "x.csv").samples
    assert again.time_s == time_s


@pytest.mark.parametrize(
    ("field", "text"), [("config", "a\nb"), ("run", " 1"), ("source", "a\tb"), ("zone", "a\u2028b")]
)
def test_a_text_that_a_csv_file_would_change_is_refused(field, text):
    sample = replace(AllreduceSample("a1.x", 2, 2, 1, 1.0), **{field: text})
    with pytest.raises(InputError, match=f"{field} must be one line"):
        write_samples([sample], io.StringIO())


def test_a_row_that_is_bad_costs_itself_alone():
    text = (
        f"{HEADER}\n"
        "a1.x,2,2,1024,50\n"
        '"a1.x,2,2,1024,50\n'  # a quote that never closes
        "\n"
        "a1.x,2,2,1024,50,6\n"
        "a1.x,2,2,2048,60\n"
    )
    outcome = parse_samples(text, "x.csv")
    assert [sample.size_bytes for sample in outcome.samples] == [1024, 2048]
    assert [row.line for row in outcome.dropped] == [3, 5]
    assert "quote" in outcome.dropped[0].reason
    assert "more cells" in outcome.dropped[1].reason


@pytest.mark.parametrize(
    ("more", "value", "words"),
    [
        ("gpus_per_node", "4", "nodes x gpus_per_node = 2 x 4 is 8, but world_size is 2"),
        ("gpus_per_node", "one", "gpus_per_node must be a whole number, not 'one'"),
        ("inplace", "yes", "inplace must be 0, 1, true or false, not 'yes'"),
        ("placement_group", "2", "placement_group must be 0, 1, true or false"),
        ("collective", "broadcast", "must be one of all_reduce, all_gather, reduce_scatter"),
        ("measured_at", "yesterday", "measured_at must be an ISO 8601 date"),
        ("measured_at", "0001-01-01T00:00:00+14:00", "out of range"),
        ("concurrent", "0", "concurrent must be"),
        ("algbw_gbps", "0.02148", "algbw_gbps is 0.02148, but size and time give 0.02048"),
        ("busbw_gbps", "20.48", "busbw_gbps is 20.48, but size and time give 0.02048"),
        ("busbw_gbps", "nan", "busbw_gbps must be a number"),
    ],
)
def test_optional_columns_are_checked(more, value, words):
    assert words in reason(f"a1.x,2,2,1024,50,{value}", f"{HEADER},{more}")


@pytest.mark.parametrize("printed", ["0.02", "0.0205", "2.048e-02", "0.0"])
def test_a_bandwidth_agrees_within_its_rounding(printed):
    assert parsed(f"a1.x,2,2,1024,50,{printed}", f"{HEADER},busbw_gbps").samples


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a1.x,2,2,1000000000,0.05", "more than any hardware moves"),
        ("a1.x,2,2,1024,0", "time_us must be above 0"),
        ("a1.x,2,2,1024,1e999", "time_us must be a number"),
        ("a1.x,2,2,1024,1e-999", "time_us must be above 0"),
        ("a1.x,2,2,1_024,50", "size_bytes must be a whole number"),
        ("a1.x,2,2,1024,5_0", "time_us must be a number"),
        ("a1.x,2,2,--1,50", "size_bytes must be a whole number"),
        (",2,2,1024,50", "instance_type is empty"),
    ],
)
def test_rows_against_physics_are_refused(row, words):
    assert words in reason(row)


def test_times_with_and_without_a_zone():
    columns = f"{HEADER},measured_at"
    for text, moment in (
        ("2026-07-20", datetime(2026, 7, 20, tzinfo=UTC)),
        ("2026-07-20T10:30:00", datetime(2026, 7, 20, 10, 30, tzinfo=UTC)),
        ("2026-07-20T10:30:00+02:00", datetime(2026, 7, 20, 8, 30, tzinfo=UTC)),
    ):
        (sample,) = parsed(f"a1.x,2,2,1024,50,{text}", columns).samples
        assert sample.measured_at == moment
    zone = timezone(timedelta(hours=2))
    sample = replace(sample, measured_at=datetime(2026, 7, 20, tzinfo=zone))
    file = io.StringIO(newline="")
    write_samples([sample], file)
    assert parse_samples(file.getvalue(), "x.csv").samples == (sample,)


def test_what_was_given_fills_empty_cells_and_must_not_contradict():
    columns = "nodes,world_size,size_bytes,time_us,zone"
    (sample,) = parsed("2,2,1024,50,", columns, instance_type="a1.x", zone="z1").samples
    assert (sample.instance_type, sample.zone) == ("a1.x", "z1")
    words = reason("2,2,1024,50,z2", columns, instance_type="a1.x", zone="z1")
    assert words == "zone is 'z2', but 'z1' was given"


def test_progress_of_long_files():
    told = []
    text = f"{HEADER}\n" + "a1.x,2,2,1024,50\n" * 12_000
    parse_samples(text, "x.csv", progress=lambda *counts: told.append(counts))
    assert told == [(5000, 12_002), (10_000, 12_002)]


def test_a_column_that_stands_twice_is_named():
    with pytest.raises(InputError, match=r"time_us twice"):
        parse_samples(f"{HEADER},time_us\n", "x.csv")


@pytest.mark.skipif(not PUBLIC.exists(), reason="no ../shared/data here")
def test_the_public_measurements_read_whole():
    samples = read_samples(PUBLIC)
    assert len(samples) == 3870
    assert sum(sample.in_place for sample in samples) == 1935
    assert len({sample.instance_type for sample in samples}) == 12
