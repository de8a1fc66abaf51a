"""Damaged logs, and a second opinion on what was read from them, sharing no code with the reader.

`damaged` breaks a log in one to four ways that occur in life; `violations` looks up each accepted
row in the text that it claims to come from, takes the printed figures there as exact fractions, and
says where size, time, bandwidths and number of ranks do not belong together.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from srifty.core.allreduce import Collective
from tests.allreduce.logs.written_logs import ERAS, Job, report, write

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][+-]?\d+)?")
NOISE = re.compile(
    r"\x1b\[[0-9;]*m|\[(?:\d{1,3};)*\d{1,3}m|\[[^\[\]\s]*\d+,\s?\d+\]<std(?:out|err)>:"
)
UNITS = (Fraction(1, 10**6), Fraction(1, 1000), Fraction(1))
GLUE = (
    "vm-0:26:26 [0] NCCL INFO Launch mode Parallel",
    "[1,3]<stdout>:",
    "vm-9:1:2 [3] NCCL INFO comm 0x7f rank 3 nranks 12 cudaDev 3 busId 201d0 - Init COMPLETE",
    "\x1b[31m",
    "...",
    "[1653900000.000001] [vm-1:1001 :0]   sock.c:325  UCX  ERROR connect(fd=40) failed",
    "# Avg bus bandwidth    : 3.5",
    "#   Rank  3 Pid   1001 on       vm-3 device  3 [0x10] Tesla T4",
    "#       size         count    type   redop     time   algbw   busbw  error",
    "# Collective test starting: all_gather_perf",
)


def self_made() -> list[str]:
    """Returns logs of every era and some more, for damaging."""
    sizes = tuple(8 * 4**k for k in range(10))
    logs = [
        write(Job(era=era, vms=vms, gpus=gpus, sizes=sizes, seed=k, rate_gbps=rate)).text
        for k, era in enumerate(ERAS)
        for vms, gpus, rate in ((2, 8, 40.0), (3, 1, 0.6), (1, 8, 200.0))
    ]
    logs += [
        write(Job(era=era, collective=collective, sizes=sizes[2:], seed=7)).text
        for era, collective in (
            ("2025", "all_gather"),
            ("2025", "reduce_scatter"),
            ("2022", "reduce_scatter"),
        )
    ]
    headless = write(Job(era="2019", vms=1, sizes=sizes, seed=8))
    logs.append("\n".join(headless.lines[headless.first_row :]))
    logs.append("\n".join(f"[1,0]<stdout>:{line}" for line in headless.lines))
    logs.append(report(Job(sizes=sizes[:6], seed=9)))
    logs.append(
        "(w pid=1) AllReduce: [[0, 1, 2, 3]]  Bytes: 1.50000 GB  Time: 0.25000 s "
        "Bandwidth: 9.00 GB/s\n"
        "(w pid=1) AllReduce: [[0, 1]]  Bytes: 1.50000 GB  Time: 0.10000 s Bandwidth: 15.00 GB/s\n"
    )
    return logs


def damaged(draw: random.Random, logs: list[str]) -> str:
    """Returns one of the logs with one to four kinds of damage."""
    text = draw.choice(logs)
    for _ in range(draw.randint(1, 4)):
        text = draw.choice(DAMAGES)(draw, text, logs)
    return text


def _cut(draw: random.Random, text: str, logs: list[str]) -> str:
    at = draw.randrange(len(text) + 1)
    return text[:at] if draw.random() < 0.7 else text[at:]


def _digit(draw: random.Random, text: str, logs: list[str]) -> str:
    places = [m.start() for m in re.finditer(r"\d", text)]
    if not places:
        return text
    at = draw.choice(places)
    return text[:at] + draw.choice("0123456789.e-,") + text[at + 1 :]


def _shuffled(draw: random.Random, text: str, logs: list[str]) -> str:
    lines = text.split("\n")
    first = draw.randrange(len(lines))
    part = lines[first : first + draw.randint(2, 12)]
    draw.shuffle(part)
    lines[first : first + len(part)] = part
    return "\n".join(lines)


def _lines_of_another(draw: random.Random, text: str, logs: list[str]) -> str:
    lines, other = text.split("\n"), draw.choice(logs).split("\n")
    for _ in range(draw.randint(1, 8)):
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(other))
    return "\n".join(lines)


def _another_behind(draw: random.Random, text: str, logs: list[str]) -> str:
    other = draw.choice(logs)
    return text + other[draw.randrange(len(other)) :]


def _token(draw: random.Random, text: str, logs: list[str]) -> str:
    words = list(re.finditer(r"\S+", text))
    if not words:
        return text
    word = draw.choice(words)
    kind = draw.randrange(4)
    if kind == 0:
        return text[: word.start()] + text[word.end() :]
    if kind == 1:
        return f"{text[: word.end()]} {word[0]}{text[word.end() :]}"
    if kind == 2:
        return text[: word.start()] + draw.choice(words)[0] + text[word.end() :]
    odd = ("N/A", "nan", "inf", "-1", "0", "1e+00", "9" * 30, "1e999", "prod", "float", "(ms)")
    return text[: word.start()] + draw.choice(odd) + text[word.end() :]


def _glued_rows(draw: random.Random, text: str, logs: list[str]) -> str:
    ends = [m.start() for m in re.finditer("\n", text)]
    if not ends:
        return text
    at = draw.choice(ends)
    return text[:at] + draw.choice(("", " ", "\r")) + text[at + 1 :]


def _interrupted(draw: random.Random, text: str, logs: list[str]) -> str:
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(GLUE) + draw.choice(("", " ", "\n", "\n")) + text[at:]


def _units(draw: random.Random, text: str, logs: list[str]) -> str:
    old, new = draw.choice((("(us)", "(ms)"), ("(us)", "(s)"), ("GB", "MB"), ("float", "half")))
    return text.replace(old, new, draw.choice((1, -1)))


def _column(draw: random.Random, text: str, logs: list[str]) -> str:
    """Scales one column of the whole log, or takes it away."""
    column, factor = draw.randrange(12), draw.choice((0.001, 0.5, 2.0, 1000.0, None))

    def changed(line: str) -> str:
        words = line.split()
        if "float" not in words or len(words) <= column:
            return line
        if factor is None:
            del words[column]
        else:
            try:
                words[column] = f"{float(words[column]) * factor:.2f}"
            except ValueError:
                return line
        return "  ".join(words)

    return "\n".join(changed(line) for line in text.split("\n"))


DAMAGES = (
    _cut,
    _digit,
    _digit,
    _digit,
    _shuffled,
    _lines_of_another,
    _another_behind,
    _token,
    _token,
    _glued_rows,
    _interrupted,
    _interrupted,
    _units,
    _column,
)


def violations(text: str, log) -> list[str]:
    """Returns what is wrong with the rows that were accepted from a text."""
    if "\n" not in text:
        text = text.replace("\r", "\n")
    lines = text.replace("\r", " ").split("\n")
    wrong: list[str] = []
    for row in log.rows:
        if not 1 <= row.line <= row.last_line <= len(lines):
            wrong.append(f"{row}: there is no such line")
        elif row.world_size < 2 or row.time_s < 1e-6:
            wrong.append(f"{row}: too small a world, or too fast")
        elif not any(_holds(row, text) for text in _sources(lines, row)):
            wrong.append(f"{row}: its figures do not agree: {lines[row.line - 1][:300]!r}")
    return wrong


def _sources(lines: list[str], row) -> Iterator[str]:
    """Yields the text that a row claims to come from, put together in each possible way."""
    own = lines[row.line - 1 : row.last_line]
    yield NOISE.sub("", " ".join(own))
    joined = "".join(own)
    yield NOISE.sub("", joined)
    # A message may have cut a number in two: it goes, and nothing takes its place.
    for message in GLUE:
        joined = joined.replace(f"{message} ", "").replace(message, "")
    yield NOISE.sub("", joined)


def _holds(row, source: str) -> bool:
    """Returns whether a text has figures of the row that agree with each other."""
    if "Bytes:" in source:
        return _holds_home_made(row, source)
    printed = NUMBER.findall(source)
    values = [float(text.replace(",", "")) for text in printed]
    if row.size_bytes not in values:
        return False
    far = row.last_line > row.line  # a message may stand between the figures
    for i, value in enumerate(values):
        unit = next((u for u in UNITS if abs(value * float(u) / row.time_s - 1) < 1e-9), None)
        if unit is None:
            continue
        for j in range(i + 1, len(printed) - 1 if far else min(i + 2, len(printed) - 1)):
            for k in range(j + 1, len(printed) if far else j + 2):
                if _agree(row, printed[i], unit, printed[j], printed[k]):
                    return True
    return False


def _agree(row, time: str, unit: Fraction, algbw: str, busbw: str) -> bool:
    low, high = (edge * unit for edge in _edges(time))
    if low <= 0:
        return False
    fastest, slowest = row.size_bytes / low / 10**9, row.size_bytes / high / 10**9
    alg_low, alg_high = _edges(algbw)
    bus_low, bus_high = _edges(busbw)
    n = row.world_size
    factor = Fraction(n - 1, n) * (2 if row.collective is Collective.ALL_REDUCE else 1)
    return (
        slowest <= alg_high
        and fastest >= alg_low
        and max(slowest, alg_low) * factor <= bus_high
        and min(fastest, alg_high) * factor >= bus_low
        and alg_low <= 5000
    )


HOME_MADE = re.compile(
    r"\[\[([\d, ]*)\]\]\s+Bytes:\s+([\d.,]+)\s+(\w+)\s+Time:\s+(\S+)\s+(\w+)\s+"
    r"Bandwidth:\s+(\S+)\s+GB"
)


def _holds_home_made(row, source: str) -> bool:
    return any(_holds_figures(row, *match.groups()) for match in HOME_MADE.finditer(source))


def _holds_figures(row, ids, size, size_unit, time, time_unit, speed) -> bool:
    if len(ids.split(",")) != row.world_size:
        return False
    bytes_per = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}[size_unit]
    unit = {"s": UNITS[2], "ms": UNITS[1], "us": UNITS[0]}[time_unit]
    if not _near(_fraction(time) * unit, row.time_s):
        return False
    slow, fast = (
        a * bytes_per / (b * unit) / 10**9
        for a, b in zip(_edges(size), reversed(_edges(time)), strict=True)
    )
    low, high = _edges(speed)
    n = row.world_size
    return any(slow * f <= high and fast * f >= low for f in (1, Fraction(2 * (n - 1), n)))


@lru_cache(100_000)
def _fraction(text: str) -> Fraction:
    exponent = re.search(r"[eE]([+-]?\d+)", text)
    if exponent and abs(int(exponent[1])) > 30:
        return Fraction(0)
    return Fraction(text.replace(",", "").rstrip(".") if not exponent else text.replace(",", ""))


@lru_cache(100_000)
def _edges(text: str) -> tuple[Fraction, Fraction]:
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = Fraction(51, 100) * Fraction(10) ** (int(exponent or 0) - decimals)
    value = _fraction(text)
    return value - half, value + half


def _near(value: Fraction, seconds: float) -> bool:
    return abs(value - Fraction(seconds)) <= value / 10**9
