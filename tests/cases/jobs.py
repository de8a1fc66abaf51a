"""Jobs for the cases: small files whose right answer is known by hand, and the commands on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.catalog.skypilot_rows import HEADER, line_of
from tests.command import srifty


def profile(
    gpu: str = "T4",
    *,
    sample_s: float = 0.01,
    max_batch: int = 64,
    gradient_bytes: int | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A GPU that takes `sample_s` per sample and nothing else; without gradients no exchange."""
    document: dict[str, Any] = {
        "format": "srifty-profile/1",
        "workload": "toy",
        "gpu": gpu,
        "source": "made up",
        "max_batch": max_batch,
        "max_batch_evidence": "measured",
        "latencies": [
            {
                "batch": batch,
                "forward_s": batch * sample_s / 3,
                "backward_s": batch * sample_s / 1.5,
            }
            for batch in (1, 64)
        ],
    }
    if gradient_bytes is not None:
        document["gradients"] = [{"name": "w", "bytes": gradient_bytes, "ready": 1.0}]
    return document | changes


def write_case(
    folder: Path,
    offers: dict[str, Any],
    *profiles: dict[str, Any],
    global_batch: int = 64,
    iterations: int = 1000,
    **keys: Any,
) -> Path:
    """Writes a job file (JSON is YAML) and its profiles; returns the job's path."""
    names = []
    for each in profiles or (profile(),):
        name = f"{each['gpu']}.json"
        (folder / name).write_text(json.dumps(each), encoding="utf-8")
        names.append(name)
    job = {
        "name": "toy",
        "workload": names,
        "global_batch": global_batch,
        "iterations": iterations,
        "offers": offers,
    }
    path = folder / "job.yaml"
    path.write_text(json.dumps(job | keys), encoding="utf-8")
    return path


def plan(path: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """The JSON of `srifty plan`."""
    outcome = srifty("plan", path, "--json", *arguments)
    assert outcome.code == code, outcome.err
    assert outcome.err == ""
    return json.loads(outcome.out)


def refused(path: Path, *arguments: str) -> str:
    """What `srifty plan` says where the job is wrong."""
    outcome = srifty("plan", path, "--json", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    return outcome.err


def import_rows(folder: Path, cloud: str, date: str, *rows: list[str]) -> dict[str, Any]:
    """Imports rows in SkyPilot's shape; returns the JSON of `srifty catalog import`."""
    path = folder / "vms.csv"
    path.write_text("\n".join([HEADER, *map(line_of, rows)]), encoding="utf-8")
    outcome = srifty("catalog", "import", path, "--cloud", cloud, "--date", date, "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def counts(document: dict[str, Any]) -> dict[tuple[str, str], int]:
    """VMs of a plan by type and market."""
    found: dict[tuple[str, str], int] = {}
    for group in document["groups"]:
        key = (group["instance_type"], group["market"])
        found[key] = found.get(key, 0) + group["count"]
    return found


def zones(document: dict[str, Any]) -> set[str | None]:
    """The zones of a plan."""
    return {group["location"]["zone"] for group in document["groups"]}


def has(sentences: list[str], *words: str) -> bool:
    """Whether one sentence has all the words."""
    return any(all(word in sentence for word in words) for sentence in sentences)
