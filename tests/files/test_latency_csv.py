import pytest

from srifty.errors import InputError
from srifty.files import read_latency_curves

HEADER = "workload,gpu,batch_size,latency_s,forward_s,backward_s\n"


def write(folder, text):
    path = folder / "latencies.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_repeats_are_averaged_and_parts_are_curves_of_their_own(tmp_path):
    rows = "a,T4,8,0.2,0.05,0.15\na,T4,8,0.4,0.05,0.35\na,T4,4,0.1,,\nb,T4,4,0.3,,\n"
    curves = read_latency_curves(write(tmp_path, HEADER + rows))
    found = {(c.workload, c.part): (c.batches, c.latencies_s) for c in curves}
    assert found["a", "iteration"] == ((4, 8), (0.1, pytest.approx(0.3)))
    assert found["a", "backward"] == ((8,), (0.25,))
    assert found["b", "iteration"] == ((4,), (0.3,))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,T4,2", "line 2: latency_s must be seconds above 0, not ''"),
        ("a,T4,2,", "line 2: latency_s must be seconds above 0, not ''"),
        ("a,T4,2,nan", "line 2: latency_s must be seconds above 0, not 'nan'"),
        ("a,T4,0,1", "line 2: batch_size must be a whole number of at least 1, not '0'"),
        ("a,T4,x,1", "line 2: batch_size must be a whole number of at least 1, not 'x'"),
        ("a,T4,2,1,-1", "line 2: forward_s must be seconds above 0, not '-1'"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path, row, message):
    with pytest.raises(InputError) as caught:
        read_latency_curves(write(tmp_path, HEADER + row + "\n"))
    assert message in str(caught.value)


def test_missing_columns_and_empty_files(tmp_path):
    with pytest.raises(InputError, match="lacks the column"):
        read_latency_curves(write(tmp_path, "workload,gpu\n"))
    with pytest.raises(InputError, match="has no rows"):
        read_latency_curves(write(tmp_path, HEADER))
