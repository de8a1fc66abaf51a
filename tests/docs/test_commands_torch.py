"""Pages that need PyTorch somewhere, from their beginning: tutorial and how-to pages."""

from __future__ import annotations

import pytest

from tests.docs.reader import Sessions, chapters, follow

pytest.importorskip("torch", reason="torch is an extra")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    sessions = Sessions(tmp_path_factory)
    yield sessions
    sessions.end()


@pytest.mark.parametrize(("page", "number"), chapters(with_torch=True))
def test_a_page_says_what_happens(sessions, page, number):
    follow(sessions.of(page), number)
