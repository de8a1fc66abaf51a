import pytest

from srifty.allreduce.logs.layout import DEDUCED, read_header, read_unit

RECENT = "#       size         count      type   redop    root"
HALF = "     time   algbw   busbw #wrong"


def test_a_recent_header():
    layout = read_header(RECENT + HALF + HALF)
    assert (layout.width, layout.root, layout.redop, layout.cpu_time) == (9, 0, True, False)
    assert [(g.time, g.algbw, g.busbw, g.check) for g in layout.groups] == [
        (1, 2, 3, 4),
        (5, 6, 7, 8),
    ]
    assert layout.unit_s is None


def test_the_first_header_is_in_milliseconds():
    half = "     time  algbw  busbw      res"
    layout = read_header("#      bytes             N    type      op" + half + half)
    assert (layout.width, layout.root, layout.redop, layout.unit_s) == (8, None, True, 1e-3)


def test_units_in_the_header_itself():
    text = "| size (B) | count | type | redop | time (us) | algbw (GB/s) | busbw (GB/s) |"
    layout = read_header(text)
    assert (layout.width, layout.unit_s, layout.groups[0].check) == (3, 1e-6, None)


def test_unknown_figures_in_both_halves():
    half = "     time   algbw   busbw #wrong   i_min   i_p42"
    assert read_header(RECENT + half + half + "  timestamp").width == 13


@pytest.mark.parametrize(
    "line",
    [
        RECENT + HALF + "   time   algbw",
        RECENT + "     time   algbw   busbw #wr",
        RECENT,
        "algbw and busbw are bandwidths",
        "size time algbw busbw",
        RECENT + HALF * 3,
        "",
    ],
)
def test_no_whole_headers(line):
    assert read_header(line) is None


def test_processor_time():
    assert read_header(RECENT + HALF.replace("   time", "cputime") * 2).cpu_time


@pytest.mark.parametrize(
    ("line", "unit_s"), [("# (B) (us) (GB/s)", 1e-6), ("(ms)", 1e-3), ("(s)", 1.0), ("(B)", None)]
)
def test_units(line, unit_s):
    assert read_unit(line) == unit_s


def test_deduced_layouts_differ():
    assert len(set(DEDUCED)) == len(DEDUCED)
