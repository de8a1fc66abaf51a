"""The parts of a shell script that several formats share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from srifty import __version__
from srifty.cloud.export.deployment import Deployment

PORT = 29500


def heading(deployment: Deployment, *usage: str) -> list[str]:
    """Returns comment lines: what this is, how it is used, and which VM does what."""
    plan = deployment.plan
    what = f"{plan.job}: {plan.config} (srifty {__version__})"
    lines = [what, *usage, *deployment.describe()]
    return [f"# {printable(line)}" for line in lines]


def printable(line: str) -> str:
    """Returns a text that stays in its line of comments."""
    return "".join(letter if letter.isprintable() else " " for letter in line)


def exports(deployment: Deployment) -> list[str]:
    """Returns lines that set the workers' variables."""
    return [f"export {name}={shlex.quote(value)}" for name, value in deployment.variables()]


def secrets(deployment: Deployment) -> list[str]:
    """Returns lines that stop a script whose secrets are not set, and hand them on."""
    lines: list[str] = []
    for name in deployment.plan.settings.secrets:
        lines += [f': "${{{name}:?is a secret of this job; set it before you start}}"']
        lines += [f"export {name}"]
    return lines


def preparation(deployment: Deployment) -> list[str]:
    """Returns the set-up commands, in the folder that holds the code."""
    settings = deployment.plan.settings
    folder = [] if settings.workdir == "." else [f"cd -- {shlex.quote(settings.workdir)}"]
    return [*folder, *settings.setup]


def torchrun(
    deployment: Deployment,
    *,
    node: str,
    workers: str,
    address: str = '"$MASTER_ADDR"',
    port: str = f'"${{MASTER_PORT:-{PORT}}}"',
) -> str:
    """Returns the command that starts one VM's workers.

    The rendezvous is static: a VM's rank follows from its place in the plan, and so does each
    worker's share. VMs may have different numbers of workers.

    Args:
        deployment: what is run.
        node: shell expression for the VM's number.
        workers: shell expression for the number of its workers.
        address: shell expression for VM 0.
        port: shell expression for a free port there.
    """
    parts = [
        "torchrun",
        f"--nnodes={deployment.plan.vms}",
        f"--node-rank={node}",
        f"--nproc-per-node={workers}",
        f"--master-addr={address}",
        f"--master-port={port}",
        quoted(deployment.command),
    ]
    return " ".join(parts)


def quoted(words: Sequence[str]) -> str:
    """Returns words as a shell takes them for just these words."""
    return " ".join(map(shlex.quote, words))


def workers_by_node(deployment: Deployment) -> list[str]:
    """Returns lines that set `workers` from the number in `node`, or end the script."""
    plan = deployment.plan
    lines: list[str] = []
    for place, group in enumerate(plan.groups):
        word = "if" if place == 0 else "elif"
        end = plan.first_vm(place) + group.count
        lines += [f"{word} ((node < {end})); then", f"  workers={group.workers}"]
    return [
        *lines,
        "else",
        f'  echo "there are {plan.vms} VMs, 0 to {plan.vms - 1}, not $node" >&2',
        "  exit 2",
        "fi",
    ]
