from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.errors import InputError
from srifty.probing.grid import (
    DEFAULT_SIZES,
    Cell,
    ElementType,
    make_cells,
    parse_concurrent,
    parse_sizes,
)
from srifty.units import MIB


def test_the_default_runs_from_4_bytes_to_512_mib_by_doubling():
    sizes = parse_sizes(DEFAULT_SIZES)
    assert sizes[0] == 4
    assert sizes[-1] == 512 * MIB
    assert len(sizes) == 28
    assert all(after == 2 * before for before, after in pairwise(sizes))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4B", (4,)),
        ("3KiB..20KiB", (3072, 6144, 12288)),
        ("1MiB, 4KiB,1MiB", (4096, MIB)),
        ("8B..8B", (8,)),
        ("64GiB", (64 * 1024 * MIB,)),
    ],
)
def test_sizes(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4MB", "4B, 64KiB, 512MiB"),
        ("4", "write a whole number and a unit"),
        ("", "write a whole number and a unit"),
        ("0B", "1 B to 64 GiB"),
        ("65GiB", "1 B to 64 GiB"),
        ("0B..4B", "1 B to 64 GiB"),
        ("8B..4B", "smaller size first"),
        ("4B..8B..16B", "is no size"),
        ("-4B", "is no size"),
    ],
)
def test_wrong_sizes_say_what_to_write(text, words):
    with pytest.raises(InputError, match="--sizes") as raised:
        parse_sizes(text)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "counts"), [("1", (1,)), ("1..4", (1, 2, 3, 4)), ("8,2,2", (2, 8)), ("64", (64,))]
)
def test_concurrent(text, counts):
    assert parse_concurrent(text) == counts


@pytest.mark.parametrize("text", ["0", "65", "1..65", "4..1", "two", "", "1..", "-1..2", "1..1e9"])
def test_wrong_concurrent(text):
    with pytest.raises(InputError, match="--concurrent"):
        parse_concurrent(text)


def test_half_elements_are_refused():
    with pytest.raises(InputError, match="multiples of 4B"):
        make_cells((4, 6), (1,), ElementType.FLOAT32)
    assert make_cells((2, 6), (1,), ElementType.FLOAT16) == (Cell(2), Cell(6))


@given(
    st.lists(st.integers(1, 1000).map(lambda n: 4 * n), min_size=1, max_size=20),
    st.lists(st.integers(1, 8), min_size=1, max_size=5),
)
def test_cells_are_all_pairs_once_ascending(sizes, counts):
    cells = make_cells(sizes, counts, ElementType.FLOAT32)
    assert len(cells) == len(set(sizes)) * len(set(counts))
    assert {(c.size_bytes, c.concurrent) for c in cells} == {(s, c) for s in sizes for c in counts}
    totals = [cell.total_bytes for cell in cells]
    assert totals == sorted(totals)
