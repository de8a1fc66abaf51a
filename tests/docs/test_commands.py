"""Each command of the tutorial and the how-to pages is typed, page by page, in an empty folder.

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
BLOCKS = [
    pytest.param(page, number, id=f"{page.stem}:{block.line}")
    for page in PAGES
    for number, block in enumerate(blocks_of(page.read_text(encoding="utf-8")))
    if block.language in TYPED or block.title
]


@dataclass
class Session:
    """A reader who follows one page."""

    page: Path
    shell: Shell
    blocks: list[Block]
    missing: str = ""
    running: list[tuple[Block, str, str, Popen[str]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    open_ones: dict[Path, Session] = {}

    def session_of(page: Path) -> Session:
        if page not in open_ones:
            shell = Shell(tmp_path_factory.mktemp(page.stem))
            open_ones[page] = Session(page, shell, blocks_of(page.read_text(encoding="utf-8")))
        return open_ones[page]

    yield session_of
    for session in open_ones.values():
        for *_, process in session.running:
            process.terminate()


@pytest.mark.parametrize(("page", "number"), BLOCKS)
def test_a_page_says_what_happens(sessions, page, number):
    session = sessions(page)
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
    follow(session, number, block)
    session.missing = ""


def follow(session: Session, number: int, block: Block) -> None:
    if block.title and block.language not in TYPED:
        session.shell.write(block.title, block.text)
        return
    *before, last = block.calls
    for typed, shown in before:
        check(session, block, typed, shown, session.shell.run(typed), 0)
    typed, shown = last
    following = session.blocks[number + 1 : number + 2]
    if following and "second terminal" in following[0].said:
        session.running.append((block, typed, shown, session.shell.start(typed)))
        return
    if "second terminal" in block.said:
        session.shell.wait_for(".local/share/srifty/runs/*/vms/world.json", session.running[0][-1])
    code = int(block.said.get("exit code", 0))
    check(session, block, typed, shown, session.shell.run(typed), code)
    while session.running:
        earlier, typed, shown, process = session.running.pop()
        check(session, earlier, typed, shown, wait(process), 0)


def check(session: Session, block: Block, typed: str, shown: str, ended: Ended, code: int) -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_that_is_typed_is_in_blocks_that_are_run(page):
    for block in blocks_of(page.read_text(encoding="utf-8")):
        assert block.language, f"line {block.line}: say what the block is"
        if block.language not in TYPED:
            lines = block.text.splitlines()
            assert not any(line.startswith(("srifty ", "$ ", "torchrun ")) for line in lines)


def test_what_differs_is_found():
    assert difference("a\n...\nc\n", "a\nb\nc\n", figures_vary=False) is None
    assert difference("a\nb\n", "a\nb\nc\n", figures_vary=False) == "c"
    assert difference("a\nd\n", "a\nb\n", figures_vary=False) == "d"
    assert difference("...\nb\na\n", "a\nb\n", figures_vary=False) == "a"
    shown = "in 1 min 05 s: $0.30 ███\n12 steps of 3 ms\n"
    assert difference("12 steps of 1.5 s\nin 4 s: $12\n", shown, figures_vary=True) is None
    assert difference("12 steps in 3 ms\n", shown, figures_vary=True) == "12 steps in 3 ms"


def test_a_page_is_brought_up_to_date():
    shown = "b: 2\nx\na: 7\ny\nz\n"
    assert brought_up_to_date("b: 1\n...\na: 1\nq\n...\n", shown) == "b: 2\n...\na: 7\ny\n...\n"
    assert brought_up_to_date("something\nelse\n", shown) == shown
    assert brought_up_to_date("gone\n...\n", shown) is None


def test_options_that_do_not_exist_are_found():
    assert unknown_options("torchrun --nproc-per-node 2 -m srifty probe --repeats 3") is None
    assert unknown_options("A=1 srifty allreduce import x.log --vms 2 > out # all") is None
    assert "such" in (unknown_options("srifty plan job.yaml --no-such-option") or "")
    assert unknown_options("srifty no-such-command")
    assert unknown_options("echo x && srifty allreduce nothing")
