"""Markdown pages taken apart: code blocks with what is said of them, headings, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^( *)```(\w*) *(.*)$")
_COMMENT = re.compile(r"^ *<!-- (.*) -->$")
_TITLE = re.compile(r'title="([^"]+)"')
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced code block.

    Attributes:
        line: of its fence, from 1.
        language: what the fence says.
        title: the file that the block is; None for others.
        text: its lines, without the fence's indentation.
        said: the comments right above it, `key: value` or `key`.
    """

    line: int
    language: str
    title: str | None
    text: str
    said: dict[str, str]

    @property
    def calls(self) -> list[tuple[str, str]]:
        """What is typed (all lines of a command), and what is shown below it."""
        if self.language == "bash":
            return [(self.text, "")]
        calls: list[tuple[str, str]] = []
        going_on = False
        for line in self.text.splitlines():
            if going_on or line.startswith("$ "):
                typed = line if going_on else line[2:]
                before = calls.pop()[0] + "\n" if going_on else ""
                calls.append((before + typed, ""))
                going_on = typed.endswith("\\")
            else:
                typed, shown = calls.pop()
                calls.append((typed, f"{shown}{line}\n"))
        return calls


def blocks_of(text: str) -> list[Block]:
    """Returns the code blocks of a page."""
    blocks, said = [], {}
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if comment := _COMMENT.match(line):
            key, _, value = comment[1].partition(": ")
            said[key] = value
        elif fence := _FENCE.match(line):
            indent, language, rest = fence.groups()
            inside = []
            for _, code in lines:
                if code.strip() == "```":
                    break
                inside.append(code.removeprefix(indent) + "\n")
            title = _TITLE.search(rest)
            blocks.append(Block(number, language, title and title[1], "".join(inside), said))
            said = {}
        elif line.strip():
            said = {}
    return blocks


def prose_of(text: str) -> str:
    """Returns a page without its code: neither blocks nor `spans`."""
    kept, inside = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            inside = not inside
        kept.append("" if inside or line.startswith("    ") else re.sub(r"`[^`]*`", "`x`", line))
    return "\n".join(kept)


def links_of(text: str) -> list[str]:
    """Returns the targets of a page's links and images."""
    return [target for target in _LINK.findall(prose_of(text)) if "`" not in target]


def anchors_of(text: str) -> set[str]:
    """Returns the anchors of a page's headings that GitHub and the site both make."""
    anchors: set[str] = set()
    inside = False
    for line in text.splitlines():
        inside ^= bool(_FENCE.match(line))
        if inside or not line.startswith("#"):
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
        kept = re.sub(r"[^\w\- ]", "", plain)
        of_github = kept.replace(" ", "-")
        if of_github == re.sub(r"[-\s]+", "-", kept.encode("ascii", "ignore").decode()).strip("-"):
            anchors.add(of_github)
    return anchors
