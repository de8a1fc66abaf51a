"""An ordinary torchrun script with the lines that the documentation shows; prints one line."""

import json
import sys

import torch
from torch.nn import functional

import srifty.training as st
from tests.training.cases import FEATURES


def main():
    torch.set_num_threads(1)
    share = st.current_share(global_batch=8)
    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, 3).double()
    x, y = torch.randn(8, FEATURES).double() ** 3, torch.randint(3, (8,))

    def loss(model, part):
        x, y = part
        return st.mean_loss(functional.cross_entropy(model(x), y, reduction="none"))

    proof = st.verify(model, loss, (x, y), share)
    model = st.distribute(model, share)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    here = slice(share.start, share.start + share.local_batch)
    for _ in range(5):
        optimizer.zero_grad()
        loss(model, (x[here], y[here])).backward()
        optimizer.step()
    if share.rank == 0:
        weights = [p.detach().flatten().tolist() for p in model.parameters()]
        found = {"proof": str(proof), "agrees": proof.agrees, "weights": weights}
        sys.stdout.write(json.dumps(found))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
