"""A reader who follows a page of the documentation and types what it says.

What a page shows below a command is what the command prints. Comments above a block say what a
reader need not know:

    <!-- figures vary -->          times of this machine: all but the numbers must be printed
    <!-- exit code: 3 -->          of the last command
    <!-- needs: torch -->          and so does what follows it on the page
    <!-- second terminal -->       typed while the block above still runs
    <!-- not run: REASON -->       needs a cloud or a GPU; its srifty commands must parse

`SRIFTY_DOCS_WRITE=1` writes into the pages what the commands print now.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import pytest

from tests.docs.pages import DOCS, Block, blocks_of
from tests.docs.shell import Ended, Shell, brought_up_to_date, difference, unknown_options, wait

PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]
TYPED = {"console", "bash"}
SAID = {"figures vary", "exit code", "needs", "second terminal", "not run"}


def chapters(*, with_torch: bool) -> list:
    """Returns what is to be followed, block by block: (page, number of the block).

    Args:
        with_torch: whole pages, of those that need torch somewhere; else all pages up to there.
    """
    found = []
    for page in PAGES:
        blocks = blocks_of(page.read_text(encoding="utf-8"))
        needing = [n for n, block in enumerate(blocks) if block.said.get("needs") == "torch"]
        end = len(blocks) if with_torch else min(needing, default=len(blocks))
        for number, block in enumerate(blocks[:end] if needing or not with_torch else ()):
            if block.language in TYPED or block.title:
                found.append(pytest.param(page, number, id=f"{page.stem}:{block.line}"))
    return found


@dataclass
class Session:
    """A reader who follows one page."""

    page: Path
    shell: Shell
    blocks: list[Block]
    missing: str = ""
    running: list[tuple[Block, str, str, Popen[str]]] = field(default_factory=list)


class Sessions:
    """The readers of all pages."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._open: dict[Path, Session] = {}

    def of(self, page: Path) -> Session:
        """Returns the reader of a page, who is where the test before left it."""
        if page not in self._open:
            shell = Shell(self._factory.mktemp(page.stem))
            self._open[page] = Session(page, shell, blocks_of(page.read_text(encoding="utf-8")))
        return self._open[page]

    def end(self) -> None:
        """Ends what a failed test left running."""
        for session in self._open.values():
            for *_, process in session.running:
                process.terminate()


def follow(session: Session, number: int) -> None:
    """Does what a block says, and checks what comes of it."""
    block = session.blocks[number]
    assert set(block.said) <= SAID
    if "not run" in block.said:
        assert len(block.said["not run"]) > 10, "say why it is not run"
        for typed, _ in block.calls:
            assert unknown_options(typed) is None
        return
    if session.missing:
        pytest.skip(session.missing)
    needed = block.said.get("needs")
    if needed and importlib.util.find_spec(needed) is None:
        session.missing = f"{needed} is not installed"
        pytest.skip(session.missing)
    # Whatever goes wrong here, what follows on the page cannot be judged.
    session.missing = f"line {block.line} of the page went wrong"
    _type(session, number, block)
    session.missing = ""


def _type(session: Session, number: int, block: Block) -> None:
    if block.title and block.language not in TYPED:
        session.shell.write(block.title, block.text)
        return
    *before, last = block.calls
    for typed, shown in before:
        _check(session, block, typed, shown, session.shell.run(typed), 0)
    typed, shown = last
    following = session.blocks[number + 1 : number + 2]
    if following and "second terminal" in following[0].said:
        session.running.append((block, typed, shown, session.shell.start(typed)))
        return
    if "second terminal" in block.said:
        session.shell.wait_for(".local/share/srifty/runs/*/vms/world.json", session.running[0][-1])
    code = int(block.said.get("exit code", 0))
    _check(session, block, typed, shown, session.shell.run(typed), code)
    while session.running:
        earlier, typed, shown, process = session.running.pop()
        _check(session, earlier, typed, shown, wait(process), 0)


def _check(session: Session, block: Block, typed: str, shown: str, ended: Ended, code: int) -> None:
    assert ended.code == code, f"$ {typed}\n{ended.shown}"
    if not shown:
        return
    lost = difference(shown, ended.shown, figures_vary="figures vary" in block.said)
    if lost is not None and os.environ.get("SRIFTY_DOCS_WRITE"):
        now = brought_up_to_date(shown, ended.shown)
        text = session.page.read_text(encoding="utf-8")
        if now is not None and text.count(shown) == 1:
            session.page.write_text(text.replace(shown, now), encoding="utf-8")
            return
    assert lost is None, f"$ {typed}\n{ended.shown}\nnot as on the page: {lost!r}"
