"""A gloo group on this machine: `python -m tests.training.group MODULE WORLD OUT`.

Torch is imported once; the workers are forked before it has any threads. Each calls MODULE's
`work(rank, world_size)`; what rank 0's returns is written to OUT as JSON. If one worker fails, all
are ended and the exit code is 1.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

# Only for what would hang for ever: on a busy machine workers wait long for each other.
SILENCE = timedelta(seconds=500)


def worker(module, rank, world_size, store, out):
    os.setsid()  # with all that it starts, it can be ended at once
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size)}
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=world_size, timeout=SILENCE
    )
    found = module.work(rank, world_size)
    distributed.barrier()
    distributed.destroy_process_group()
    if rank == 0:
        Path(out).write_text(json.dumps(found))


def main():
    name, world_size, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    module = importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        store = (Path(folder) / "store").as_uri()
        context = multiprocessing.get_context("fork")
        workers = [
            context.Process(target=worker, args=(module, rank, world_size, store, out))
            for rank in range(world_size)
        ]
        for one in workers:
            one.start()
        left = {one.sentinel: one for one in workers}
        failed = False
        while left and not failed:
            for sentinel in multiprocessing.connection.wait(left):
                one = left.pop(sentinel)
                one.join()
                failed |= one.exitcode != 0
        if failed:
            # Loaders of a worker that was killed may wait for ever for a lock that it held.
            for one in workers:
                one.kill()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
