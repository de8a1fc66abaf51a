"""The workers of many configurations, grouped by what they do, with their times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from srifty.compute.latency import LatencyModel
from srifty.simulator.tables import ConfigTable

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class WorkerGroups:
    """Equal workers of each configuration; (R, H) arrays, 0 workers for an absent group.

    Attributes:
        gpus: names of GPU models.
        gpu: which of them the workers have.
        micro_batch: samples in the last pass.
        workers: number of workers.
        before_s: A_i + f_i, from the start of the iteration to the last backward pass.
        forward_s: forward part of all passes.
        backward_s: b_i, the last backward pass.
        step_std: spread from step to step, fraction.
        spatial_std: spread between GPUs, fraction.
        model_std: error of the latency model, fraction.
        optimizer_s: optimizer step.
    """

    gpus: tuple[str, ...]
    gpu: IntArray
    micro_batch: IntArray
    workers: FloatArray
    before_s: FloatArray
    forward_s: FloatArray
    backward_s: FloatArray
    step_std: FloatArray
    spatial_std: FloatArray
    model_std: FloatArray
    optimizer_s: FloatArray


_TIMES = tuple(
    field.name
    for field in fields(WorkerGroups)
    if field.name not in ("gpus", "gpu", "micro_batch", "workers")
)


def worker_groups(latency: Mapping[str, LatencyModel], configs: ConfigTable) -> WorkerGroups:
    """Returns the equal workers of each configuration, with their times.

    A VM's samples are dealt evenly, so each VM group becomes the workers with one sample more
    and the others.
    """
    least = configs.samples_per_vm // configs.gpus_used
    extra = configs.samples_per_vm - least * configs.gpus_used
    offer, accumulation = configs.offer, configs.accumulation
    workers = configs.count * (configs.gpus_used - extra)
    batch = least
    if extra.any():
        workers = np.concatenate([workers, configs.count * extra], axis=1)
        batch = np.concatenate([least, least + 1], axis=1)
        offer = np.concatenate([offer, offer], axis=1)
        accumulation = np.concatenate([accumulation, accumulation], axis=1)
    shape = workers.shape
    several = np.broadcast_to(workers.sum(axis=1, keepdims=True) > 1, shape)
    columns = {name: np.zeros(shape) for name in _TIMES}
    of_offers = [o.instance_type.gpu for o in configs.offers]
    gpus = tuple(dict.fromkeys(of_offers))
    gpu = np.array([gpus.index(name) for name in of_offers], dtype=np.int64)[offer]
    for index, name in enumerate(gpus):
        here = (gpu == index) & (workers > 0)
        if here.any():
            values = _pass_times(latency[name], batch[here], accumulation[here], several[here])
            for column, value in values.items():
                columns[column][here] = value
    return WorkerGroups(
        gpus=gpus,
        gpu=gpu,
        # The larger passes come first.
        micro_batch=batch // accumulation,
        workers=workers.astype(np.float64),
        **columns,
    )


def _pass_times(
    model: LatencyModel, batch: IntArray, accumulation: IntArray, several: BoolArray
) -> dict[str, FloatArray]:
    """Returns the columns of `WorkerGroups` for workers of one GPU model.

    A local batch that its passes do not divide makes the first passes one sample larger. `several`
    marks workers that are not alone.
    """
    pace = 1 + model.contention_fraction * several
    least = batch // accumulation
    larger = batch - least * accumulation
    micro = least.astype(np.float64)
    forward_s = pace * model.forward.predict(micro)
    backward_s = pace * model.backward.predict(micro)
    before_s = forward_s + (accumulation - 1) * (forward_s + backward_s)
    all_forward_s = accumulation * forward_s
    if larger.any():
        more_forward = pace * model.forward.predict(micro + 1) - forward_s
        more_backward = pace * model.backward.predict(micro + 1) - backward_s
        before_s = before_s + larger * (more_forward + more_backward)
        all_forward_s = all_forward_s + larger * more_forward
    return {
        "before_s": before_s,
        "forward_s": all_forward_s,
        "backward_s": backward_s,
        "step_std": np.full(len(batch), model.step_std_fraction),
        "spatial_std": np.full(len(batch), model.spatial_std_fraction),
        "model_std": np.full(len(batch), model.model_std_fraction),
        "optimizer_s": np.full(len(batch), model.optimizer_s),
    }
