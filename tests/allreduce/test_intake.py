import gzip
from datetime import UTC, datetime

import pytest

from srifty.allreduce.dropped import DroppedRow
from srifty.allreduce.intake import Answers, grouped, take_in
from srifty.core.allreduce import Collective
from srifty.errors import InputError
from tests.allreduce.log_text import SIZES, log_text

CSV = b"instance_type,nodes,world_size,size_bytes,time_us\na1.x,2,16,1024,50\n"
P4D = Answers(instance_type="p4d.24xlarge")


def test_a_log():
    answers = Answers(
        instance_type="p4d.24xlarge", cloud="aws", region="us-east-1", zone="use1-az1",
        transport="efa", config="NCCL_ALGO=Ring", placement_group=True,
        measured_at=datetime(2026, 7, 20, tzinfo=UTC),
    )  # fmt: skip
    intake = take_in(log_text().encode(), "nccl.log", answers)
    assert len(intake.samples) == 2 * len(SIZES)
    assert (intake.world_size, intake.vms, intake.gpus_per_vm) == (16, 2, 8)
    assert (intake.library_version, intake.transport) == ("2.18.5", "efa")
    assert (intake.collectives, intake.complete) == ((Collective.ALL_REDUCE,), True)
    for sample in intake.samples:
        assert (sample.instance_type, sample.cloud, sample.region, sample.zone) == (
            "p4d.24xlarge", "aws", "us-east-1", "use1-az1",
        )  # fmt: skip
        assert (sample.transport, sample.config, sample.placement_group) == (
            "efa", "NCCL_ALGO=Ring", True,
        )  # fmt: skip
        assert sample.measured_at == answers.measured_at
    assert intake.file.answers == answers.all()


def test_the_content_is_the_source_not_the_name():
    first = take_in(log_text().encode(), "nccl.log", P4D)
    copy = take_in(log_text().encode(), "copy of nccl.log", P4D)
    other = take_in(log_text(slower=2).encode(), "nccl.log", P4D)
    assert first.samples == copy.samples
    assert first.file.key == copy.file.key != other.file.key
    assert {s.source for s in first.samples}.isdisjoint(s.source for s in other.samples)


def test_a_log_without_an_instance_type_is_kept_under_a_label():
    intake = take_in(log_text().encode(), "nccl.log", Answers())
    assert {s.instance_type for s in intake.samples} == {"unnamed-8xA100-SXM4-40GB"}
    assert any("--instance-type" in warning for warning in intake.warnings)


def test_a_copy_that_an_editor_changed_is_the_same_measurement():
    first = take_in(log_text().encode(), "nccl.log", P4D)
    copy = take_in(log_text().replace("\n", "\r\n").encode("utf-16"), "nccl.txt", P4D)
    assert first.samples == copy.samples


class TestVmsThatTheLogDoesNotShow:
    DATA = log_text(ranks=False).encode()

    def test_from_the_instance_type(self):
        answers = Answers(instance_type="p4d.24xlarge", gpus_per_vm=8)
        intake = take_in(self.DATA, "x", answers)
        assert (intake.world_size, intake.vms, {s.vms for s in intake.samples}) == (16, 2, {2})
        assert any(
            "2 assumed, since p4d.24xlarge has 8 GPUs" in warning for warning in intake.warnings
        )
        answers = Answers(instance_type="g4dn.xlarge", gpus_per_vm=1)
        assert take_in(self.DATA, "x", answers).vms == 16

    def test_as_given(self):
        answers = Answers(instance_type="p4d.24xlarge", gpus_per_vm=8, vms=4)
        intake = take_in(self.DATA, "x", answers)
        assert (intake.vms, intake.gpus_per_vm, intake.warnings) == (4, 4, ())

    def test_of_no_known_type(self):
        intake = take_in(self.DATA, "x", Answers())
        assert intake.vms is None
        assert len(intake.samples) == 8
        with pytest.raises(InputError, match="give --vms N"):
            take_in(self.DATA, "x", Answers(instance_type="mine"))
        with pytest.raises(InputError, match="16 GPUs are no whole number of odd"):
            take_in(self.DATA, "x", Answers(instance_type="odd", gpus_per_vm=3))


def test_more_gpus_than_the_type_has():
    answers = Answers(instance_type="p3.8xlarge", gpus_per_vm=4)
    with pytest.raises(InputError, match="shows 16 GPUs on 2 VM"):
        take_in(log_text().encode(), "x", answers)


def test_only_one_collective():
    data = log_text(collective="all_gather").encode()
    assert take_in(data, "x", P4D).collectives == (Collective.ALL_GATHER,)
    only = Answers(instance_type="p4d.24xlarge", collective=Collective.ALL_REDUCE)
    intake = take_in(data, "x", only)
    assert intake.samples == ()
    assert [row.reason for row in intake.dropped] == [
        "is all_gather, but all_reduce was asked for"
    ] * len(SIZES)
    rows = b"a1.x,2,16,2048,50,all_gather\na1.x,2,16,1024,50,\n"
    header = CSV.splitlines()[0] + b",collective\n"
    intake = take_in(header + rows, "x.csv", Answers(collective=Collective.ALL_REDUCE))
    assert [sample.size_bytes for sample in intake.samples] == [1024]
    assert [row.line for row in intake.dropped] == [2]


def test_a_csv_file():
    intake = take_in(CSV + b"a1.x,2,16,2048\n", "x.csv", Answers(zone="z1"))
    (sample,) = intake.samples
    assert (sample.instance_type, sample.zone, sample.source[:7]) == ("a1.x", "z1", "CSV fil")
    assert [row.line for row in intake.dropped] == [3]
    assert (intake.world_size, intake.vms, intake.complete) == (16, 2, None)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\r\n", b"\n  \n"])
def test_a_csv_file_is_told_by_its_content(start):
    data = start + CSV.replace(b"\n", b"\r\n")
    assert len(take_in(data, "measurements.log", Answers()).samples) == 1


def test_a_csv_file_without_types_takes_the_one_that_is_given():
    data = b"nodes,world_size,size_bytes,time_us\n2,16,1024,50\n"
    assert take_in(data, "x.csv", P4D).samples[0].instance_type == "p4d.24xlarge"
    with pytest.raises(InputError, match="lacks the column\\(s\\) instance_type"):
        take_in(data, "x.csv", Answers())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"SQLite format 3\x00 and so on", "is a database"),
        (gzip.compress(CSV), "unpack it first"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00" * 50, "is not text"),
        (CSV.replace(b",", b";"), "separated by commas"),
        (CSV + b"\xff", "is not UTF-8 text"),
    ],
    ids=["empty", "blank", "store", "gzip", "binary", "semicolons", "latin"],
)
def test_files_of_other_kinds(data, words):
    with pytest.raises(InputError, match=words) as caught:
        take_in(data, "given", Answers())
    assert caught.value.source == "given"


def test_reasons_are_grouped_the_most_frequent_first():
    rows = [DroppedRow(1, "rare"), *(DroppedRow(line, "frequent") for line in range(2, 10))]
    rows += [DroppedRow(20, "one; two; three"), DroppedRow(21, "one; two; four")]
    assert grouped(rows) == [
        "8 x frequent (lines 2, 3, 4, 5, 6, 7, ...)",
        "2 x one; two (lines 20, 21)",
        "rare (line 1)",
        "three (line 20)",
        "four (line 21)",
    ]
