"""A SkyPilot task, where the plan has one shape: all its VMs are of one offer."""

from __future__ import annotations

from typing import Any

from srifty.cloud.export.deployment import Deployment, Exported, is_zone_id
from srifty.cloud.export.machines import machine_of
from srifty.cloud.export.shell import heading, torchrun, workers_by_node
from srifty.cloud.export.yaml_text import dump_yaml
from srifty.core.offers import Market
from srifty.errors import InputError

_NAME = "task.yaml"
_CLOUDS = ("aws", "gcp", "azure", "lambda")


def export_skypilot(deployment: Deployment) -> Exported:
    """Returns the plan as a SkyPilot task.

    Raises:
        InputError: the plan has several shapes, or VMs that SkyPilot does not rent.
    """
    cloud = _one_shape(deployment)
    plan = deployment.plan
    group = plan.groups[0]
    machine = machine_of(group)
    resources: dict[str, Any] = {
        "cloud": cloud,
        "region": group.location.region,
        "instance_type": machine.name,
        "use_spot": group.market is Market.SPOT,
    }
    if machine.accelerator is not None:
        resources["accelerators"] = f"{group.gpu}:{group.gpus}"
    notes = ["Your code goes with the task; PyTorch and srifty are to be installed in run.setup."]
    zone = deployment.zone(group.location)
    if zone is not None and is_zone_id(zone):
        notes.append(
            f"SkyPilot picks the zone, one for all VMs: only your account can say what it calls "
            f"{zone}. Say it with --zone {zone}=NAME."
        )
    elif zone is not None:
        resources["zone"] = zone
    settings = plan.settings
    if settings.image is not None:
        is_machine = settings.image.startswith(("ami-", "projects/"))
        resources["image_id"] = settings.image if is_machine else f"docker:{settings.image}"
    if settings.tags:
        resources["labels"] = dict(settings.tags)
    document: dict[str, Any] = {
        "name": deployment.name,
        "workdir": settings.workdir,
        "num_nodes": plan.vms,
        "resources": resources,
        "envs": dict(deployment.variables()),
    }
    if settings.secrets:
        document["secrets"] = dict.fromkeys(settings.secrets)
    if settings.setup:
        document["setup"] = "\n".join([*settings.setup, ""])
    document["run"] = "\n".join(
        [
            "set -euo pipefail",
            'node="$SKYPILOT_NODE_RANK"',
            'read -r MASTER_ADDR <<< "$SKYPILOT_NODE_IPS"',
            *workers_by_node(deployment),
            torchrun(deployment, node='"$node"', workers='"$workers"'),
            "",
        ]
    )
    asked = "".join(f" --secret {name}" for name in settings.secrets)
    start = f"sky launch -c {deployment.name} {_NAME}{asked}"
    text = dump_yaml(document, *heading(deployment, f"Start it with: {start}"))
    return Exported(text, _NAME, (start,), tuple(notes))


def _one_shape(deployment: Deployment) -> str:
    """Returns the cloud of the one shape; raises `InputError` with the reason if there is none."""
    groups = deployment.plan.groups
    shapes = dict.fromkeys(
        f"{group.instance_type} ({group.market}, {group.location})" for group in groups
    )
    if len(shapes) > 1:
        raise InputError(
            "a SkyPilot cluster has one shape, and the plan has several: "
            f"{', '.join(shapes)}. Export it as ray, kubernetes, sbatch or torchrun, or plan with "
            "one type in one market"
        )
    (cloud,) = deployment.clouds()
    if cloud not in _CLOUDS or groups[0].market not in (Market.SPOT, Market.ON_DEMAND):
        raise InputError(
            f"SkyPilot cannot rent {next(iter(shapes))}; export it as torchrun or sbatch, which "
            "take any machines"
        )
    return cloud
