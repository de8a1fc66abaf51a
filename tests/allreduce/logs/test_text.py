import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.allreduce.logs import read_log
from srifty.allreduce.logs.text import bare, before_message, clean_lines, decode
from srifty.errors import InputError


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")))
def test_no_line_is_joined_or_lost(text):
    assert len(clean_lines(text)) == text.count("\n") + 1


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data):
    try:
        log = read_log(data, name="log.txt")
    except InputError:
        return
    assert log.rows == ()


@given(st.text(max_size=60), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_encodings(text, encoding):
    if "\0" not in text:
        assert decode(text.encode(encoding), "x").removeprefix("\ufeff") == text.removeprefix(
            "\ufeff"
        )


@pytest.mark.parametrize(
    ("line", "content"),
    [
        ("[0] 8 2", "8 2"),
        (" 0:     8 2", "8 2"),
        ("> > 8", "8"),
        ("node-1: 8", "8"),
        ("2024-04-29T18:41:24.123Z stdout F   8", "8"),
        ("(w pid=3) 8", "8"),
        ("[2024-04-29 18:41:24] 8", "8"),
        ("8  2", "8  2"),
        ("-1  8", "-1  8"),
        ("", ""),
    ],
)
def test_what_stands_before_the_content(line, content):
    assert bare(line) == content


@pytest.mark.parametrize(
    "message",
    [
        "vm-0:26:26 [0] NCCL INFO Channel",
        "[1653900000.000000] [vm-b:1001 :0]   sock.c:325  UCX  ERROR connect",
        ":26:26 [0] NCCL INFO Channel",
        "[vm-7:04379] 15 more processes have sent help message",
        "NCCL version 2.8.3+cuda11.2",
    ],
)
def test_where_a_message_begins(message):
    assert before_message(f" 8  2 {message}") == " 8  2 "


@pytest.mark.parametrize(
    "line",
    [
        "[" + "1" * 100_000 + " <stdout>",
        "8" * 200_000,
        "8," * 100_000,
        "8 " * 100_000,
        "a" * 200_000 + ":1:2",
        "[" * 100_000,
        "algbw busbw size type " + "(" * 100_000,
        "AllReduce: [" + "[0]   " * 50_000 + " Bytes: 1 GB",
        "AllReduce: [" + "[0]  ,  " * 50_000 + " Bytes: 1 GB",
        "\x1b]" * 100_000,
        "8 2 float sum -1\n" + "1\n" * 50_000,
        "Rank 1 on " * 20_000,
        '{"log":' * 1000,
        "\r" * 100_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_come_to_an_end(line):
    log = read_log(f"{line}\n8 2 float <std".encode(), name="log.txt")
    assert log.rows == ()
