"""One entry for logs of every era: `read_log`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from srifty.allreduce.dropped import DroppedRow
from srifty.allreduce.logs.evidence import Facts
from srifty.allreduce.logs.home_made import read_home_made
from srifty.allreduce.logs.json_report import is_report, read_report
from srifty.allreduce.logs.judge import Asked, Judged, judge
from srifty.allreduce.logs.numbering import Numbering
from srifty.allreduce.logs.parsed import BandwidthAverage, LogRow, ParsedLog
from srifty.allreduce.logs.printed import parse_number
from srifty.allreduce.logs.reading import Reading, Unread, read_rows
from srifty.allreduce.logs.sections import Section, SectionReader
from srifty.allreduce.logs.text import clean_lines, decode
from srifty.errors import InputError

# An average of figures rounded to 0.01 GB/s.
_AVERAGE_TOLERANCE_GBPS = 0.01
# Below this ratio of largest to smallest size a curve says nothing about other sizes.
_NARROW = 4


def read_log(
    data: bytes,
    *,
    name: str,
    world_size: int | None = None,
    vms: int | None = None,
    other_reductions: bool = False,
) -> ParsedLog:
    """Returns what a log of nccl-tests holds: rows that stood every check, and the others.

    Text of every version since the first NCCL's own test is read, and the JSON file of recent
    ones, whatever launchers, terminals and editors did to it. Nothing is taken on trust: each row's
    size, time and bandwidths must agree with each other and with the number of ranks.

    Args:
        data: the file's bytes.
        name: the file's name, for messages and as the samples' source.
        world_size: number of ranks, for a log that does not say; one that contradicts the log
            makes its rows refused.
        vms: number of VMs, for a log that does not say.
        other_reductions: whether to keep rows of other reductions than the sum.

    Raises:
        InputError: the bytes are no text, or the world size or number of VMs is impossible. A log
            without a row to use is no error: see `dropped`.
    """
    if world_size is not None and world_size < 2:
        raise InputError(f"--world-size must be at least 2, not {world_size}")
    if vms is not None and vms < 1:
        raise InputError(f"the number of VMs must be at least 1, not {vms}")
    asked = Asked(world_size, vms, other_reductions)
    text = decode(data, name)
    if is_report(text):
        facts = Facts()
        report, readings, unread = read_report(text, facts, name)
        return _assembled(name, facts, [(report, readings, unread)], [], asked)
    lines = clean_lines(text)
    reader = SectionReader()
    reader.read(lines)
    tables = [
        (s, *read_rows(s.rows, s.layout, in_place_only=s.in_place_only)) for s in reader.sections
    ]
    return _assembled(name, reader.facts, tables, lines, asked)


def _assembled(
    name: str,
    facts: Facts,
    tables: Sequence[tuple[Section, list[Reading], list[Unread]]],
    lines: list[str],
    asked: Asked,
) -> ParsedLog:
    rows: list[LogRow] = []
    dropped: list[DroppedRow] = []
    averages: list[BandwidthAverage] = []
    judgements: list[Judged] = []
    warnings: list[str] = []
    numbering = Numbering()
    for section, readings, unread in tables:
        dropped += [DroppedRow(row.line, row.reason) for row in unread]
        if section.average is not None:
            averages += _average(section, readings)
        if section.reduced is not None:
            warnings.append(f"line {section.reduced[0]}: {section.reduced[1]}")
        if not readings:
            continue
        judged = judge(section, readings, asked, numbering)
        judgements.append(judged)
        rows += judged.rows
        dropped += judged.dropped
        warnings += judged.warnings
        if section.iterations == 1 and judged.rows:
            warnings.append("one iteration per size: times scatter more than usual")
    home_made = read_home_made(lines, asked.world_size, asked.vms, numbering)
    rows += home_made.rows
    dropped += home_made.dropped
    last = next((s for s, readings, unread in reversed(tables) if readings or unread), None)
    worlds = {(row.world_size, row.vms) for row in rows}
    size, shown_vms = next(iter(worlds)) if len(worlds) == 1 else (None, None)
    if len({n for n, _ in worlds}) == 1:
        size = rows[0].world_size
    return ParsedLog(
        name=name,
        rows=tuple(rows),
        dropped=tuple(sorted(dropped)),
        world_size=size,
        world_size_from=_source(judgements, home_made.rows, size),
        world_size_range=_range(judgements, size),
        vms=shown_vms,
        gpu=facts.gpus.most_common(1)[0][0] if facts.gpus else "",
        library_version=facts.versions[0] if facts.versions else "",
        transport=facts.transport(shown_vms),
        settings=dict(sorted(facts.settings.items())),
        config=facts.tuning(),
        complete=last is not None and last.average is not None,
        averages=tuple(averages),
        warnings=tuple(
            dict.fromkeys([*warnings, *_general(rows, facts, averages), *_ending(last)])
        ),
    )


def _average(section: Section, readings: Sequence[Reading]) -> list[BandwidthAverage]:
    """Returns the printed average beside the mean of the rows, where both are known."""
    line, text = section.average or (0, "")
    printed = parse_number(text)
    figures = [half.busbw.value for reading in readings for half in reading.halves]
    if printed is None or not figures:
        return []
    return [BandwidthAverage(line, printed.value, fmean(figures))]


def _source(judgements: Sequence[Judged], home_made: Sequence[LogRow], size: int | None) -> str:
    if size is None:
        return ""
    for judged in judgements:
        if judged.rows and judged.world.size == size:
            return judged.world.source
    return "lists of ranks" if home_made else ""


def _range(judgements: Sequence[Judged], size: int | None) -> tuple[int, int] | None:
    """Returns the world sizes that an undecided log allows, where it excludes any."""
    undecided = [
        j.world.possible for j in judgements if j.world.size is None and j.world.possible.high > 1
    ]
    if size is not None or len(undecided) != 1 or not undecided[0].tells:
        return None
    return undecided[0].low, undecided[0].high


def _general(
    rows: Sequence[LogRow], facts: Facts, averages: Sequence[BandwidthAverage]
) -> list[str]:
    """Returns the warnings that concern a log as a whole."""
    warnings: list[str] = []
    for average in averages:
        off = abs(average.printed_gbps - average.mean_gbps)
        if off > _AVERAGE_TOLERANCE_GBPS + 1e-5 * average.printed_gbps:
            warnings.append(
                f"line {average.line}: the printed average is {average.printed_gbps:g} GB/s, but "
                f"the rows' mean is {average.mean_gbps:.6g}: rows are missing or changed"
            )
    sizes = sorted({row.size_bytes for row in rows})
    if len(sizes) == 1:
        warnings.append(
            f"only one size ({_size(sizes[0])}): too little for a curve, which needs a "
            "small and a large one"
        )
    elif sizes and sizes[-1] < _NARROW * sizes[0]:
        warnings.append(
            f"only sizes from {_size(sizes[0])} to {_size(sizes[-1])}: nothing is known about "
            "others"
        )
    if len({row.world_size for row in rows}) > 1:
        found = ", ".join(str(n) for n in sorted({row.world_size for row in rows}))
        warnings.append(f"tables of different world sizes: {found}")
    if facts.changed_settings:
        warnings.append(
            "settings differ from table to table, but are kept for the file as a whole: "
            + ", ".join(sorted(facts.changed_settings))
        )
    if len(facts.versions) > 1:
        warnings.append(f"several versions of NCCL: {', '.join(facts.versions)}")
    if len(facts.gpus) > 1:
        warnings.append(f"several GPU models: {', '.join(sorted(facts.gpus))}")
    return warnings


def _size(count: int) -> str:
    """Returns a message size in decimal units, as bandwidths are."""
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count:,} B"


def _ending(last: Section | None) -> list[str]:
    """Returns the warning that the last table was not ended, with the message that tells why."""
    if last is None:
        return []
    if last.average is None:
        why = f"; line {last.failure[0]}: {last.failure[1]}" if last.failure else ""
        return [f"the last table has no summary: the run is incomplete{why}"]
    if last.failure is not None:
        return [f"line {last.failure[0]}: {last.failure[1]}"]
    return []
