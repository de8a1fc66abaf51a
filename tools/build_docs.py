"""Builds the site: `python tools/build_docs.py` (or `make docs`).

The pages in `docs/` read well on GitHub as they are. For the site they are laid out in
`build/docs`: links to files beside `docs/` lead to copies of these, and the reference of commands
and of the Python packages is generated, so that it cannot be out of date. Warnings are errors.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from typer.main import get_command

from srifty.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
LAID_OUT = ROOT / "build" / "docs"
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)([)#])")
# What the reference of Python shows, in this order; all that `__all__` names, where it is there.
MODULES = (
    "core",
    "files",
    "catalog",
    "compute.latency",
    "compute.estimates",
    "allreduce",
    "allreduce.learned",
    "allreduce.loading",
    "allreduce.logs",
    "simulator",
    "planner",
    "calibration",
    "baselines",
    "profiling.workload",
    "profiling.profile",
    "training",
    "cloud.backend",
    "control",
)


def main() -> None:
    """Lays the pages out, and has them built."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only-lay-out", action="store_true", help="build no site")
    arguments = parser.parse_args()
    lay_out(LAID_OUT)
    if not arguments.only_lay_out:
        build = ["-m", "zensical", "build", "--clean", "--strict"]
        made = subprocess.run([sys.executable, *build], cwd=ROOT, check=False)  # noqa: S603 - ours
        sys.exit(made.returncode)


def lay_out(folder: Path) -> None:
    """Writes all pages, and what they link to, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for page in folder.rglob("*.md"):
        within = partial(_within, page=page.relative_to(folder), folder=folder)
        page.write_text(_LINK.sub(within, page.read_text(encoding="utf-8")), encoding="utf-8")
    reference = folder / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text(commands_page(), encoding="utf-8")
    (reference / "python.md").write_text(python_page(), encoding="utf-8")


def _within(link: re.Match[str], page: Path, folder: Path) -> str:
    """Returns a link with its target inside the site: a file beside `docs/` is copied."""
    there = (ROOT / "docs" / page.parent / link[2]).resolve()
    if there.is_relative_to(ROOT / "docs"):
        return link[0]
    name = there.relative_to(ROOT)
    copy = folder / "repository" / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(there, copy)
    up = "../" * (len(page.parts) - 1)
    return f"{link[1]}{up}repository/{name}{link[3]}"


def commands_page() -> str:
    """Returns the reference of all commands, from what `--help` knows."""
    parts = ["# Commands\n\n", "Each takes `--help`, and, with few exceptions, `--json`.\n"]
    for name in COMMANDS:
        command = get_command(importlib.import_module(f"srifty.cli.{name}").app)
        parts += _described(command, f"srifty {name}")
    return "".join(parts)


def _described(command: Any, name: str) -> list[str]:
    commands: dict[str, Any] = getattr(command, "commands", {})
    parts = [f"\n## {name}\n\n", _prose(command.help), "\n"]
    context = command.context_class(command, info_name=name)
    if not commands:
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"\n```text\n{name} {usage}\n```\n")
        records = [parameter.get_help_record(context) for parameter in command.params]
        rows = [
            f"| `{name.replace('|', ', ')}` | {_prose(text)} |\n"
            for name, text in filter(None, records)
        ]
        parts += ["\n| argument or option | meaning |\n|---|---|\n", *rows] if rows else []
    if command.epilog:
        parts.append(f"\n{_epilog(command.epilog)}\n")
    for below, nested in commands.items():
        parts += _described(nested, f"{name} {below}")
    return parts


def _prose(text: str | None) -> str:
    """Returns a help text as Markdown: what looks like a tag or a link is none."""
    joined = "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))
    return re.sub(r"([<>\[\]*_|])", r"\\\1", joined)


def _epilog(text: str) -> str:
    label, colon, example = text.partition(": ")
    return f"{label}:\n\n```bash\n{example}\n```" if colon and "srifty" in example else _prose(text)


def python_page() -> str:
    """Returns the page that the docstrings of all rooms are put into."""
    parts = ["# Python\n\n", "What each room makes public. Start with "]
    parts.append("[use only the pieces](../howto/use-only-the-pieces.md).\n")
    for module in MODULES:
        names = _public(ROOT / "src" / "srifty" / module.replace(".", "/"))
        parts.append(f"\n## srifty.{module}\n\n::: srifty.{module}\n    options:\n")
        parts.append("      heading_level: 3\n      show_root_heading: false\n")
        parts.append(f"      members: {names}\n" if names else "")
    return "".join(parts)


def _public(path: Path) -> list[str]:
    """Returns what a module's `__all__` names, without importing it: some need torch."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    return []


if __name__ == "__main__":
    main()
