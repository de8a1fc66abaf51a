"""The colours of a page, light and dark, each with what it is for; the contrast of any two."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tone:
    """A colour by its use.

    Attributes:
        light: on a light page, `#rrggbb`.
        dark: on a dark one.
    """

    light: str
    dark: str


# What text stands on.
GROUNDS = {
    "ground": Tone("#fbfaf7", "#14171c"),
    "panel": Tone("#ffffff", "#1b1f26"),
    "tint": Tone("#f1efe9", "#242a33"),
}
# What text and lines that must be read are drawn in.
INKS = {
    "ink": Tone("#1c2129", "#e8eaee"),
    "soft": Tone("#565e6b", "#a7afbc"),
    "first": Tone("#1f5a9e", "#7db4f0"),
    "second": Tone("#a1490d", "#eda36b"),
    "third": Tone("#17705c", "#5fc4a8"),
    "fourth": Tone("#7a3f94", "#cf9ee6"),
    "good": Tone("#1d7038", "#6fce8b"),
    "bad": Tone("#b02a24", "#f58f86"),
}
# What only divides.
LINES = {
    "line": Tone("#dedad1", "#333a45"),
    "grid": Tone("#e9e6df", "#2a303a"),
}


def stylesheet() -> str:
    """Returns the CSS that defines a variable for each colour, for light, dark and paper."""
    tones = GROUNDS | INKS | LINES
    light = "".join(f"--{name}:{tone.light};" for name, tone in tones.items())
    dark = "".join(f"--{name}:{tone.dark};" for name, tone in tones.items())
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )


def contrast(one: str, other: str) -> float:
    """Returns the contrast ratio of two colours `#rrggbb`, 1 to 21 (WCAG 2.2, 1.4.3)."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Returns the relative luminance of a colour in sRGB (WCAG 2.2)."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
