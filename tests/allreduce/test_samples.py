import pytest

from srifty.allreduce import builtin_samples, read_samples
from srifty.errors import InputError

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
