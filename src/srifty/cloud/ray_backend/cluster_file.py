"""The cluster file of a run: one node type for each pool, none of them kept without an agent."""

from __future__ import annotations

from typing import Any

from srifty.cloud.backend import LaunchRequest
from srifty.cloud.export.ray_cluster import HEAD, HEADS, cluster_of
from srifty.cloud.export.ray_nodes import node_config, provider
from srifty.cloud.ray_backend.watchdog import FOLDER, watchdog
from srifty.core.events import Pool
from srifty.core.offers import Market
from srifty.errors import InputError

# An idle node is one whose agent has ended: it is given back after as many minutes.
_IDLE_MINUTES = 1
# What a VM is given to boot, to be set up and to join; and a head, until a run is started there.
_FIRST_S = {"worker": 1800.0, "head": 3600.0}


def node_type(pool: Pool) -> str:
    """Returns the name of a pool as a node type, and as the resource that its nodes have one of."""
    return f"{pool.instance_type.replace('+', '-')}-{pool.market}-{pool.location}"


def cluster_file(request: LaunchRequest, cloud: str, project: str | None) -> dict[str, Any]:
    """Returns the cluster file that serves a launch.

    Nodes come for agents that wait for them and go when these have ended, so the cluster has the
    VMs that were asked for, and no others.

    Args:
        request: the launch; more VMs than it names are never made.
        cloud: `aws` or `gcp`.
        project: of Google Cloud.

    Raises:
        InputError: Ray cannot make such VMs.
    """
    if cloud not in HEADS:
        raise InputError(f"the ray back end rents from {' or '.join(HEADS)}, not from {cloud}")
    regions = {vm.pool.location.region for vm in request.vms}
    if len(regions) > 1:
        raise InputError(f"a Ray cluster lives in one region, not in {', '.join(sorted(regions))}")
    settings = request.settings
    zones = [vm.pool.location.zone for vm in request.vms if vm.pool.location.zone]
    head = node_config(settings, cloud, HEADS[cloud], zones[0] if zones else None, Market.ON_DEMAND)
    types: dict[str, Any] = {
        HEAD: {"resources": {"CPU": 0}, "node_config": _ours(head, request, cloud, "head")}
    }
    for vm in request.vms:
        name = node_type(vm.pool)
        if name in types:
            types[name]["max_workers"] += 1
            continue
        node = node_config(
            settings, cloud, vm.pool.instance_type, vm.pool.location.zone, vm.pool.market
        )
        types[name] = {
            "min_workers": 0,
            "max_workers": 1,
            "resources": {"GPU": vm.gpus, name: 1},
            "node_config": _ours(node, request, cloud, "worker"),
        }
    place = provider(settings, cloud, regions.pop(), zones, project)
    cluster = cluster_of(request.run_id, len(request.vms), place, types, settings)
    cluster["idle_timeout_minutes"] = _IDLE_MINUTES
    if "docker" in cluster:  # the signs that keep a VM alive are left outside the container
        cluster["docker"]["run_options"].append(f"--volume={FOLDER}:{FOLDER}")
    # Ray's second autoscaler, the launcher's default, drops the cloud's answer when a node is
    # refused; the first one reports its code, by which the run knows what to do.
    cluster["head_start_ray_commands"] = [
        command.replace("ray start", "RAY_enable_autoscaler_v2=0 ray start")
        for command in cluster["head_start_ray_commands"]
    ]
    return cluster


def _ours(node: dict[str, Any], request: LaunchRequest, cloud: str, kind: str) -> dict[str, Any]:
    """Returns a node that is found again by its tags, and ends itself."""
    script = watchdog(request.hard_end_s, request.silence_s, _FIRST_S[kind])
    if cloud == "aws":
        tags = [{"Key": key, "Value": value} for key, value in request.tags()]
        return node | {
            # Volumes are billed too, and found by the same tags.
            "TagSpecifications": [
                {"ResourceType": what, "Tags": tags} for what in ("instance", "volume")
            ],
            # What shuts down from inside is gone, and costs nothing any more.
            "InstanceInitiatedShutdownBehavior": "terminate",
            "UserData": script,
        }
    return node | {
        "labels": {key: value.lower() for key, value in request.tags()},
        "metadata": {"items": [{"key": "startup-script", "value": script}]},
    }
