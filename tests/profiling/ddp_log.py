"""What real DistributedDataParallel sends: `python -m tests.profiling.ddp_log RANK STORE OUT`.

Two processes of this join over a file and train every model under every setting. Rank 0 writes to
OUT, as JSON, the buckets that its communication hook was given in each iteration, and the error
that ended a run.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests.profiling.models import DDP_MODELS, loss

ITERATIONS = 3
LARGE = "adapted"


def settings(name):
    """Returns the arguments of DistributedDataParallel to try; fewer for the large model."""
    arguments = inspect.signature(DistributedDataParallel).parameters
    caps = [{}, {"bucket_cap_mb": 1}]
    if "bucket_cap_mb_list" in arguments and name != LARGE:
        caps.append({"bucket_cap_mb_list": [1, 4]})
    return [
        {"find_unused_parameters": find, "static_graph": static, **cap}
        for cap in caps
        for find in (False, True)
        for static in ((False,) if name == LARGE else (False, True))
    ]


def run(name, setting):
    """Returns the buckets of each iteration and what ended it."""
    case = DDP_MODELS[name]()
    names = {id(parameter): name for name, parameter in case.model.named_parameters()}
    ddp = DistributedDataParallel(case.model, **setting)
    log = []

    def hook(_, bucket):
        buffer = bucket.buffer()
        size = None if buffer.is_sparse else buffer.numel() * buffer.element_size()
        log.append([[names[id(parameter)] for parameter in bucket.parameters()], size])
        work = distributed.all_reduce(buffer, async_op=True).get_future()
        return work.then(lambda done: done.value()[0])

    ddp.register_comm_hook(None, hook)
    batch = case.make_batch(2)
    iterations = []
    for _ in range(ITERATIONS):
        log.clear()
        ddp.zero_grad()
        try:
            loss(ddp, batch).backward()
        except RuntimeError as error:
            return {"iterations": iterations, "error": str(error)}
        iterations.append(list(log))
    return {"iterations": iterations, "error": None}


def main():
    rank, store, out = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    distributed.init_process_group(
        "gloo",
        init_method=store.as_uri(),
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    rows = [
        {"model": name, "setting": setting, **run(name, setting)}
        for name in DDP_MODELS
        for setting in settings(name)
    ]
    if rank == 0:
        out.write_text(json.dumps(rows))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
