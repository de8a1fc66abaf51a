import pytest

from srifty.errors import InputError
from srifty.files import read_iterations

HEADER = "workload,gpu,instance_type,placement,vms,workers,local_batch,step_s,sync_s,gradient_bytes"


def write(folder, *rows, header=HEADER):
    path = folder / "iterations.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_rows_with_a_placement_and_rows_without(tmp_path):
    file = read_iterations(
        write(
            tmp_path,
            "net,T4,x.large,4-4-2,,,32,0.5,0.1,1000",
            "net,T4,x.large,,4,10,32,0.6,,1000",
            "other,T4,x.large,1,1,1,8,0.2,,",
        )
    )
    assert [row.gpus_used for row in file.observations] == [(4, 4, 2), (3, 3, 2, 2), (1,)]
    assert [row.step_s for row in file.observations] == [0.5, 0.6, 0.2]
    assert file.gradient_bytes == {"net": 1000}
    assert file.spread_rows == 1


def test_iterations_may_have_several_passes(tmp_path):
    header = "gpu,workload,instance_type,local_batch,step_s,placement,accumulation"
    rows = ["T4,net,x,8,0.5,2-2,4", "T4,net,x,8,0.5,1,"]
    first, second = read_iterations(write(tmp_path, *rows, header=header)).observations
    assert (first.accumulation, first.micro_batch) == (4, 2.0)
    assert (second.accumulation, second.micro_batch) == (1, 8.0)
    for bad, message in (
        ("0", "whole number of at least 1"),
        ("9", "accumulation 9 is too many for 8"),
    ):
        with pytest.raises(InputError, match=message):
            read_iterations(write(tmp_path, f"T4,net,x,8,0.5,1,{bad}", header=header))


def test_a_type_has_one_rate_which_the_file_may_state(tmp_path):
    header = "gpu,workload,instance_type,local_batch,step_s,placement,rated_gbit_per_s"
    rows = ["T4,net,x,8,0.5,2-2,12.5", "T4,net,x,8,0.5,1,", "T4,net,y,8,0.5,1,100"]
    file = read_iterations(write(tmp_path, *rows, header=header))
    assert file.rated_gbit_per_s == {"x": 12.5, "y": 100.0}
    with pytest.raises(InputError) as caught:
        read_iterations(write(tmp_path, *rows, "T4,net,x,8,0.5,1,25", header=header))
    assert "line 5: rated_gbit_per_s of x is 25.0 here, but 12.5 before" in str(caught.value)
    for bad in ("0", "fast", "inf"):
        with pytest.raises(InputError, match="rated_gbit_per_s must be Gbit/s above 0"):
            read_iterations(write(tmp_path, f"T4,net,x,8,0.5,1,{bad}", header=header))


def test_few_columns_are_enough_and_others_are_ignored(tmp_path):
    header = "gpu,workload,instance_type,local_batch,step_s,placement,comment"
    file = read_iterations(write(tmp_path, "T4,net,x,8,0.5,2-2,hello", header=header))
    assert file.observations[0].gpus_used == (2, 2)
    assert file.ignored == ("comment",)
    with pytest.raises(InputError, match=r"has the column\(s\) gpu twice"):
        read_iterations(write(tmp_path, header=f"{header},gpu"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",T4,x,1,,,8,0.5,,", "line 2: workload is empty"),
        ("net,,x,1,,,8,0.5,,", "line 2: gpu is empty"),
        ("net,T4,x,,,,8,0.5,,", "line 2: placement is empty; write the GPUs used of each VM"),
        ("net,T4,x,,4,,8,0.5,,", "line 2: workers must be a whole number of at least 1, not ''"),
        ("net,T4,x,,4,3,8,0.5,,", "line 2: 4 vms cannot hold only 3 workers"),
        ("net,T4,x,4/4,,,8,0.5,,", "line 2: placement must be the GPUs used of each VM"),
        ("net,T4,x,4--4,,,8,0.5,,", "line 2: placement must be the GPUs used of each VM"),
        ("net,T4,x,4-0,,,8,0.5,,", "line 2: GPUs used of a VM must be a whole number"),
        ("net,T4,x,4-4,3,,8,0.5,,", "line 2: placement 4-4 has 2 vms, but column vms says 3"),
        ("net,T4,x,4-4,2,7,8,0.5,,", "line 2: placement 4-4 has 8 workers, but column workers"),
        ("net,T4,x,1,,,0,0.5,,", "line 2: local_batch must be a whole number of at least 1"),
        ("net,T4,x,1,,,1.5,0.5,,", "line 2: local_batch must be a whole number of at least 1"),
        ("net,T4,x,1,,,8,,,", "line 2: step_s must be seconds above 0, not ''"),
        ("net,T4,x,1,,,8,-1,,", "line 2: step_s must be seconds above 0, not '-1'"),
        ("net,T4,x,1,,,8,nan,,", "line 2: step_s must be seconds above 0, not 'nan'"),
        ("net,T4,x,1,,,8,0.5,-1,", "line 2: sync_s must be seconds of 0 or more"),
        ("net,T4,x,1,,,8,0.5,,12MB", "line 2: gradient_bytes must be a whole number"),
        ("net,T4", "line 2: placement is empty"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path, row, message):
    with pytest.raises(InputError) as caught:
        read_iterations(write(tmp_path, row))
    assert message in str(caught.value)


def test_all_bad_rows_are_reported_together(tmp_path):
    rows = ["net,T4,x,1,,,8,0.5,,10", "net,T4,x,1,,,8,0,,", "net,T4,x,1,,,8,0.5,,20"]
    with pytest.raises(InputError) as caught:
        read_iterations(write(tmp_path, *rows, *["net,T4,x,1,,,0,1,,"] * 30))
    assert [problem.where for problem in caught.value.problems[:3]] == [
        "line 3",
        "line 4",
        "line 5",
    ]
    assert "gradient_bytes of net is 20 here, but 10 before" in str(caught.value)
    assert "and 12 more bad rows" in str(caught.value)


def test_missing_columns_empty_and_missing_files(tmp_path):
    header = "workload,gpu,local_batch,step_s,vms"
    with pytest.raises(InputError, match=r"lacks the column\(s\) instance_type, placement \(or"):
        read_iterations(write(tmp_path, header=header))
    with pytest.raises(InputError, match="has no rows"):
        read_iterations(write(tmp_path))
    with pytest.raises(InputError, match="there is no such file"):
        read_iterations(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_iterations(tmp_path / "bytes.csv")
