"""Configurations and worlds as the ledger keeps them, and the world that a configuration makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srifty.cloud.backend import World, WorldVm
from srifty.control.fleet import FleetVm
from srifty.core.cluster import ClusterConfig, VmGroup
from srifty.core.events import Pool
from srifty.core.offers import Location, Market, Offer
from srifty.errors import InputError


def pool_record(pool: Pool) -> dict[str, Any]:
    """Returns a pool as JSON values."""
    return {
        "instance_type": pool.instance_type,
        "region": pool.location.region,
        "zone": pool.location.zone,
        "market": pool.market.value,
    }


def read_pool(record: Mapping[str, Any]) -> Pool:
    """Returns the pool that `pool_record` described."""
    location = Location(record["region"], record["zone"])
    return Pool(record["instance_type"], location, Market(record["market"]))


def config_record(config: ClusterConfig) -> list[dict[str, Any]]:
    """Returns a configuration as JSON values: pools and shares, no prices."""
    return [
        {
            **pool_record(Pool.of(group.offer)),
            "count": group.count,
            "samples_per_vm": group.samples_per_vm,
            "gpus_used": group.gpus_used,
            "accumulation": group.accumulation,
        }
        for group in config.groups
    ]


def read_config(record: Sequence[Mapping[str, Any]], offers: Sequence[Offer]) -> ClusterConfig:
    """Returns the configuration that `config_record` described.

    Args:
        record: what it returned.
        offers: where VMs come from, with their prices now.

    Raises:
        InputError: what the run rents is not on offer any more.
    """
    by_pool = {Pool.of(offer): offer for offer in offers}
    groups: list[VmGroup] = []
    for entry in record:
        pool = read_pool(entry)
        if pool not in by_pool:
            raise InputError(f"this run rents {pool}, which the job does not offer any more")
        groups.append(
            VmGroup(
                by_pool[pool],
                entry["count"],
                entry["samples_per_vm"],
                entry["gpus_used"],
                entry["accumulation"],
            )
        )
    return ClusterConfig(tuple(groups))


def world_of(
    generation: int,
    config: ClusterConfig,
    members: Sequence[FleetVm],
    command: Sequence[str],
    *,
    checkpoint: str | None = None,
    paces_s: Mapping[VmGroup, float] | None = None,
) -> World:
    """Returns the world of a configuration.

    Args:
        generation: its number.
        config: who processes what.
        members: its VMs in the order of the groups.
        command: the training script and its arguments.
        checkpoint: folder or URL of the checkpoints; None: the back end's own.
        paces_s: seconds of a step on a VM of each group, where GPUs are played.
    """
    vms: list[WorldVm] = []
    shares: list[str] = []
    for group in config.groups:
        passes = f"/{group.accumulation}" if group.accumulation > 1 else ""
        for _ in range(group.count):
            pace_s = None if paces_s is None else paces_s[group]
            vms.append(WorldVm(members[len(vms)].vm, group.gpus_used, pace_s))
            shares += [f"{batch}{passes}" for batch in group.local_batches]
    return World(generation, tuple(vms), tuple(command), ",".join(shares), checkpoint)


def world_record(world: World) -> dict[str, Any]:
    """Returns a world as JSON values."""
    return {
        "generation": world.generation,
        "vms": [[vm.vm, vm.workers, vm.pace_s] for vm in world.vms],
        "command": list(world.command),
        "shares": world.shares,
        "checkpoint": world.checkpoint,
    }


def read_world(record: Mapping[str, Any]) -> World:
    """Returns the world that `world_record` described."""
    return World(
        record["generation"],
        tuple(WorldVm(*vm) for vm in record["vms"]),
        tuple(record["command"]),
        record["shares"],
        record["checkpoint"],
    )
