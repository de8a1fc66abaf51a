"""A cluster file for Ray's cluster launcher: one node type for each offer, as many as planned.

A VM of its own is the head: on demand, small, without a worker. The cluster file also brings the
script that starts the workers.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from srifty.cloud.export.deployment import Deployment, Exported
from srifty.cloud.export.machines import machine_of
from srifty.cloud.export.ray_nodes import is_machine_image, node_config, provider
from srifty.cloud.export.shell import heading
from srifty.cloud.export.yaml_text import dump_yaml
from srifty.core.offers import Location, Market
from srifty.core.settings import RunSettings
from srifty.core.written import WrittenGroup
from srifty.errors import InputError

_NAME = "cluster.yaml"
HEAD = "head"
_SCRIPT = "~/srifty_on_ray.py"
_WORLD = "~/srifty_world.json"
FOLDER = "~/srifty_code"
_END = "END_OF_SRIFTY_FILE"
_CLOUDS = ("aws", "gcp")
HEADS = {"aws": "m5.large", "gcp": "n1-standard-2"}


def export_ray(deployment: Deployment) -> Exported:
    """Returns the plan as a Ray cluster file.

    Raises:
        InputError: the plan spans clouds, or has VMs that Ray does not rent.
    """
    cluster, notes = ray_cluster(deployment)
    cluster["head_setup_commands"] = [
        _file(_SCRIPT, _driver()),
        _file(_WORLD, json.dumps(world_of(deployment), indent=1, ensure_ascii=False)),
    ]
    start = (
        f"ray up -y {_NAME}",
        f"ray exec {_NAME} 'python {_SCRIPT} {_WORLD}'",
        f"ray down -y {_NAME}",
    )
    names = deployment.plan.settings.secrets
    if names:
        notes.append(
            f"The script takes {', '.join(names)} from the environment on the head: set them there "
            f"(ray attach {_NAME}), not on a command line that others can see."
        )
    text = dump_yaml(cluster, *heading(deployment, *(f"Use: {line}" for line in start)))
    return Exported(text, _NAME, start, tuple(notes))


def ray_cluster(deployment: Deployment) -> tuple[dict[str, Any], list[str]]:
    """Returns the cluster file without the workers' script, and what is to be known before.

    Raises:
        InputError: the plan spans clouds, or has VMs that Ray does not rent.
    """
    plan = deployment.plan
    settings = plan.settings
    cloud = _one_cloud(deployment)
    region = plan.groups[0].location.region
    offers = offers_of(deployment)
    head_place = plan.groups[0].location
    zones = [zone for group in plan.groups if (zone := deployment.zone(group.location))]
    types: dict[str, Any] = {
        HEAD: {
            # No CPUs are offered, so that Ray places nothing of the plan's here.
            "resources": {"CPU": 0},
            "node_config": node_config(
                settings, cloud, HEADS[cloud], deployment.zone(head_place), Market.ON_DEMAND
            ),
        }
    }
    for name, (group, count) in offers.items():
        machine = machine_of(group)
        amounts = {"GPU": group.gpus, name: 1}
        types[name] = {
            "min_workers": count,
            "max_workers": count,
            "resources": amounts if group.vcpus is None else {"CPU": group.vcpus, **amounts},
            "node_config": node_config(
                settings,
                cloud,
                machine.name,
                deployment.zone(group.location),
                group.market,
                accelerator=machine.accelerator,
                gpus=group.gpus,
            ),
        }
    cluster = cluster_of(
        deployment.name,
        plan.vms,
        provider(settings, cloud, region, zones, deployment.project),
        types,
        settings,
    )
    notes = [
        f"The head, a {HEADS[cloud]} on demand, is billed beside the plan; training goes on "
        "without your own machine.",
        "PyTorch and srifty are to be on the image, or to be installed in run.setup.",
    ]
    if settings.image is None:
        notes.append("No image is named: Ray's own default is used; name one in run.image.")
    return cluster, notes


def cluster_of(
    name: str,
    vms: int,
    provider: dict[str, Any],
    types: dict[str, Any],
    settings: RunSettings,
) -> dict[str, Any]:
    """Returns a cluster file around its node types.

    Args:
        name: of the cluster.
        vms: most VMs beside the head.
        provider: where the cluster lives.
        types: node types by name; the head's is called `head`.
        settings: how the VMs are set up.
    """
    cluster: dict[str, Any] = {
        "cluster_name": name,
        "max_workers": vms,
        "provider": provider,
        "auth": {"ssh_user": settings.ssh_user or "ubuntu"},
        "head_node_type": HEAD,
        "available_node_types": types,
    }
    if settings.image is not None and not is_machine_image(settings.image):
        cluster["docker"] = {
            "image": settings.image,
            "container_name": "srifty",
            # Data loaders hand over batches in shared memory, NCCL pins some.
            "run_options": ["--ipc=host", "--ulimit memlock=-1"],
        }
    cluster["file_mounts"] = {FOLDER: settings.workdir}
    cluster["setup_commands"] = [
        *(f"cd {FOLDER} && {command}" for command in settings.setup),
        'command -v ray >/dev/null || pip install "ray[default]"',
    ]
    cluster["head_start_ray_commands"] = [
        "ray stop",
        "ulimit -n 65536; ray start --head --port=6379 "
        "--autoscaling-config=~/ray_bootstrap_config.yaml",
    ]
    cluster["worker_start_ray_commands"] = [
        "ray stop",
        "ulimit -n 65536; ray start --address=$RAY_HEAD_IP:6379",
    ]
    return cluster


def offers_of(deployment: Deployment) -> dict[str, tuple[WrittenGroup, int]]:
    """Returns a group and the number of VMs of each offer, by its name as node type and resource.

    The name is the type with market and zone, where these tell offers apart.
    """
    by_offer: dict[tuple[str, Market, Location], tuple[WrittenGroup, int]] = {}
    for group in deployment.plan.groups:
        first, count = by_offer.get(group.offer, (group, 0))
        by_offer[group.offer] = (first, count + group.count)
    places = {group.location for group in deployment.plan.groups}
    return {
        _offer_name(group, zone=len(places) > 1): (group, count)
        for group, count in by_offer.values()
    }


def world_of(deployment: Deployment) -> dict[str, Any]:
    """Returns what the script on the cluster reads: a line for each VM, and what runs on it."""
    names = {group.offer: name for name, (group, _) in offers_of(deployment).items()}
    return {
        "vms": [
            {"resource": names[group.offer], "workers": group.workers}
            for group in deployment.plan.groups
            for _ in range(group.count)
        ],
        "command": list(deployment.command),
        "variables": dict(deployment.variables()),
        "secrets": list(deployment.plan.settings.secrets),
        "folder": FOLDER,
    }


def _offer_name(group: WrittenGroup, *, zone: bool) -> str:
    place = f"-{group.location}" if zone else ""
    return f"{group.instance_type.replace('+', '-')}-{group.market}{place}"


def _one_cloud(deployment: Deployment) -> str:
    clouds = deployment.clouds()
    markets = {group.market for group in deployment.plan.groups}
    regions = {group.location.region for group in deployment.plan.groups}
    if len(clouds) != 1 or clouds[0] not in _CLOUDS or Market.OWNED in markets:
        raise InputError(
            f"Ray's cluster launcher takes VMs of one cloud ({' or '.join(_CLOUDS)}), not of "
            f"{', '.join(clouds)}; export the plan as torchrun or sbatch, which take any machines"
        )
    if len(regions) > 1:
        raise InputError(f"a Ray cluster lives in one region, not in {', '.join(sorted(regions))}")
    return clouds[0]


def _driver() -> str:
    return resources.files("srifty.cloud.export").joinpath("on_ray.py").read_text(encoding="utf-8")


def _file(path: str, text: str) -> str:
    """Returns a command that writes a file; it ends with a line of its own for those that wrap."""
    return f"cat > {path} <<'{_END}'\n{text.rstrip()}\n{_END}\ntrue\n"
