"""What every page shares: its templates, its tiles, its gauges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from srifty.report.drawing import Drawing
from srifty.report.palette import INKS, stylesheet
from srifty.report.table import Cell


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that stands large at the top of a page.

    Attributes:
        name: what it is.
        value: the figure.
        lines: what stands beneath, each line of words and numbers.
        gauge: how it stands to its limit, as SVG; empty where there is none.
        tone: `good`, `bad`, or empty.
    """

    name: str
    value: Cell
    lines: tuple[tuple[Cell, ...], ...] = ()
    gauge: Markup = Markup("")  # noqa: RUF009 - a constant
    tone: str = ""


def render(template: str, *, nonce: str = "", **values: Any) -> str:
    """Returns a page.

    Args:
        template: name of its template.
        nonce: lets the page's own script run, which looks for news; empty: the page has none.
        values: what the template shows.
    """
    return (
        _templates()
        .get_template(template)
        .render(
            nonce=nonce,
            palette=Markup(stylesheet()),  # noqa: S704 - made of our own colours alone
            tones=tuple(INKS),
            **values,
        )
    )


def gauge(usual: float | None, late: float | None, limit: float | None, label: str) -> Markup:
    """Returns a bar that is full at the limit, and filled to the usual value.

    Args:
        usual: the expected value; None: no gauge.
        late: what holds nine times of ten, where a rim is drawn; None: no rim.
        limit: None: no gauge.
        label: for whoever cannot see it.
    """
    if usual is None or limit is None or not limit > 0:
        return Markup("")
    width = 200.0
    drawing = Drawing(width, 8, label)
    full = max(limit, usual, late or 0.0)
    is_over = usual > limit or (late is not None and late > limit)
    drawing.box(0, 1, width, 6, "gauge-ground")
    drawing.box(0, 1, width * usual / full, 6, "fill-bad" if is_over else "fill-first")
    if late is not None:
        drawing.box(min(width * late / full, width - 1.5), 0, 1.5, 8, "gauge-rim", "90 % within")
    if full > limit:
        drawing.box(width * limit / full, 0, 1.5, 8, "fill-ink", "limit")
    return drawing.svg(stretched=True)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("srifty.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
