"""YAML as people read it: keys in our order, scripts as blocks."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and each value where it is used."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whether a value that occurs twice is written twice."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(document: dict[str, Any], *comments: str) -> str:
    """Returns a document as YAML, below lines of comments."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return "".join(f"{line}\n" for line in comments) + body
