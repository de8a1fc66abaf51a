"""What the pages of results have in common: where the data are, tables, plots, the last line."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "srifty"  # the same file from every run
mpl.rcParams["font.size"] = 9

from matplotlib import pyplot as plt  # noqa: E402 - the back end is chosen first
from matplotlib.figure import Figure  # noqa: E402

_REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SRIFTY_PUBLIC_DATA", _REPOSITORY.parent / "shared" / "data"))
RESULTS = _REPOSITORY / "docs" / "results"
_DOTS_PER_INCH = 150  # of what is drawn as an image inside a plot


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> list[str]:
    """Returns the lines of a Markdown table.

    Args:
        head: the headings.
        rows: the cells; floats are left to the caller.
        words: how many columns at the left hold words; the others are set to the right.
    """
    rule = "|" + "---|" * words + "---:|" * (len(head) - words)
    lines = [f"| {' | '.join(head)} |", rule]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]


def percent(share: float, digits: int = 1) -> str:
    """Returns a share as per cent; a dash where there is none."""
    return "–" if share != share else f"{share:.{digits}%}"


def made_by(command: str) -> str:
    """Returns the last line of a page: the command, the machine, the versions, the date."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "xgboost-cpu"))
    return (
        f"*Made by `{command}` on {_processor()} ({os.cpu_count()} cores), Python "
        f"{platform.python_version()}, {versions}, {datetime.now(UTC):%Y-%m-%d}.*"
    )


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        for line in cpus.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def save(figure: Figure, path: Path) -> None:
    """Writes a plot: no date in it, so that the same data give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, dpi=_DOTS_PER_INCH)
    plt.close(figure)
