"""A log's lines → its tables, each with its rows and with what was said around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from srifty.allreduce.logs.evidence import (
    Facts,
    RankLine,
    read_iterations,
    read_nnodes,
    read_nranks,
    read_rank,
)
from srifty.allreduce.logs.layout import Layout, read_header, read_unit
from srifty.allreduce.logs.rows import RawRow, RowFinder
from srifty.allreduce.logs.text import bare

_PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|sendrecv|broadcast|reduce|gather|scatter"
    r"|hypercube)(?:_perf|_test)(?:_mpi)?\b(?:\"?,?\s+\"?(-))?"
)
_AVERAGE = re.compile(r"Avg\s+bus\s+bandwidth\s*:?\s*(\S+)")
_OUT_OF_BOUNDS = re.compile(r"Out\s+of\s+bounds\s+values\s*:?\s*(\d+)")
_FAILURES = (
    "test nccl failure",
    "test cuda failure",
    "test failure",
    "segmentation fault",
    "srun: error",
    "mpirun noticed",
    "mpirun detected",
    "cuda error",
    "# error:",
)


@dataclass(slots=True)
class Section:
    """One table with its surroundings.

    Attributes:
        devices: its device list, by rank; inherited where it has none of its own.
        inherited: whether the device list is that of an earlier table.
        repeated_ranks: rank lines that contradict an earlier one of the same list.
        elided: whether `...` stands in or after the device list.
        nranks: sizes of communicators that NCCL's messages name.
        nnodes: numbers of machines that they name.
        program: the collective that was run (`all_gather`), where said.
        program_certain: whether a header or a command says so, not just some text.
        program_line: the line that says so.
        layout: the header's columns; None where there is no header.
        in_place_only: whether the header names the in-place half alone.
        unit_s: seconds per unit of time, where a header line says it.
        iterations: timed iterations, where said.
        cpu_time: whether the times are those of the processor.
        rows: its rows.
        average: line and text of the printed average bus bandwidth.
        out_of_bounds: wrong values that the summary counts; None where it does not say.
        failure: line and text of the first message of a failure.
        reduced: line and text of the message that the maximum was reduced.
    """

    devices: dict[int, RankLine] = field(default_factory=dict[int, RankLine])
    inherited: bool = False
    repeated_ranks: list[RankLine] = field(default_factory=list[RankLine])
    elided: bool = False
    nranks: set[int] = field(default_factory=set[int])
    nnodes: set[int] = field(default_factory=set[int])
    program: str = ""
    program_certain: bool = False
    program_line: int = 0
    layout: Layout | None = None
    in_place_only: bool = False
    unit_s: float | None = None
    iterations: int | None = None
    cpu_time: bool = False
    rows: list[RawRow] = field(default_factory=list[RawRow])
    average: tuple[int, str] | None = None
    out_of_bounds: int | None = None
    failure: tuple[int, str] | None = None
    reduced: tuple[int, str] | None = None

    @property
    def used(self) -> bool:
        """Whether its table has begun."""
        return bool(self.rows) or self.average is not None


class SectionReader:
    """Divides a log into sections, line after line.

    Attributes:
        sections: the sections so far.
        facts: what the log says about software and network.
    """

    def __init__(self) -> None:
        self.facts = Facts()
        self.sections = [Section()]
        self._finder = RowFinder()

    def read(self, lines: Sequence[str]) -> None:
        """Takes in all lines of a log."""
        for number, line in enumerate(lines, 1):
            if not line or line.isspace():
                continue
            rows = self._finder.rows(number, line)
            if rows:
                self._add_rows(rows)
            if "CCL" in line or "ccl-" in line:
                self._note_message(line)
            if not rows:
                self._note(number, line)

    def _add_rows(self, rows: list[RawRow]) -> None:
        section = self.sections[-1]
        if section.average is not None:  # a table without a header after a finished one
            section = self._next()
        section.rows += rows

    def _next(self) -> Section:
        """Begins a section; who took part holds on until another device list appears."""
        last = self.sections[-1]
        section = Section(
            devices=last.devices,
            inherited=bool(last.devices),
            elided=last.elided,
            program=last.program,
            program_line=last.program_line,
            iterations=last.iterations,
        )
        self.sections.append(section)
        self._finder.forget()
        return section

    def _fresh(self) -> Section:
        """Returns the section that a header or a device list belongs to."""
        section = self.sections[-1]
        return self._next() if section.used else section

    def _note_message(self, line: str) -> None:
        self.facts.note(line)
        section = self.sections[-1]
        if (count := read_nranks(line)) is not None:
            if section.average is not None and "estroy" not in line and "bort" not in line:
                section = self._next()
            section.nranks.add(count)
        if (count := read_nnodes(line)) is not None:
            section.nnodes.add(count)

    def _note(self, number: int, line: str) -> None:
        line = line.replace("|", " ")
        lowered = line.lower()
        if "rank" in lowered or "device" in lowered:
            rank = read_rank(number, line)
            if rank is not None:
                self._add_rank(rank)
                return
        if "_perf" in lowered or "_test" in lowered:
            self._note_program(number, line)
        if "algbw" in lowered and "busbw" in lowered:
            layout = read_header(line)
            if layout is not None:
                section = self._fresh()
                section.layout = layout
                section.cpu_time = layout.cpu_time
            return
        section = self.sections[-1]
        if "in-place" in lowered:
            label = bare(lowered)
            if label.startswith(("in-place", "out-of-place")):
                section = self._fresh()
                section.in_place_only = "out-of-place" not in label
        elif "(gb/s)" in lowered:
            section.unit_s = read_unit(lowered) or section.unit_s
        elif "bandwidth" in lowered and (match := _AVERAGE.search(line)) is not None:
            if section.average is None:
                section.average = (number, match[1])
        elif "bounds" in lowered and (match := _OUT_OF_BOUNDS.search(line)) is not None:
            section.out_of_bounds = int(match[1][:18])
        elif "minbytes" in lowered:
            section = self._fresh()
            section.iterations = read_iterations(line)
        elif "reducing maxbytes" in lowered:
            section.reduced = section.reduced or (number, line.strip(" #"))
        elif "..." in line and section.devices and not section.used and not bare(line).strip("."):
            section.elided = True
        elif section.failure is None and any(text in lowered for text in _FAILURES):
            section.failure = (number, line.strip())

    def _add_rank(self, rank: RankLine) -> None:
        section = self._fresh()
        self.facts.gpus[rank.gpu] += 1
        if section.inherited or (section.failure and section.devices):
            section.devices, section.inherited, section.failure = {}, False, None
            section.repeated_ranks = []
        twin = section.devices.setdefault(rank.rank, rank)
        if twin.place != rank.place:
            section.repeated_ranks.append(rank)

    def _note_program(self, number: int, line: str) -> None:
        found = _PROGRAM.findall(line)
        if len({name for name, _ in found}) != 1 or "concluded" in line:
            return
        certain = bool(found[0][1]) or "test starting" in line
        section = self.sections[-1]
        if section.used and not certain:
            return
        section = self._fresh()
        section.program, section.program_certain, section.program_line = (
            found[0][0],
            certain,
            number,
        )
