"""Fields that the parts of a job file share: durations, points in time, batches, choices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import PlainValidator

from srifty.files._reading import read_count, shown
from srifty.units import parse_duration_s


def _duration(value: Any) -> float:
    if isinstance(value, str):
        return parse_duration_s(value)
    raise ValueError(f"must be a duration with a unit, such as 500s, 90m or 6h, not {shown(value)}")


def _limit(value: Any) -> float:
    seconds = _duration(value)
    if seconds <= 0:
        raise ValueError(f"must be above 0s, not {shown(value)}")
    return seconds


def _mapping_of_counts(value: dict[Any, Any], *keys: str) -> dict[str, int]:
    if set(value) != set(keys):
        raise ValueError(f"must have the keys {' and '.join(keys)}, not {shown(value)}")
    return {key: _count_at(key, value[key]) for key in keys}


def _count_at(key: str, value: Any) -> int:
    try:
        return read_count(value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


@dataclass(frozen=True, slots=True)
class GlobalBatch:
    """A global batch as a file states it.

    Attributes:
        samples: samples of one iteration.
        seq_len: tokens of a sample; None where the file does not say.
    """

    samples: int
    seq_len: int | None


def global_batch(value: Any) -> GlobalBatch:
    """Returns a global batch; raises ValueError with what to write instead."""
    if isinstance(value, int) and not isinstance(value, bool):
        return GlobalBatch(read_count(value), None)
    if isinstance(value, dict) and "sequences" in value:
        counts = _mapping_of_counts(cast("dict[Any, Any]", value), "sequences", "seq_len")
        return GlobalBatch(counts["sequences"], counts["seq_len"])
    if isinstance(value, dict) and "tokens" in value:
        counts = _mapping_of_counts(cast("dict[Any, Any]", value), "tokens", "seq_len")
        sequences, rest = divmod(counts["tokens"], counts["seq_len"])
        if rest or not sequences:
            length = counts["seq_len"]
            near = " or ".join(str(n * length) for n in (sequences, sequences + 1) if n)
            raise ValueError(
                f"{counts['tokens']} tokens are no whole number of sequences of {length} tokens; "
                f"write {near}"
            )
        return GlobalBatch(sequences, counts["seq_len"])
    raise ValueError(
        "must be a number of samples, {sequences: N, seq_len: L} or {tokens: N, seq_len: L}, "
        f"not {shown(value)}"
    )


def choice(kind: type[StrEnum], value: Any) -> StrEnum:
    """Returns the member of an enumeration; raises ValueError with those that there are."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(kind)
        raise ValueError(f"must be one of {names}, not {shown(value)}") from None


def _moment(value: Any) -> datetime:
    try:
        if isinstance(value, date) and not isinstance(value, datetime):
            moment = datetime(value.year, value.month, value.day)
        else:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"must be a point in time, such as 2026-12-24T00:00Z, not {shown(value)}"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


Duration = Annotated[float, PlainValidator(_duration)]
Limit = Annotated[float, PlainValidator(_limit)]
Moment = Annotated[datetime, PlainValidator(_moment)]
