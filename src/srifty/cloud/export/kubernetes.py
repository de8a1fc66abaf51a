"""A JobSet for Kubernetes: one indexed job for each VM group, one pod for each VM.

Fields are those of jobset.x-k8s.io/v1alpha2; JobSet gives each pod the host name
`<set>-<job>-<job index>-<pod index>` in the set's own subdomain.
"""

from __future__ import annotations

from typing import Any

from srifty.cloud.export.deployment import Deployment, Exported, is_zone_id
from srifty.cloud.export.machines import machine_of
from srifty.cloud.export.shell import PORT, heading, preparation, quoted, torchrun
from srifty.cloud.export.yaml_text import dump_yaml
from srifty.core.offers import Market
from srifty.core.written import WrittenGroup

IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
_NAME = "jobset.yaml"
_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
_ZONE_ID = "topology.k8s.aws/zone-id"
# By which label and value a node is known to be spot: several, of which a cluster has one.
_KARPENTER = ("karpenter.sh/capacity-type", "spot")
_SPOT = {
    "aws": (_KARPENTER, ("eks.amazonaws.com/capacityType", "SPOT")),
    "gcp": (("cloud.google.com/gke-spot", "true"),),
    "azure": (_KARPENTER, ("kubernetes.azure.com/scalesetpriority", "spot")),
}
# How often a set starts again from its checkpoint after a pod failed, or its node was taken.
_RESTARTS = 10


def export_kubernetes(deployment: Deployment) -> Exported:
    """Returns the plan as a JobSet."""
    plan = deployment.plan
    name = deployment.name
    spec: dict[str, Any] = {
        "network": {
            "enableDNSHostnames": True,
            "subdomain": name,
            "publishNotReadyAddresses": True,
        },
        "replicatedJobs": [
            _job(deployment, place, group) for place, group in enumerate(plan.groups)
        ],
    }
    if plan.settings.checkpoint is not None:
        spec["failurePolicy"] = {"maxRestarts": _RESTARTS}
    metadata: dict[str, Any] = {"name": name, "labels": {"srifty-job": name}}
    metadata["annotations"] = {"srifty/plan": plan.config} | {
        f"srifty/tags.{place}": f"{key}={value}"
        for place, (key, value) in enumerate(plan.settings.tags)
    }
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": spec,
    }
    start = (*_secret_command(deployment), f"kubectl apply -f {_NAME}")
    text = dump_yaml(document, *heading(deployment, *(f"Start it with: {line}" for line in start)))
    return Exported(text, _NAME, start, tuple(_notes(deployment)))


def _job(deployment: Deployment, place: int, group: WrittenGroup) -> dict[str, Any]:
    return {
        "name": f"g{place}",
        "replicas": 1,
        "template": {
            "spec": {
                "completionMode": "Indexed",
                "completions": group.count,
                "parallelism": group.count,
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": {"srifty-job": deployment.name}},
                    "spec": _pod(deployment, place, group),
                },
            }
        },
    }


def _pod(deployment: Deployment, place: int, group: WrittenGroup) -> dict[str, Any]:
    name = deployment.name
    command = torchrun(
        deployment,
        node=f'"$(({deployment.plan.first_vm(place)} + JOB_COMPLETION_INDEX))"',
        workers=str(group.workers),
        address=f"{name}-g0-0-0.{name}",
        port=str(PORT),
    )
    script = "\n".join(["set -euo pipefail", *preparation(deployment), f"exec {command}", ""])
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "affinity": _affinity(name, group),
        "tolerations": _tolerations(group),
        "containers": [
            {
                "name": "workers",
                "image": deployment.plan.settings.image or IMAGE,
                "command": ["bash", "-c", script],
                "env": _environment(deployment),
                "resources": {"limits": {"nvidia.com/gpu": group.gpus}},
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
            }
        ],
        # Data loaders hand over batches in shared memory; a container has 64 MB of it.
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return spec


def _environment(deployment: Deployment) -> list[dict[str, Any]]:
    # A pod often cannot reach the service that tells of interruptions; kubelet's signal does.
    plain = [{"name": n, "value": v} for n, v in deployment.variables(notices=False)]
    secret = [
        {"name": n, "valueFrom": {"secretKeyRef": {"name": _secret_name(deployment), "key": n}}}
        for n in deployment.plan.settings.secrets
    ]
    return [*plain, *secret]


def _affinity(name: str, group: WrittenGroup) -> dict[str, Any]:
    """Returns where a pod goes: a node of the plan's type, place and market, and no two on one."""
    alone = {
        "labelSelector": {"matchLabels": {"srifty-job": name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity: dict[str, Any] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}
    }
    if group.market is Market.OWNED:  # such nodes have no labels that are known to us
        return affinity
    place = [_is(_TYPE, machine_of(group).name)]
    zone = group.location.zone
    if zone is not None:
        place.append(_is(_ZONE_ID if is_zone_id(zone) else _ZONE, zone))
    spot = _SPOT.get(group.cloud or "", (_KARPENTER,))
    if group.market is Market.SPOT:
        terms = [{"matchExpressions": [*place, _is(*label)]} for label in spot]
    else:
        others = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in spot]
        terms = [{"matchExpressions": [*place, *others]}]
    affinity["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }
    return affinity


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


def _tolerations(group: WrittenGroup) -> list[dict[str, Any]]:
    keys = ["nvidia.com/gpu"]
    if group.market is Market.SPOT:
        keys += [key for key, _ in _SPOT.get(group.cloud or "", (_KARPENTER,))]
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _secret_name(deployment: Deployment) -> str:
    return f"{deployment.name}-secrets"


def _secret_command(deployment: Deployment) -> tuple[str, ...]:
    names = deployment.plan.settings.secrets
    if not names:
        return ()
    values = " ".join(f'--from-literal={name}="${name}"' for name in names)
    return (f"kubectl create secret generic {quoted([_secret_name(deployment)])} {values}",)


def _notes(deployment: Deployment) -> list[str]:
    settings = deployment.plan.settings
    notes = [
        "The cluster needs the JobSet controller, NVIDIA's device plugin, and nodes of these types "
        "(or an autoscaler that makes them)."
    ]
    if settings.image is None:
        notes.append(
            f"No image is named, so {IMAGE} is used: it holds neither your code nor srifty. Name "
            "one in run.image, or fetch them in run.setup."
        )
    if settings.checkpoint is None:
        notes.append(
            "Nothing is kept when a pod fails: name run.checkpoint, a place that all pods reach, "
            "and the set starts again from there."
        )
    if any(group.market is Market.OWNED for group in deployment.plan.groups):
        notes.append("Nodes of your own are chosen by their GPUs alone: add a nodeSelector.")
    return notes
