"""The JSON file that nccl-tests writes since 2025 (`-J`), whole or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from srifty.allreduce.logs.evidence import Facts, RankLine, version_of_code
from srifty.allreduce.logs.json_values import as_list, as_object
from srifty.allreduce.logs.numbers import parse_number, parse_whole
from srifty.allreduce.logs.physics import Half
from srifty.allreduce.logs.reading import Reading, Unread
from srifty.allreduce.logs.rows import ELEMENT_BYTES
from srifty.allreduce.logs.sections import Section
from srifty.errors import InputError

# Numbers stay texts: their printed digits say how far they are rounded.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
_SPACE = re.compile(r"[\s,]*")
_KEY = re.compile(r'[\s,]*"([^"\\]*)"\s*:\s*')


def is_report(text: str) -> bool:
    """Returns whether a text is such a file."""
    start = text[:4096].lstrip()
    return start.startswith("{") and '"version"' in start and '"args"' in text[:65536]


def read_report(text: str, facts: Facts, name: str) -> tuple[Section, list[Reading], list[Unread]]:
    """Returns the table of a JSON file: its surroundings, its rows, and what cannot be read.

    A file whose end is missing yields the rows that are whole.

    Args:
        text: the file's text.
        facts: takes in what the file says about software and network.
        name: the file's name, for messages.

    Raises:
        InputError: an object nests too deeply to be such a file.
    """
    section = Section()
    readings: list[Reading] = []
    unread: list[Unread] = []
    config: dict[str, object] = {}
    try:
        for key, value, at in _members(text):
            line = text.count("\n", 0, at) + 1
            if key == "results":
                row = as_object(value)
                reading = _reading(row, line)
                if isinstance(reading, Reading):
                    readings.append(reading)
                    section.cpu_time |= any("cpu_time" in as_object(half) for half in row.values())
                else:
                    unread.append(reading)
            elif key == "config":
                config = as_object(value)
            elif key == "nccl_version":
                facts.add_version(version_of_code(parse_whole(str(value)) or 0))
            elif key == "args":
                _note_program(section, as_list(value), line)
            elif key == "env":
                _note_environment(facts, as_list(value))
            elif key == "out_of_bounds":
                section.out_of_bounds = parse_whole(str(as_object(value).get("count")))
            elif key == "average_bus_bandwidth":
                section.average = (line, str(as_object(value).get("bandwidth")))
            elif key == "cut":
                section.failure = (line, "the file ends before its JSON does")
    except RecursionError:
        raise InputError("nests too deeply to be a file of nccl-tests", name) from None
    _note_devices(section, facts, config)
    return section, readings, unread


def _members(text: str) -> Iterator[tuple[str, object, int]]:
    """Yields the members of the outermost object; those of `results` one by one.

    Each with the offset where it begins; a last member `cut` stands for a missing end.
    """
    at = text.index("{") + 1
    while True:
        match = _KEY.match(text, at)
        if match is None:
            break
        key, at = match[1], match.end()
        if key == "results" and text.startswith("[", at):
            at += 1
            while text.startswith("{", at := _SPACE.match(text, at).end()):  # pyright: ignore[reportOptionalMemberAccess]
                value, end = _value(text, at)
                if end < 0:
                    yield "cut", None, at
                    return
                yield key, value, at
                at = end
            at += text.startswith("]", at)
            continue
        value, end = _value(text, at)
        if end < 0:
            yield "cut", None, at
            return
        yield key, value, at
        at = end
    if not text.startswith("}", _SPACE.match(text, at).end()):  # pyright: ignore[reportOptionalMemberAccess]
        yield "cut", None, at


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except ValueError:
        return None, -1


def _reading(row: dict[str, object], line: int) -> Reading | Unread:
    size, count = parse_whole(str(row.get("size"))), parse_whole(str(row.get("count")))
    dtype = str(row.get("type"))
    if size is None or count is None or dtype not in ELEMENT_BYTES:
        return Unread(line, "lacks a size, a count or a known type")
    halves: list[Half] = []
    for key in ("out_of_place", "in_place"):
        figures = as_object(row.get(key))
        if not figures:
            continue
        time, algbw, busbw = (
            parse_number(str(figures.get(name)))
            for name in ("cpu_time" if "cpu_time" in figures else "time", "alg_bw", "bus_bw")
        )
        if time is None or algbw is None or busbw is None:
            return Unread(line, f"{key} lacks a time or a bandwidth")
        check = figures.get("nwrong")
        halves.append(
            Half(time, algbw, busbw, "" if check is None else str(check), key == "in_place")
        )
    if not halves:
        return Unread(line, "has neither an out-of-place nor an in-place half")
    part = count * ELEMENT_BYTES[dtype]
    return Reading(
        line=line,
        last_line=line,
        size_bytes=size,
        per_rank=size // part if part and size % part == 0 else 0,
        dtype=dtype,
        redop=str(row.get("redop") or ""),
        root=str(row.get("root") or "").strip(),
        halves=tuple(halves),
    )


def _note_program(section: Section, args: list[object], line: int) -> None:
    program = str(args[0] if args else "").rsplit("/", 1)[-1]
    if "_perf" in program:
        section.program = program.partition("_perf")[0]
        section.program_certain, section.program_line = True, line


def _note_environment(facts: Facts, variables: list[object]) -> None:
    for variable in variables:
        name, _, value = str(variable).partition("=")
        if name.startswith("NCCL_") and value:
            facts.add_setting(name, value)


def _note_devices(section: Section, facts: Facts, config: dict[str, object]) -> None:
    """Takes in who took part: the file names the first GPU of each process only."""
    threads = parse_whole(str(config.get("nthreads"))) or 1
    gpus = parse_whole(str(config.get("ngpus"))) or 1
    section.iterations = parse_whole(str(config.get("iterations")))
    each = threads * gpus
    for entry in as_list(config.get("devices")):
        said = as_object(entry)
        rank = parse_whole(str(said.get("rank")))
        host = str(said.get("hostname") or "")
        if rank is None or not host or each > 64 or rank > 10**6:
            continue
        gpu = str(said.get("device_info") or "")
        device = parse_whole(str(said.get("device"))) or 0
        group = parse_whole(str(said.get("group"))) or 0
        for k in range(each):
            facts.gpus[gpu] += 1
            line = RankLine(1, rank + k, group, str(said.get("pid")), host, device + k, gpu)
            twin = section.devices.setdefault(rank + k, line)
            if twin.place != line.place:
                section.repeated_ranks.append(line)
