"""Explanations of a plan, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from srifty.core.explanation import Explanation, ExplanationKind
from srifty.core.notation import format_config

_TITLES = {
    ExplanationKind.BINDING: "What holds it back",
    ExplanationKind.WORTH: "What a little more of it buys",
    ExplanationKind.RUNNER_UP: "Why the runner-up lost",
    ExplanationKind.SENSITIVITY: "What would change the choice",
}


def show_explanations(console: Console, explanations: Sequence[Explanation]) -> None:
    """Prints explanations, kind by kind."""
    for kind, title in _TITLES.items():
        own = [each for each in explanations if each.kind is kind]
        if not own:
            continue
        console.print()
        console.print(Text(title, style="bold"))
        for each in own:
            console.print(Text(f"  - {each.message}"))


def explanations_document(explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Returns explanations as JSON; `extra_usd` and `extra_s` are the other plan's."""
    return [
        {
            "kind": each.kind.value,
            "subject": each.subject,
            "message": each.message,
            "config": format_config(each.plan.config) if each.plan else None,
            "extra_usd": each.extra_usd,
            "extra_s": each.extra_s,
            "parts": each.parts,
        }
        for each in explanations
    ]
