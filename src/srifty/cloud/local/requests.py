"""What a played cloud makes of a request for a VM: refuses it, or grants it with a fate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srifty.cloud.backend import VmState, VmStatus
from srifty.cloud.clock import Clock
from srifty.cloud.local.links import link_of
from srifty.cloud.local.run_folder import VmFolder, happening_document, read_json, read_pool
from srifty.core.scenario import Scenario
from srifty.errors import InputError


def decide(
    vm: Mapping[str, Any],
    launch: Mapping[str, Any],
    past: Sequence[VmState],
    scenario: Scenario,
    clock: Clock,
    run: Path,
) -> dict[str, Any]:
    """Returns a request as it is written down, once for all: with its answer and its VM's fate.

    Args:
        vm: the VM, from the prepared launch.
        launch: the prepared launch.
        past: the run's VMs so far, refused ones included.
        scenario: what the cloud does.
        clock: the run's.
        run: the run's folder.
    """
    now_s = clock.now_s()
    pool = read_pool(vm)
    script = scenario.script(pool)
    asked = [state for state in past if state.pool == pool]
    held = sum(state.status not in (VmStatus.GONE, VmStatus.FAILED) for state in asked)
    answer = script.answers[len(asked)] if len(asked) < len(script.answers) else None
    supply = script.supply_at(now_s)
    if answer is None and supply is not None and held >= supply:
        where = f"type={pool.instance_type} az={pool.location}"
        answer = f"code=InsufficientInstanceCapacity {where}"
    link = link_of(run, len(past) + 1, script.link_mbit).document() if scenario.has_links else None
    granted = sum(state.status is not VmStatus.FAILED for state in asked)
    return {
        **vm,
        "tags": launch["tags"],
        "env": launch["env"],
        "workdir": launch["workdir"],
        "hard_end_s": launch["hard_end_s"],
        "silence_s": launch["silence_s"],
        "launcher": launch["launcher"],
        "origin_s": clock.origin_s,
        "clock_factor": clock.factor,
        "asked_s": now_s,
        "boots_at_s": now_s + script.boot_s,
        "refused": answer,
        "link": link,
        "happenings": [happening_document(what) for what in script.fate(held, granted + 1, now_s)],
    }


def request_of(files: VmFolder) -> dict[str, Any]:
    """Returns the request for a VM.

    Raises:
        InputError: there was none.
    """
    request = read_json(files.request)
    if request is None:
        raise InputError(f"{files.path.name!r} is no VM of this run")
    return request
