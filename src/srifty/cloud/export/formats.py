"""The formats by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from srifty.cloud.export.deployment import Deployment, Exported
from srifty.cloud.export.kubernetes import export_kubernetes
from srifty.cloud.export.ray_cluster import export_ray
from srifty.cloud.export.sbatch import export_sbatch
from srifty.cloud.export.skypilot import export_skypilot
from srifty.cloud.export.torchrun_script import export_torchrun


class ExportFormat(StrEnum):
    """Whose words a plan is put in."""

    TORCHRUN = "torchrun"
    RAY = "ray"
    SBATCH = "sbatch"
    KUBERNETES = "kubernetes"
    SKYPILOT = "skypilot"


FORMATS: Mapping[ExportFormat, Callable[[Deployment], Exported]] = {
    ExportFormat.TORCHRUN: export_torchrun,
    ExportFormat.RAY: export_ray,
    ExportFormat.SBATCH: export_sbatch,
    ExportFormat.KUBERNETES: export_kubernetes,
    ExportFormat.SKYPILOT: export_skypilot,
}


def export(deployment: Deployment, kind: ExportFormat) -> Exported:
    """Returns a plan in a launcher's own words.

    Raises:
        InputError: the launcher cannot start such a plan.
    """
    return FORMATS[ExportFormat(kind)](deployment)
