"""YAML as job files use it: no key twice, errors with their line, settings changed by name."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import yaml

from srifty.core.offers import Market
from srifty.errors import InputError, Problem
from srifty.files._reading import shown


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, except that a key given twice is an error.

    A value that YAML recognises but cannot make, such as the date 2026-02-30, is an error of the
    line that it stands in.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return cast("Any", super().construct_object(node, deep))
        except ValueError:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"{shown(node.value)} cannot be read as a value; quote it if it is a text",
                node.start_mark,
            ) from None


def _construct_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.constructor.ConstructorError(
                None, None, "keys must be plain", key_node.start_mark
            )
        if key in mapping:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is given twice", key_node.start_mark
            )
        mapping[key] = loader.construct_object(value_node, deep=True)
    return mapping


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)


def load_yaml(text: str, source: str, kind: str) -> Any:
    """Returns the value that a YAML text stands for.

    Args:
        text: the text.
        source: the file or flag that holds it, for messages.
        kind: what was expected, for messages.

    Raises:
        InputError: it is not YAML, or gives a key twice.
    """
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        where = f"line {at.line + 1}" if at else ""
        message = error.problem or error.context or "is not YAML"
        raise InputError([Problem(where, f"{message}; a {kind} was expected")], source) from None
    except yaml.reader.ReaderError as error:
        raise InputError(
            f"is not YAML (character {error.position + 1}: {error.reason}); a {kind} was expected",
            source,
        ) from None
    except RecursionError:
        raise InputError(f"is nested too deeply; a {kind} was expected", source) from None


def apply_change(document: dict[Any, Any], change: str) -> None:
    """Sets one value: `key=value`, keys joined by dots; names such as `p3.8xlarge` keep theirs."""
    path, equals, text = change.partition("=")
    if not equals or not path.strip():
        raise InputError(f"--set takes key=value, such as deadline=6h, not {change!r}")
    value = load_yaml(text, f"--set {path}", "value")
    parts = path.strip().split(".")
    node: Any = document
    parent = ""
    while True:
        key, rest = _next_key(cast("dict[Any, Any]", node), parts, parent)
        if not rest:
            node[key] = value
            return
        if parent == "quota" and isinstance(node.get(key), int):  # a bare number: each market's
            node[key] = {str(market): node[key] for market in (Market.ON_DEMAND, Market.SPOT)}
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node, parts, parent = node[key], rest, key


def _next_key(node: dict[Any, Any], parts: list[str], parent: str) -> tuple[str, list[str]]:
    """Returns the key that a dotted path names at this level, and what is left of the path."""
    for length in range(len(parts), 0, -1):
        joined = ".".join(parts[:length])
        if joined in node:
            return joined, parts[length:]
    if parent == "interruptions":  # below it, keys are instance types
        return ".".join(parts), []
    if parent in ("quota", "prices"):  # below these, keys are instance types, then markets
        markets = {str(market) for market in Market}
        end = len(parts) - 1 if parts[-1] in markets else len(parts)
        return ".".join(parts[:end]), parts[end:]
    return parts[0], parts[1:]
