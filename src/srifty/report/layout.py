"""The two widths in which everything is drawn, and the bars that both plans and runs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from srifty.report.drawing import Drawing

WIDE = 880.0
NARROW = 340.0
# Pixels of a letter of a bold value, in a wide font.
_LETTER = 8.4


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a list of them.

    Attributes:
        label: what it is.
        value: its length, in any unit that all bars share; not negative.
        text: the value for people.
        tone: name of its colour.
    """

    label: str
    value: float
    text: str
    tone: str


def both(draw: Callable[[float], Drawing]) -> tuple[Markup, Markup]:
    """Returns a drawing as wide and as narrow as pages are."""
    return draw(WIDE).svg(), draw(NARROW).svg()


def bar_list(bars: Sequence[Bar], label: str) -> Callable[[float], Drawing]:
    """Returns what draws bars below each other, each with its words above and its value beside."""
    longest = max((bar.value for bar in bars), default=0.0) or 1.0

    def draw(width: float) -> Drawing:
        is_wide = width > NARROW
        name_width = 240.0 if is_wide else 0.0
        row = 30.0 if is_wide else 44.0
        drawing = Drawing(width, row * len(bars) + 4, label)
        room = width - name_width - 12 - _LETTER * max((len(bar.text) for bar in bars), default=0)
        for index, bar in enumerate(bars):
            top = index * row + 4
            bar_top = top if is_wide else top + 20
            drawing.text(0, top + 14, bar.label, style="label")
            length = max(room * bar.value / longest, 1.5)
            drawing.box(name_width, bar_top + 2, length, 16, f"fill-{bar.tone}", bar.text)
            drawing.text(name_width + length + 8, bar_top + 15, bar.text, style="value")
        return drawing

    return draw
