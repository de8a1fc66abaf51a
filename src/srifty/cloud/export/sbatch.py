"""A batch script for Slurm; VM groups become the components of a heterogeneous job."""

from __future__ import annotations

from srifty.cloud.export.deployment import Deployment, Exported
from srifty.cloud.export.shell import exports, heading, preparation, secrets, torchrun
from srifty.core.offers import Market
from srifty.core.written import WrittenGroup

_NAME = "train.sbatch"
_WORK = """\
work() {{  # the group's first VM, workers on each of its VMs
  local node=$(($1 + SLURM_NODEID))
{lines}
}}
export -f work"""
# The first group that fails ends the others, which would wait for it.
_WAIT = """\
status=0
for _ in "${groups[@]}"; do
  wait -n || { status=$?; break; }
done
for group in "${groups[@]}"; do kill "$group" 2>/dev/null || true; done
wait || true
exit "$status\""""


def export_sbatch(deployment: Deployment) -> Exported:
    """Returns the plan as a batch script."""
    plan = deployment.plan
    several = len(plan.groups) > 1
    hosts = "SLURM_JOB_NODELIST_HET_GROUP_0" if several else "SLURM_JOB_NODELIST"
    command = torchrun(deployment, node='"$node"', workers='"$2"', port='"$MASTER_PORT"')
    work = [f"  {line}" for line in (*preparation(deployment), command)]
    lines = [
        "#!/bin/bash",
        *_directives(deployment),
        *heading(deployment, f"Start it with: sbatch {_NAME}"),
        "set -euo pipefail",
        *secrets(deployment),
        *exports(deployment),
        f'read -r MASTER_ADDR < <(scontrol show hostnames "${hosts}")',
        "export MASTER_ADDR",
        "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))",
        _WORK.format(lines="\n".join(work)),
        "groups=()",
    ]
    for place, group in enumerate(plan.groups):
        component = f" --het-group={place}" if several else ""
        lines += [
            f"srun{component} --kill-on-bad-exit=1 "
            f"bash -euo pipefail -c 'work {plan.first_vm(place)} {group.workers}' &",
            "groups+=($!)",
        ]
    notes = [
        "--constraint names instance types: nodes of AWS ParallelCluster have them as features; "
        "elsewhere put in your own features, or partitions.",
        "The code, PyTorch and srifty must be where the job starts, on each node.",
    ]
    if any(group.market is Market.SPOT for group in plan.groups):
        notes.append("Whether a node is spot is its partition's matter: add --partition.")
    text = "\n".join([*lines, _WAIT]) + "\n"
    return Exported(text, _NAME, (f"sbatch {_NAME}",), tuple(notes))


def _directives(deployment: Deployment) -> list[str]:
    lines = [f"#SBATCH --job-name={deployment.name}", "#SBATCH --output=%x-%j.log"]
    for place, group in enumerate(deployment.plan.groups):
        if place:
            lines.append("#SBATCH hetjob")
        lines += _component(group)
    return lines


def _component(group: WrittenGroup) -> list[str]:
    return [
        f"#SBATCH --nodes={group.count}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={group.gpus}",
        f"#SBATCH --constraint={group.instance_type}",
        "#SBATCH --exclusive",
    ]
