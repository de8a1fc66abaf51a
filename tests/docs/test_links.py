"""Links between the Markdown pages lead somewhere, on GitHub and on the site."""

from __future__ import annotations

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT, anchors_of, blocks_of, links_of

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in links_of(text):
        if target.startswith(("https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors_of(there.read_text(encoding="utf-8")), target


def test_the_menu_has_every_page_but_results_which_may_be_found_from_others():
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = [name for name in _leaves(menu) if not name.startswith("reference/")]
    assert len(listed) == len(set(listed))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert set(listed) <= there
    assert {name for name in there - set(listed) if not name.startswith("results/")} == set()


def test_every_page_is_found_from_the_first_one():
    found, ahead = set(), [ROOT / "README.md", DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in found:
            continue
        found.add(page)
        targets = (target.partition("#")[0] for target in links_of(page.read_text("utf-8")))
        pages = ((page.parent / target).resolve() for target in targets if target.endswith(".md"))
        ahead += [there for there in pages if there.exists()]
    assert {str(page) for page in DOCS.rglob("*.md")} - {str(page) for page in found} == set()


def test_links_and_anchors_are_found():
    text = (
        "# A `b`, c\n[x](a.md#b) ![y](c.svg)\n`[no](no.md)`\n```text\n[no](no.md)\n```\n## D – e\n"
    )
    assert links_of(text) == ["a.md#b", "c.svg"]
    assert anchors_of(text) == {"a-b-c"}
    assert [block.language for block in blocks_of(text)] == ["text"]


def _leaves(menu):
    if isinstance(menu, str):
        return [menu]
    parts = menu.values() if isinstance(menu, dict) else menu
    return [leaf for part in parts for leaf in _leaves(part)]
