"""JSON as people give it to us: no key twice, no number beyond reason, errors with their place."""

from __future__ import annotations

import json
from typing import Any

from srifty.errors import InputError
from srifty.files._reading import shown

_MOST_DIGITS = 40


def load_json(text: str, source: str, kind: str) -> Any:
    """Returns the value that a JSON text stands for.

    Args:
        text: the text.
        source: the file that holds it, for messages.
        kind: what was expected, for messages.

    Raises:
        InputError: it is not JSON, gives a key twice, or is nested without end.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            f"a {kind} was expected",
            source,
        ) from None
    except RecursionError:
        raise InputError(f"is nested too deeply; a {kind} was expected", source) from None
    except ValueError as error:  # from the hooks below
        raise InputError(f"cannot be read: {error}; a {kind} was expected", source) from None


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {shown(twice)} is given twice")
    return mapping
