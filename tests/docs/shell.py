"""Runs what a page says to type, as a newcomer would, and compares what is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

import srifty
from srifty.cli.main import app

_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_TIME = re.compile(rf"{_NUMBER} (?:ns|µs|ms|s|min|h|d)\b(?: {_NUMBER} (?:s|min|h)\b)*")
_SIZE = re.compile(rf"{_NUMBER} (?:[KMG]i?)?B\b")
_EXPORT = re.compile(r"^export (\w+)=(\S+)$", re.MULTILINE)
_WAIT_S = 180.0


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    shown: str


class Shell:
    """A terminal in an empty folder, whose home is empty as well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.folder.mkdir()
        binaries = folder / "bin"
        binaries.mkdir()
        for name, called in (
            ("srifty", "-m srifty"),
            ("python", ""),
            ("torchrun", "-m torch.distributed.run"),
        ):
            script = binaries / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {called} "$@"\n')
            script.chmod(0o755)
        kept = {"LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH"}
        self._environment = {name: os.environ[name] for name in kept & os.environ.keys()} | {
            "HOME": str(folder),
            "AWS_EC2_METADATA_DISABLED": "true",  # nobody is asked for credentials
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(Path(srifty.__file__).parents[1]),
        }

    def write(self, name: str, text: str) -> None:
        """Saves a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def start(self, typed: str) -> subprocess.Popen[str]:
        """Types a command; both of its streams are shown on the terminal."""
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", typed],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def run(self, typed: str) -> Ended:
        """Types a command and waits for its end; what it exports holds for later ones."""
        for name, value in _EXPORT.findall(typed):
            self._environment[name] = value
        return wait(self.start(typed))

    def wait_for(self, pattern: str, beside: subprocess.Popen[str]) -> None:
        """Waits until a file is there, or the command that makes it has ended."""
        until = time.monotonic() + _WAIT_S
        while not list(self.folder.parent.glob(pattern)) and beside.poll() is None:
            assert time.monotonic() < until, f"no {pattern} within {_WAIT_S:g} s"
            time.sleep(0.1)


def wait(process: subprocess.Popen[str]) -> Ended:
    """Returns how a command ended."""
    try:
        shown, _ = process.communicate(timeout=_WAIT_S)
    finally:
        process.kill()
    return Ended(process.returncode, shown)


def difference(expected: str, shown: str, *, figures_vary: bool) -> str | None:
    """Returns the line of a page that a command no longer prints; None: it prints all.

    Args:
        expected: what the page shows; a line `...` stands for any lines.
        shown: what the command printed.
        figures_vary: whether numbers and the order of lines may differ.
    """
    wanted = [line.rstrip() for line in expected.splitlines()]
    have = [line.rstrip() for line in shown.splitlines()]
    if figures_vary:
        known = {_without_figures(line) for line in have}
        lost = (line for line in wanted if line != "..." and _without_figures(line) not in known)
        return next(lost, None)
    position, anywhere = 0, False
    for line in wanted:
        if line == "...":
            anywhere = True
            continue
        ahead = have[position:] if anywhere else have[position : position + 1]
        if line not in ahead:
            return line
        position += ahead.index(line) + 1
        anywhere = False
    return None if anywhere or not wanted or position == len(have) else have[position]


def brought_up_to_date(expected: str, shown: str) -> str | None:
    """Returns what a page should show: as many lines as before, from where they are now.

    Between two `...`, lines are found by their first one, whatever its numbers are; None: by hand.
    """
    have = shown.splitlines()
    known = [_without_figures(line) for line in have]
    kept: list[str] = []
    for part in re.split(r"^(\.\.\.\n)", expected, flags=re.MULTILINE):
        lines = part.splitlines()
        if part in ("", "...\n"):
            kept += lines
            continue
        first = _without_figures(lines[0])
        if first not in known:
            return shown if "...\n" not in expected else None
        start = known.index(first)
        whole = "...\n" not in expected
        kept += have[start:] if whole else have[start : start + len(lines)]
    return "".join(f"{line}\n" for line in kept)


def _without_figures(line: str) -> str:
    line = re.sub(r"[█▏▎▍▌▋▊▉]", "", line)
    for pattern, name in ((_TIME, "TIME"), (_SIZE, "SIZE"), (re.compile(_NUMBER), "N")):
        line = pattern.sub(name, line)
    return " ".join(re.sub(r"[<>]N", "N", line).split())


def unknown_options(typed: str) -> str | None:
    """Returns what is wrong with the srifty commands in what is typed; None: nothing is."""
    text = typed.replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    for start, word in enumerate(words):
        first = start == 0 or words[start - 1] in {"&&", "||", ";", "|", "-m", "&", "then", "do"}
        if word == "srifty" and (first or "=" in words[start - 1]):
            until = [i for i in range(start, len(words)) if words[i] in {"|", "&&", "&", ">", ";"}]
            problem = _parsed(words[start + 1 : until[0] if until else len(words)])
            if problem:
                return f"srifty {' '.join(words[start + 1 :])}: {problem}"
    return None


def _parsed(arguments: list[str]) -> str | None:
    command: Any = get_command(app)
    context: Any = command.context_class(command, info_name="srifty")
    rest = arguments
    try:
        while hasattr(command, "resolve_command"):
            options, rest, _ = command.make_parser(context).parse_args(args=list(rest))
            if not rest:
                return None if options else "no command"
            _, command, rest = command.resolve_command(context, rest)
            context = command.context_class(
                command, info_name=command.name, parent=context, **command.context_settings
            )
        command.make_parser(context).parse_args(args=list(rest))
    except Exception as error:  # noqa: BLE001 - typer's errors of usage are not public
        return f"{type(error).__name__}: {error}"
    return None
