"""The cluster file of a run on Ray, and the commands that go on from it."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from srifty.cli._workbench import Workbench
from srifty.cloud.backend import LaunchRequest, VmRequest
from srifty.cloud.export.ray_cluster import FOLDER
from srifty.cloud.export.yaml_text import dump_yaml
from srifty.cloud.ray_backend import cluster_file
from srifty.core.events import Pool
from srifty.core.offers import Market, Offer

_JOB = "~/srifty_job"


def project_of_google() -> str | None:
    """Returns the project of Google Cloud that pays, as its own tools are told."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT")


def cluster_text(
    bench: Workbench, offers: Sequence[Offer], run_id: str, hard_end_s: float, job_path: Path
) -> str:
    """Returns the cluster file with a node type for each offer that the run may ever ask for.

    Args:
        bench: of the job.
        offers: what can be rented.
        run_id: the run's name.
        hard_end_s: seconds after which its VMs end themselves.
        job_path: the job file; its folder goes to the head.

    Raises:
        InputError: Ray cannot make such VMs.
    """
    usable = [
        offer
        for offer in offers
        if offer.market is not Market.OWNED and offer.instance_type.gpu in bench.latencies
    ]
    vms = tuple(
        VmRequest(
            f"vm-{place}-{number}", Pool.of(offer), offer.instance_type.gpus, offer.usd_per_hour
        )
        for place, offer in enumerate(usable, 1)
        for number in range(min(offer.most_vms, bench.job.global_batch))
    )
    request = LaunchRequest(
        run_id, getpass.getuser(), vms, hard_end_s, settings=bench.file.settings
    )
    cluster = cluster_file(request, bench.file.supply.cloud, project_of_google())
    cluster["file_mounts"][_JOB] = str(job_path.resolve().parent)
    return dump_yaml(
        cluster,
        f"# The cluster of the run {run_id}: a head, and no VM that the run does not ask for.",
        "# Every VM ends itself when the run is not heard of, and at its hard end.",
    )


def cluster_commands(
    path: Path, run_id: str, options: Sequence[str], job_path: Path, command: Sequence[str]
) -> list[str]:
    """Returns the commands that bring the cluster up, start the run on its head, and end it all.

    Args:
        path: of the cluster file.
        run_id: the run's name.
        options: of `srifty run` that the run is to have there too.
        job_path: the job file.
        command: the training script, seen from the code's folder, and its arguments.
    """
    words = ["srifty", "run", "--yes", "--backend", "ray", "--name", run_id, *options]
    job = f"{_JOB}/{shlex.quote(job_path.name)}"
    run = f"cd {FOLDER} && {shlex.join(words)} {job} -- {shlex.join(command)}"
    file = shlex.quote(str(path))
    return [
        f"ray up -y {file}",
        f"ray exec --tmux {file} {shlex.quote(run)}",
        f"ray exec {file} {shlex.quote(f'srifty status {run_id}')}",
        f"ray down -y {file}",
    ]
