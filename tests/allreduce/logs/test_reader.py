"""Logs of every era, in every wrapping: the same rows come out."""

import random
import textwrap
from dataclasses import replace

import pytest

from srifty.allreduce.logs import read_log
from srifty.core.allreduce import Collective
from srifty.errors import InputError
from tests.allreduce.logs.written_logs import ERAS, Job, Written, found, row_line, write


def read(text: str, **given):
    return read_log(text.encode(), name="log.txt", **given)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("vms", "gpus"), [(1, 4), (2, 8), (3, 1), (1, 2)])
def test_every_era(era, vms, gpus):
    written = write(Job(era=era, vms=vms, gpus=gpus, checked=gpus != 1))
    log = read(written.text)
    assert found(log) == written.truth
    assert log.dropped == ()
    assert log.world_size == vms * gpus
    assert log.world_size_from == f"{vms * gpus} rank lines"
    assert log.vms == (1 if era == "nccl1" else vms)
    assert log.complete
    assert log.warnings == ()
    assert log.lines == len(written.rows)
    assert {row.collective for row in log.rows} == {Collective.ALL_REDUCE}
    assert {row.dtype for row in log.rows} == {"float"}
    assert {row.run for row in log.rows} == {"0"}
    lines = written.text.split("\n")
    assert all(str(row.size_bytes) in lines[row.line - 1] for row in log.rows)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("dtype", ["half", "bfloat16", "double", "char"])
def test_other_types(era, dtype):
    written = write(Job(era=era, dtype=dtype))
    if era in ("nccl1", "2018", "2019"):
        exact = {"double": "2e-16", "char": "0e+00"}.get(dtype, "1e-03")
        written.lines = [line.replace("2e-07", exact) for line in written.lines]
    assert found(read(written.text)) == written.truth


@pytest.mark.parametrize("era", ERAS)
def test_without_any_header_the_arithmetic_finds_the_columns_and_the_world(era):
    written = write(Job(era=era, vms=1, gpus=8, rate_gbps=150.0))
    rows = [row_line(written.job, row) for row in written.rows]
    log = read("\n".join(rows) + "\n")
    assert found(log) == written.truth
    assert (log.world_size, log.world_size_from) == (8, "busbw/algbw")
    assert log.vms is None
    assert not log.complete


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_a_time_of_day_after_each_row(era):
    written = write(Job(era=era, timestamps=True))
    assert found(read(written.text)) == written.truth
    headless = "\n".join(written.lines[written.first_row :])
    assert found(read(headless)) == written.truth


def test_an_unreported_check_is_fine():
    written = write(Job(checked=False))
    assert found(read(written.text)) == written.truth


PLAIN = write(Job(era="2019"))


def each(change):
    return lambda lines: [change(line) for line in lines]


def tagged(line):
    return f"[1,0]<stdout>:{line}"


def tagged_inside(line):
    middle = len(line) // 2
    return f"[1,0]<stdout>:{line[:middle]}[1,0]<stdout>:{line[middle:]}"


def colored(line):
    return f"\x1b[90m{line[:50]}\x1b[1;32m{line[50:]}\x1b[0m"


def torn_colors(line):
    return f"[90m{line[:56]}[1;32m{line[56:]}[0m"


WRAPPINGS = {
    "rank tags": each(tagged),
    "rank tags inside": each(tagged_inside),
    "tags of Open MPI 5": each(lambda line: f"[prterun-vm-0-77@1,0]<stdout>: {line}"),
    "escaped tags": each(lambda line: f"[1,0]&lt;stdout&gt;:{line}"),
    "srun -l": each(lambda line: f" 0: {line}"),
    "brackets": each(lambda line: f"[0] {line}"),
    "host": each(lambda line: f"node-1: {line}"),
    "pod": each(lambda line: f"[pod/launcher-x2k9p/nccl] {line}"),
    "container engine": each(lambda line: f"2024-04-29T18:41:24.123456789Z stdout F {line}"),
    "time": each(lambda line: f"2024-04-29 18:41:24,123 {line}"),
    "compose": each(lambda line: f"worker-0  | {line}"),
    "JSON log": each(lambda line: f'{{"log":"{line}\\n","stream":"stdout","time":"2024"}}'),
    "Ray": each(lambda line: f"(worker pid=991, ip=10.0.0.4) {line}"),
    "quote": each(lambda line: f"> {line}"),
    "quote of a quote": each(lambda line: f"> > {line}"),
    "indent": each(lambda line: f"\t    {line}"),
    "fence": lambda lines: ["```console", *lines, "```"],
    "Markdown table": each(lambda line: "| " + " | ".join(line.split()) + " |"),
    "tabs": each(lambda line: "\t".join(line.split())),
    "single blanks": each(lambda line: " ".join(line.split())),
    "no-break spaces": each(lambda line: line.replace("  ", "\xa0 ")),
    "trailing blanks": each(lambda line: f"{line}   \t"),
    "colors": each(colored),
    "torn colors": each(torn_colors),
    "blank lines": lambda lines: [part for line in lines for part in (line, "")],
    "no comment marks": each(lambda line: line.lstrip("#")),
    "rows commented": each(lambda line: f"#{line}" if "float" in line else line),
    "messages between": lambda lines: [
        part
        for line in lines
        for part in (line, "vm-1:77:81 [3] NCCL INFO Channel 02 : 3[901d0] -> 2[901c0] via P2P/IPC")
    ],
    "a message before the row": each(
        lambda line: (
            f"vm-0:26:26 [0] NCCL INFO Launch mode Parallel{line}" if "float" in line else line
        )
    ),
    "a message after the row": each(
        lambda line: (
            f"{line}vm-0:26:26 [0] NCCL INFO Channel 00/02 : 0 1" if "float" in line else line
        )
    ),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrappings_change_nothing(wrapping):
    text = "\n".join(WRAPPINGS[wrapping](PLAIN.lines)) + "\n"
    log = read(text)
    plain = read(PLAIN.text)
    assert found(log) == PLAIN.truth
    assert (log.world_size, log.vms, log.complete) == (plain.world_size, plain.vms, True)
    assert log.gpu == plain.gpu
    assert log.dropped == ()


ENCODINGS = {
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "BOM": lambda text: text.encode("utf-8-sig"),
    "UTF-16 with a mark": lambda text: text.encode("utf-16"),
    "UTF-16-LE": lambda text: text.encode("utf-16-le"),
    "UTF-16-BE": lambda text: text.encode("utf-16-be"),
    "Latin-1": lambda text: text.replace("Tesla", "Tésla").encode("latin-1"),
    "terminal line ends": lambda text: text.replace("\n", "\r\r\n").encode(),
    "no last line end": lambda text: text.rstrip("\n").encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_change_nothing(encoding):
    log = read_log(ENCODINGS[encoding](PLAIN.text), name="log.txt")
    assert log.rows == read(PLAIN.text).rows


def test_grouped_digits_and_exponents():
    written = write(Job(era="2019", sizes=(4096, 1048576, 1073741824)))
    lines = [
        line.replace("1048576", "1,048,576").replace("1073741824", "1.073741824e+09")
        for line in written.lines
    ]
    assert found(read("\n".join(lines))) == written.truth


def test_an_inexact_size_is_refused():
    written = write(Job(era="2019", sizes=(4096, 1073741824)))
    log = read(written.text.replace("  1073741824  ", "  1.0737e+09  "))
    assert log.lines == 1
    assert "contradicts the count" in log.dropped[0].reason


def one_half(written: Written, half: int) -> str:
    """Returns a log that has only one half of each row."""
    lines = []
    for line in written.lines:
        words = line.split()
        if len(words) > 10 and "out-of" not in line and "(B)" not in line and words[0] != "#":
            words = words[:4] + words[4 + 4 * half : 8 + 4 * half]
        elif "size" in words:
            words = words[:9]
        elif "out-of-place" in line:
            words = ["#", ("out-of-place", "in-place")[half]]
        lines.append("  ".join(words))
    return "\n".join(lines)


@pytest.mark.parametrize("half", [0, 1])
def test_tables_with_one_half(half):
    log = read(one_half(PLAIN, half))
    assert found(log) == [one for one in PLAIN.truth if one[1] == (half == 1)]


def test_a_blank_out_of_place_half_leaves_the_in_place_one():
    rows = []
    for row in PLAIN.rows:
        line = row_line(PLAIN.job, replace(row, halves=(row.halves[1],)))
        rows.append(line[:44] + " " * 32 + line[44:])
    log = read("\n".join(rows), world_size=16)
    assert found(log) == [one for one in PLAIN.truth if one[1]]


@pytest.mark.parametrize("size", [0, 1, -8])
def test_impossible_world_sizes(size):
    with pytest.raises(InputError, match="--world-size must be at least 2"):
        read(PLAIN.text, world_size=size)


def test_impossible_vms():
    with pytest.raises(InputError, match="number of VMs must be at least 1"):
        read(PLAIN.text, vms=0)


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b\x08\x00abc", b"PK\x03\x04", b"\x89PNG\0\0\0", b"\x7fELF\x02"]
)
def test_what_is_no_text(data):
    with pytest.raises(InputError, match=r"log\.txt: is not text"):
        read_log(data, name="log.txt")


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "{}", "size count", "[1,0]<stdout>:"])
def test_a_text_without_rows_has_none(text):
    log = read(text)
    assert (log.rows, log.dropped, log.world_size, log.complete) == ((), (), None, False)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_cut_anywhere_keeps_its_whole_rows(seed):
    draw = random.Random(seed)
    written = write(Job(era=draw.choice(ERAS), seed=seed))
    start = written.text.index(written.lines[written.first_row])
    cut = draw.randrange(start, len(written.text))
    log = read(written.text[:cut])
    whole = written.text[:cut].count("\n") - written.first_row
    # A row that lacks but its line end is whole too.
    assert len(log.rows) // 2 - min(whole, len(written.rows)) in (0, 1)
    assert found(log) == written.truth[: len(log.rows)]
    assert not log.complete or "Avg" in written.text[:cut]


def test_the_readers_own_words_are_kept_short():
    log = read(PLAIN.text.replace("float", "f" + "x" * 300))
    assert log.rows == ()
    assert all("no element type" in dropped.reason for dropped in log.dropped)


def test_docstring_example_of_a_readme():
    text = textwrap.dedent("""\
        Our result on two machines:

            $ mpirun -np 16 -x NCCL_ALGO=Ring ./build/all_reduce_perf -b 8 -e 1G -f 2
            ...
            #       size         count      type   redop     time   algbw   busbw  error
            #        (B)    (elements)                       (us)  (GB/s)  (GB/s)
            ...
               536870912     134217728     float     sum    24401   22.00   41.25  5e-07
              1073741824     268435456     float     sum    47360   22.67   42.51  5e-07
            # Avg bus bandwidth    : 11.2432

        which is fine.
        """)
    log = read(text)
    assert [row.line for row in log.rows] == [8, 9]
    assert (log.world_size, log.config) == (16, "NCCL_ALGO=Ring")
    assert any("11.2432" in warning for warning in log.warnings)
