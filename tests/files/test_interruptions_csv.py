import math

import pytest

from srifty.core.interruptions import InterruptionRate
from srifty.core.supply import InterruptionEntry
from srifty.errors import InputError
from srifty.files import read_job
from srifty.files.interruptions_csv import read_interruptions
from tests.command import job_text, write_job

TRACE = """\
time_s,vm,event
0,a,up
0,b,up
3600,a,lost
7200,a,up
10800,b,down
14400,a,lost
18000,c,up
21600,c,lost
25200,d,up
28800,d,down
"""


def write(folder, text):
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_rate_is_losses_in_vm_hours(tmp_path):
    rate = read_interruptions(write(tmp_path, TRACE))
    # a ran 1 + 2 hours, b 3, c and d one each.
    assert rate.per_hour == pytest.approx(3.5 / 8)
    assert rate.spread == pytest.approx(1 / math.sqrt(3.5))
    assert rate.source == "trace.csv: 3 lost in 8 VM-hours"


def test_vms_that_are_still_up_ran_until_the_last_event(tmp_path):
    text = "time_s,vm,event\n0,a,up\n0,b,up\n36000,b,down\n"
    rate = read_interruptions(write(tmp_path, text))
    assert rate.per_hour == pytest.approx(0.5 / 20)
    assert rate.spread == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time_s,vm\n0,a\n", r"lacks the column\(s\) event"),
        ("time_s,vm,event\n", "no VM ran in it"),
        ("time_s,vm,event\n0,a,up\n", "no VM ran in it"),
        ("time_s,vm,event\nx,a,up\n", "line 2: time_s must be seconds, not 'x'"),
        ("time_s,vm,event\n5,a,up\n4,a,lost\n", "line 3: time_s 4 comes after 5"),
        ("time_s,vm,event\n0,a,gone\n", "line 2: event must be one of up, lost, down, not 'gone'"),
        ("time_s,vm,event\n0,,up\n", "line 2: vm is empty"),
        ("time_s,vm,event\n0,a,lost\n", "line 2: a is lost, but not up"),
        ("time_s,vm,event\n0,a,up\n1,a,up\n", "line 3: a is up, but already up"),
        ("time_s,vm,event\n0\n", "line 2: vm is empty"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_interruptions(write(tmp_path, text))


def stated(folder, rate):
    quota = "{g4dn.xlarge: 4}"
    text = job_text((quota, f"{quota}\n  interruptions: {{g4dn.xlarge: {rate}}}"))
    return read_job(write_job(folder, text)).supply.interruptions


def test_rates_of_a_job_file(tmp_path):
    assert stated(tmp_path, "0.05/h") == (
        InterruptionEntry("g4dn.xlarge", InterruptionRate(0.05, 0.0, "stated in the job")),
    )
    assert stated(tmp_path, "0/h")[0].rate.per_hour == 0
    (entry,) = stated(tmp_path, "0.02 - 0.08/h")
    assert entry.rate.per_hour == pytest.approx(0.04)
    assert entry.rate.range_per_hour == pytest.approx((0.02, 0.08))
    write(tmp_path, TRACE)
    assert stated(tmp_path, "trace.csv")[0].rate.per_hour == pytest.approx(3.5 / 8)


@pytest.mark.parametrize(
    "rate", ["0.05", "often", "-1/h", "0.2-0.1/h", "0-0.1/h", "1e9/h", "9999/h", "[]"]
)
def test_rates_that_are_none_are_refused(tmp_path, rate):
    with pytest.raises(InputError, match=r"offers\.interruptions\.g4dn\.xlarge: must be losses"):
        stated(tmp_path, rate)


def test_a_trace_that_is_not_there_is_said_with_its_key(tmp_path):
    with pytest.raises(InputError, match=r"offers\.interruptions\.g4dn\.xlarge: .*no such file"):
        stated(tmp_path, "missing.csv")


def test_checkpoints_and_detection_of_a_job_file(tmp_path):
    text = job_text(("{launch: 0s}", "{detection: 90s, checkpoint: {every: auto, takes: 4s}}"))
    overheads = read_job(write_job(tmp_path, text)).job.overheads
    assert (overheads.checkpoint_auto, overheads.checkpoint_every) == (True, None)
    assert overheads.recovery_s == 90 + 150 + 0 + 5
