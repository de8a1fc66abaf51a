"""What the bed's probes and profiles would show, by its own figures: for tests without a bed."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

from benchmarks.paper.bed_jobs import KINDS, BedCase
from benchmarks.testbed.layers import layers_of
from benchmarks.testbed.learn import gpu_name, profile_path
from benchmarks.testbed.pace import FORWARD_SHARE, pace_of

HEAD = "cloud,instance_type,gpu,nodes,gpus_per_node,world_size,nccl_version,size_bytes,time_us"


def write_profiles(case: BedCase, folder: Path) -> None:
    """Writes a profile of the case's model on each of its GPUs."""
    folder.mkdir(exist_ok=True)
    for name, _ in case.quota:
        gpu, most = KINDS[name].gpu, min(case.most(name), case.global_batch)
        pace = pace_of(case.model, gpu)
        batches = sorted({1, *(1 << p for p in range(most.bit_length())), most})
        layers = list(enumerate(layers_of(case.model)))[::-1]
        ready = accumulate(layer.share for _, layer in layers)
        document = {
            "format": "srifty-profile/1",
            "workload": case.model,
            "gpu": gpu_name(gpu),
            "precision": "fp32",
            "latencies": [
                {
                    "batch": batch,
                    "forward_s": FORWARD_SHARE * pace.passes_s(batch),
                    "backward_s": (1 - FORWARD_SHARE) * pace.passes_s(batch),
                    "optimizer_s": pace.optimizer_s,
                    "std_s": 0.0,
                    "steps": 20,
                }
                for batch in batches
            ],
            "max_batch": most,
            "gradients": [
                {"name": f"weights.{at}", "bytes": 4 * layer.elements, "ready": min(share, 1.0)}
                for (at, layer), share in zip(layers, ready, strict=True)
            ],
            "spatial_std_fraction": 0.0,
        }
        path = profile_path(folder, case.model, gpu)
        path.write_text(json.dumps(document), encoding="utf-8")


def write_samples(path: Path) -> None:
    """Writes allreduces of all types over links as fast as they should be."""
    lines = [HEAD]
    for kind in KINDS.values():
        for n in (2, 4, 8, 16):
            for power in range(12, 25, 2):
                size = 1 << power
                bytes_s = 2 * size * (n - 1) / n / (kind.rate_mbit * 1e6 / 8)
                time_s = max(1e-4 * n, bytes_s)
                gpu = gpu_name(kind.gpu)
                lines.append(f"aws,{kind.name},{gpu},{n},1,{n},,{size},{time_s * 1e6:.1f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
