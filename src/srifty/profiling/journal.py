"""What a profile has measured so far, line by line, so that a killed one goes on (JSON lines)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from srifty.errors import InputError
from srifty.inputs import read_text
from srifty.profiling.outcome import Outcome, Verdict
from srifty.profiling.placement import Scouted
from srifty.profiling.steps import StepTimes
from srifty.profiling.timing import Chunk

_KIND = "journal of a profile"


class Journal:
    """Lines appended to a file, each flushed at once; or none, where nobody asked for a file.

    Args:
        path: the file; None: nothing is kept.
        settings: what the measurements belong to; a file of other settings is refused.
        resume: whether to go on from the file; else it is begun anew.

    Raises:
        InputError: the file cannot be used, or belongs to something else.
    """

    def __init__(
        self, path: Path | None, settings: Mapping[str, Any], *, resume: bool = True
    ) -> None:
        self._path = path
        self._settings = dict(settings)
        self.entries: list[dict[str, Any]] = []
        if path is None:
            return
        if resume and path.exists():
            self.entries = self._read(path)
        if not self.entries:
            self._write([{"settings": self._settings}], mode="w")

    @property
    def resumed(self) -> bool:
        """Whether something was found that need not be measured again."""
        return any(not _is_tried_again(entry) for entry in self.entries)

    @property
    def kept_at(self) -> Path | None:
        """The file with what was measured; None where there is none, or nothing in it."""
        return self._path if self.resumed else None

    def add(self, kind: str, value: Any) -> None:
        """Keeps one finding."""
        self.entries.append({kind: value})
        self._write([{kind: value}], mode="a")

    def last(self, kind: str) -> Any:
        """Returns the newest finding of a kind; None where there is none."""
        return next(reversed(self.all(kind)), None)

    def all(self, kind: str) -> list[Any]:
        """Returns all findings of a kind, the oldest first."""
        return [entry[kind] for entry in self.entries if kind in entry]

    def scouted(self) -> list[tuple[int, Scouted]]:
        """Returns (pass, what was seen) of all scouting."""
        return [_scouted(value) for value in self.all("scouted")]

    def chunks(self) -> list[Chunk]:
        """Returns all timed steps."""
        return [_chunk(value) for value in self.all("chunk")]

    def add_scouted(self, number: int, seen: Scouted) -> None:
        """Keeps what one pass of scouting saw of one size."""
        self.add("scouted", {"pass": number} | asdict(seen))

    def add_chunk(self, chunk: Chunk) -> None:
        """Keeps timed steps."""
        self.add("chunk", asdict(chunk))

    def close(self) -> None:
        """Removes the file: the profile is complete, or nothing stands in it."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self, path: Path) -> list[dict[str, Any]]:
        lines = read_text(path, _KIND).split("\n")
        # A killed process leaves half a line at the end, and nothing else broken.
        whole, half = lines[:-1], lines[-1]
        entries: list[dict[str, Any]] = []
        for number, line in enumerate(whole, start=1):
            try:
                entry: Any = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                entry = None
            if not isinstance(entry, dict):
                raise InputError(
                    f"line {number} is no entry of a {_KIND}; --no-resume begins anew", str(path)
                )
            entries.append(cast("dict[str, Any]", entry))
        if not entries:
            return []
        if entries[0].get("settings") != self._settings:
            raise InputError(
                f"belongs to another profile ({self._differences(entries[0].get('settings'))} "
                "differ); --no-resume begins anew, or choose another output",
                str(path),
            )
        _check(entries[1:], path)
        if half:
            # Cut off in place: writing all of it anew could be killed half-way, too.
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        return entries[1:]

    def _differences(self, kept: Any) -> str:
        """Returns what differs between the settings of the file and those at hand."""
        if not isinstance(kept, dict):
            return "all settings"
        other = cast("dict[str, Any]", kept)
        names = sorted({*other, *self._settings})
        return ", ".join(n for n in names if other.get(n) != self._settings.get(n))

    def _write(self, entries: list[dict[str, Any]], mode: str) -> None:
        if self._path is None:
            return
        try:
            with self._path.open(mode, encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror or error}", str(self._path)
            ) from None


def _is_tried_again(entry: Mapping[str, Any]) -> bool:
    return "trial" in entry and outcome_of(entry["trial"]).verdict.is_tried_again


def _check(entries: list[dict[str, Any]], path: Path) -> None:
    """Refuses entries that nobody but an editor can have written."""
    for number, entry in enumerate(entries, start=2):
        try:
            for kind, value in entry.items():
                _KINDS[kind](value)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise InputError(
                f"line {number} is no entry of a {_KIND}; --no-resume begins anew", str(path)
            ) from None


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """Returns what a trial gave, as an entry `trial` holds it."""
    parts: dict[str, Any] = {**document, "verdict": Verdict(document["verdict"])}
    return Outcome(**parts)


def _scouted(document: Mapping[str, Any]) -> tuple[int, Scouted]:
    seen = Scouted(document["batch"], document["forward_s"], document["backward_s"])
    return int(document["pass"]), seen


def _chunk(document: Mapping[str, Any]) -> Chunk:
    times = tuple(StepTimes(**one) for one in document["times"])
    return Chunk(document["batch"], times, document["wall_s"])


def _chosen(document: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    return tuple(int(batch) for batch in document["batches"]), document["note"]


_KINDS: dict[str, Callable[[Any], object]] = {
    "input": float,
    "trial": outcome_of,
    "scouted": _scouted,
    "chosen": _chosen,
    "chunk": _chunk,
}
