"""A worker that trains a small network with the package's own loop: `--trained` (needs torch).

python trainer.py STEPS STEPS_PER_SAVE DEALT LAST_STEPS

It notes which samples it was dealt, and ends, as `worker.py` does. Worker 0 writes the final
parameters into a file `final` beside DEALT.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset
from toy import BATCH

import srifty.training as st

_FEATURES, _CLASSES, _STEPS_PER_EPOCH = 16, 4, 20


class Points(Dataset[tuple[int, Tensor, Tensor]]):
    """Points around a few centres, with their places in the data set."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        count = BATCH * _STEPS_PER_EPOCH
        self.labels = torch.randint(_CLASSES, (count,), generator=generator)
        centres = torch.randn(_CLASSES, _FEATURES, generator=generator)
        noise = torch.randn(count, _FEATURES, generator=generator)
        self.points = centres[self.labels] + noise

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[int, Tensor, Tensor]:
        return index, self.points[index], self.labels[index]


def main() -> None:
    """Trains."""
    steps, every, dealt = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    last, go = steps - int(sys.argv[4]), dealt.with_name("go")
    stop_file = Path(os.environ.get("SRIFTY_STOP", "stop"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    share = st.current_share(global_batch=BATCH)
    dataset = Points()
    sampler = st.GlobalBatchSampler(dataset, share, epochs=-(-steps // _STEPS_PER_EPOCH))
    loader = DataLoader(dataset, batch_sampler=sampler)
    network = nn.Sequential(nn.Linear(_FEATURES, 32), nn.Tanh(), nn.Linear(32, _CLASSES))
    model = st.distribute(network, share)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run = st.Run(share, {"model": model, "optimizer": optimizer}, save_every=every)
    dealt.mkdir(exist_ok=True)
    with (dealt / f"{os.getpid()}-{time.time_ns()}").open("ab", buffering=0) as own:
        for step, batches in st.steps(loader, run, in_passes=True):
            while step == last and not go.exists() and not stop_file.exists():
                time.sleep(0.02)
            optimizer.zero_grad()
            indices: list[int] = []
            for places, points, labels in st.passes(model, batches):
                indices += places.tolist()
                losses = cross_entropy(model(points), labels, reduction="none")
                st.mean_loss(losses).backward()
            optimizer.step()
            line = {"step": int(step), "samples": indices, "at": time.time()}
            own.write(b"\n" + json.dumps(line).encode() + b"\n")
    if run.finished and share.rank == 0:
        values = torch.cat([value.detach().flatten() for value in network.parameters()])
        dealt.with_name("final").write_text(json.dumps(values.tolist()))


if __name__ == "__main__":
    main()
