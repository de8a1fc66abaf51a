"""What can be typed without PyTorch: each command of tutorial and how-to pages, page by page."""

from __future__ import annotations

import pytest

from tests.docs.pages import blocks_of
from tests.docs.reader import PAGES, TYPED, Sessions, chapters, follow
from tests.docs.shell import brought_up_to_date, difference, unknown_options


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    sessions = Sessions(tmp_path_factory)
    yield sessions
    sessions.end()


@pytest.mark.parametrize(("page", "number"), chapters(with_torch=False))
def test_a_page_says_what_happens(sessions, page, number):
    follow(sessions.of(page), number)


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
