"""SVG by hand: lines, bands, marks and words in the page's own colours.

A plotting library would bake colours and fonts into its drawings, so that they could not follow the
reader's light or dark page, and would take half a second to load for a page that is drawn anew at
every look.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from srifty.report.axis import Axis

Point = tuple[float, float]

_TEXT = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>')
_LINE = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
_PATH = Markup('<path d="{}" class="{}"/>')
_BOX = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}">{}</rect>')
_DOT = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}">{}</circle>')
_DIAMOND = Markup(
    '<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z" class="{}">{}</path>'
)
_STRETCHED = Markup(' class="gauge" preserveAspectRatio="none"')


class Drawing:
    """Collects the elements of one SVG; whatever is written into it is escaped.

    Args:
        width: pixels.
        height: pixels.
        label: what is shown, for whoever cannot see it.
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width = width
        self.height = height
        self._label = label
        self._elements: list[Markup] = []

    def svg(self, *, stretched: bool = False) -> Markup:
        """Returns the SVG; a stretched one is as wide as there is room, whatever its height."""
        head = Markup(
            '<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            'height="{height:.0f}" role="img" aria-label="{label}"{more}>'
        ).format(
            width=self.width,
            height=self.height,
            label=self._label,
            more=_STRETCHED if stretched else "",
        )
        return head + Markup("\n").join(self._elements) + Markup("</svg>")

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", style: str = "label"
    ) -> None:
        """Writes words; `style` is a class of the stylesheet."""
        self._add(
            _TEXT,
            *(x, y, anchor, style, words),
        )

    def line(self, start: Point, end: Point, style: str) -> None:
        """Draws a straight line."""
        self._add(
            _LINE,
            *(*start, *end, style),
        )

    def path(self, points: Sequence[Point], style: str, *, stepped: bool = False) -> None:
        """Draws a line through points; a stepped one goes across before it goes up or down."""
        if len(points) < 2:
            return
        steps = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for x, y in points[1:]:
            steps.append(f"H{x:.1f}V{y:.1f}" if stepped else f"L{x:.1f} {y:.1f}")
        self._add(_PATH, "".join(steps), style)

    def area(self, points: Sequence[Point], style: str) -> None:
        """Fills what points surround."""
        if len(points) < 3:
            return
        d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"
        self._add(_PATH, d, style)

    def box(
        self, x: float, y: float, width: float, height: float, style: str, title: str = ""
    ) -> None:
        """Draws a rectangle; the title shows where the pointer rests."""
        self._add(
            _BOX,
            *(x, y, max(width, 0.0), max(height, 0.0), style, _title(title)),
        )

    def dot(self, at: Point, radius: float, style: str, title: str = "") -> None:
        """Draws a round mark."""
        self._add(
            _DOT,
            *(*at, radius, style, _title(title)),
        )

    def diamond(self, at: Point, radius: float, style: str, title: str = "") -> None:
        """Draws a mark that stands out among round ones."""
        (x, y), r = at, radius
        self._add(
            _DIAMOND,
            *(x, y - r, x + r, y, x, y + r, x - r, y, style, _title(title)),
        )

    def frame(self, x: Axis, y: Axis, *, x_name: str, y_name: str) -> None:
        """Draws grid, ticks and names of two axes; `y_name` stands above the vertical one."""
        for tick in y.ticks:
            at = y.at(tick.value)
            self.line((x.start, at), (x.end, at), "grid")
            self.text(x.start - 8, at + 4, tick.label, anchor="end", style="tick")
        self.line((x.start, y.start), (x.end, y.start), "rim")
        last = len(x.ticks) - 1
        for index, tick in enumerate(x.ticks):
            at = x.at(tick.value)
            self.line((at, y.start), (at, y.start + 5), "rim")
            anchor = "end" if index == last and last else "middle"
            self.text(
                at + (6 if anchor == "end" else 0),
                y.start + 20,
                tick.label,
                anchor=anchor,
                style="tick",
            )
        self.text(0, y.end - 12, y_name, style="name")
        self.text(x.end, y.start + 38, x_name, anchor="end", style="name")

    def _add(self, form: Markup, *values: object) -> None:
        self._elements.append(form.format(*values))


def _title(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else Markup("")
