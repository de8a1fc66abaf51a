"""What is asked of a Ray cluster for a launch, and what each VM's agent is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from srifty.cloud.backend import LaunchRequest
from srifty.cloud.clock import Clock
from srifty.cloud.export.ray_cluster import FOLDER as CODE
from srifty.cloud.local.run_folder import RunFolder, pool_document
from srifty.cloud.ray_backend import head
from srifty.cloud.ray_backend.agent import AgentSetup
from srifty.cloud.ray_backend.cluster_file import cluster_file, node_type
from srifty.cloud.ray_backend.watchdog import FOLDER

_AGENTS = "/tmp/srifty-{uid}"  # noqa: S108 - for its owner alone


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where a cluster's nodes come from.

    Attributes:
        are_rented: whether the cluster's autoscaler rents them; False: they are there already, such
            as those of a cluster of one's own, each with its resource.
        cloud: where they are rented.
        project: of Google Cloud.
        agents: folder of the agents' files on the VMs.
        end_command: what ends a rented VM from inside.
    """

    are_rented: bool = True
    cloud: str = "aws"
    project: str | None = None
    agents: str = _AGENTS
    end_command: tuple[str, ...] = ("sudo", "shutdown", "-h", "now")

    @property
    def signs(self) -> str:
        """Folder of the watchdog of a rented VM; empty: there is none."""
        return FOLDER if self.are_rented else ""

    def lacks(self, kind: str) -> bool:
        """Whether the cluster has an autoscaler, and this cannot make a node type."""
        return self.are_rented and head.is_head() and kind not in head.node_types()


def request_document(request: LaunchRequest, nodes: Nodes) -> dict[str, Any]:
    """Returns a launch as it is sent.

    Args:
        request: the launch.
        nodes: where the cluster's nodes come from.

    Raises:
        InputError: Ray cannot make such VMs.
    """
    settings = request.settings
    workdir = settings.workdir if nodes.are_rented else str(Path(settings.workdir).resolve())
    document: dict[str, Any] = {
        "run_id": request.run_id,
        "tags": dict(request.tags()),
        "hard_end_s": request.hard_end_s,
        "silence_s": request.silence_s,
        "workdir": workdir,
        "env": dict(settings.env),
        "secrets": list(settings.secrets),
        "vms": [
            {
                "vm": vm.vm,
                "token": request.token(vm.vm),
                "gpus": vm.gpus,
                "usd_per_hour": vm.usd_per_hour,
                "node_type": node_type(vm.pool),
                **pool_document(vm.pool),
            }
            for vm in request.vms
        ],
    }
    if nodes.are_rented:
        document["cluster"] = cluster_file(request, nodes.cloud, nodes.project)
    return document


def agent_setup(
    vm: Mapping[str, Any], launch: Mapping[str, Any], nodes: Nodes, run: RunFolder, clock: Clock
) -> dict[str, Any]:
    """Returns an `AgentSetup` as a mapping.

    Args:
        vm: the VM's entry in a launch.
        launch: what `request_document` returned.
        nodes: where the cluster's nodes come from.
        run: the run's files.
        clock: the run's.
    """
    is_told = nodes.are_rented and nodes.cloud == "aws" and vm["market"] == "spot"
    setup = AgentSetup(
        vm=vm["vm"],
        tag=f"{launch['run_id']}/{vm['vm']}@{run.path}",
        folder=f"{nodes.agents}/{launch['run_id']}/{vm['vm']}",
        workdir=CODE if nodes.are_rented else launch["workdir"],
        hard_end_unix_s=clock.unix_s(launch["hard_end_s"]),
        silence_s=launch["silence_s"] / clock.factor,
        notices="ec2" if is_told else "",
        end_command=nodes.end_command if nodes.are_rented else (),
        signs=nodes.signs,
    )
    return asdict(setup)
