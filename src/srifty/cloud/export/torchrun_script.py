"""A script that is started on each VM with the VM's number."""

from __future__ import annotations

from srifty.cloud.export.deployment import Deployment, Exported
from srifty.cloud.export.shell import (
    exports,
    heading,
    preparation,
    secrets,
    torchrun,
    workers_by_node,
)


def export_torchrun(deployment: Deployment) -> Exported:
    """Returns the plan as one script for all VMs."""
    lines = [
        "#!/usr/bin/env bash",
        *heading(
            deployment,
            f"On each VM: MASTER_ADDR=<address of VM 0> bash {_NAME} <number of this VM>",
        ),
        "set -euo pipefail",
        'node="${1:?is missing: the number of this VM}"',
        '[[ "$node" =~ ^(0|[1-9][0-9]{0,8})$ ]] || { echo "no number: $node" >&2; exit 2; }',
        ': "${MASTER_ADDR:?is missing: the address of VM 0, as the other VMs reach it}"',
        *workers_by_node(deployment),
        *secrets(deployment),
        *exports(deployment),
        *preparation(deployment),
        "exec " + torchrun(deployment, node='"$node"', workers='"$workers"'),
    ]
    return Exported(
        "\n".join(lines) + "\n",
        _NAME,
        (f"MASTER_ADDR=<address of VM 0> bash {_NAME} <number of the VM>    # on each VM",),
        (
            "Rent the VMs as the heading numbers them; they must reach each other on all ports.",
            "The code must be on each VM, and so must PyTorch and srifty.",
        ),
    )


_NAME = "train.sh"
