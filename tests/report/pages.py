"""Pages taken apart: what numbers stand on them, and the documents they are made of."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

REMOTE = re.compile(r"(?:https?:)?//[a-z]", re.IGNORECASE)


def parsed(page: str) -> ElementTree.Element:
    """The page's tree; a page that is not well-formed to the last tag has none."""
    return ElementTree.fromstring(page)


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def numbers(page: str) -> Iterator[tuple[str, float | None, str]]:
    """(place in the document, value, text) of each number that says where it is from."""
    for element in parsed(page).iter("data"):
        source = element.get("data-from")
        if source is not None:
            value = element.get("value")
            yield source, float(value) if value else None, words(element)


def at(document: Any, source: str) -> Any:
    """What stands at a place of a document, such as `front.0.time_s.mean`."""
    for step in source.split("."):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def assert_self_contained(page: str) -> None:
    """Nothing is loaded, nothing runs, and the page says so to the browser."""
    tree = parsed(page)
    assert not list(tree.iter("script"))
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            if name in ("src", "href", "data", "action", "poster"):
                assert value == "data:,", (element.tag, name, value)
    (style,) = tree.iter("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    policy = [m.get("content") for m in tree.iter("meta") if m.get("http-equiv")]
    assert policy[0].startswith("default-src 'none'")


def story(**changes: Any) -> dict[str, Any]:
    """A run with a loss in the middle, as its ledger would tell it."""
    vms = [
        {"vm": f"vm-{n}", "pool": "p3.8xlarge (spot, us-east-1a)", "phase": "ready"} for n in (1, 2)
    ]
    document = {
        "run": "toy-1",
        "user": "somebody",
        "backend": "local",
        "state": "running",
        "message": None,
        "at_s": 260.0,
        "iterations": 400,
        "iteration": 230.0,
        "durable_iteration": 200.0,
        "iterations_per_s": 1.5,
        "config": "1p3.8xlarge (spot)@1024x2",
        "deadline_s": 500.0,
        "cap_usd": 5.0,
        "spent_usd_total": 0.25,
        "usd_per_hour": 4.08,
        "vms": vms,
        "bill": [
            {"name": "vm-1", "billed_s": 200.0, "usd_total": 0.2},
            {"name": "vm-2", "billed_s": 0.0, "usd_total": 0.0},
        ],
        "events": [
            event(60.0, "launched", "vm-1"),
            event(60.1, "launched", "vm-2"),
            event(160.0, "preempted", "vm-2", "taken back"),
        ],
        "decisions": [
            {
                "at_s": 0.1,
                "kind": "move",
                "cause": "first",
                "because": "the run begins",
                "config": "2p3.8xlarge (spot)@512",
                "look_again_s": 60.0,
                "train_on": True,
                "replace": [],
                "numbers": {"time_left_s": 499.9, "money_left_usd": 5.0, "iterations_left": 400},
            }
        ],
        "worlds": [
            {"at_s": 62.0, "config": "2p3.8xlarge (spot)@512", "from_iteration": 0},
            {"at_s": 170.0, "config": "1p3.8xlarge (spot)@1024x2", "from_iteration": 200},
        ],
        "forecasts": [
            {
                "made_s": 0.0,
                "config": "2p3.8xlarge (spot)@512",
                "iteration_s": spread(0.5, 0.05),
                "time_s": spread(260.0, 20.0),
                "cost_usd": spread(0.45, 0.04),
                "outcome": None,
            }
        ],
        "history": {
            "progress": [
                progress(100.0, 80, 75, 0.1),
                progress(150.0, 190, 175, 0.2),
                progress(250.0, 230, 200, 0.24),
            ],
            "pace": [
                {"at_s": 100.0, "mean": 2.0, "bound": 2.1},
                {"at_s": 150.0, "mean": 2.1, "bound": 2.15},
                {"at_s": 250.0, "mean": 1.4, "bound": 1.5},
            ],
            "rentals": [
                rental("vm-1", 60.0, None),
                rental("vm-2", 60.1, 160.0, taken_back=True),
            ],
        },
    }
    return document | changes


def event(at_s: float, kind: str, vm: str, detail: str = "") -> dict[str, Any]:
    pool = "p3.8xlarge (spot, us-east-1a)"
    return {"at_s": at_s, "kind": kind, "vm": vm, "pool": pool, "detail": detail}


def progress(at_s: float, iteration: float, durable: float, usd: float) -> dict[str, float]:
    return {
        "at_s": at_s,
        "iteration": iteration,
        "durable_iteration": durable,
        "spent_usd": usd,
    }


def rental(
    vm: str, running_s: float | None, stopped_s: float | None, *, taken_back: bool = False
) -> dict[str, Any]:
    return {
        "vm": vm,
        "running_s": running_s,
        "stopped_s": stopped_s,
        "taken_back": taken_back,
        "usd_per_hour": 4.08,
    }


def spread(mean: float, std: float) -> dict[str, float]:
    return {
        "mean": mean,
        "std": std,
        "p50": mean,
        "p90": mean + 1.2816 * std,
        "p95": mean + 1.6449 * std,
    }
