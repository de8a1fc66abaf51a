"""A job that loses VMs, played second by second of what happens: the closed forms' oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Played:
    """Many runs of one job.

    Attributes:
        time_s: seconds of each run from running to stop.
        losses: VMs lost in each.
        billed_vm_s: billed seconds of all VMs that can be lost, in each.
    """

    time_s: np.ndarray
    losses: np.ndarray
    billed_vm_s: np.ndarray


def play(
    vms: int,
    hazard_per_vm_s: float,
    stretches_s: list[tuple[float, float]],
    gone_s: float,
    runs: int,
    seed: int,
) -> Played:
    """Returns runs in which each VM is lost on its own, but not while it is being replaced.

    Args:
        vms: VMs that can be lost.
        hazard_per_vm_s: losses of one VM per second.
        stretches_s: work between checkpoints, saving included, each with the seconds from the
            moment when a replacement runs until work goes on.
        gone_s: seconds until a lost VM's replacement runs.
        runs: how many runs.
        seed: of the random draws.
    """
    rng = np.random.default_rng(seed)
    each = [_run(rng, vms, hazard_per_vm_s, stretches_s, gone_s) for _ in range(runs)]
    return Played(*np.array(each).T)


def _run(rng, vms, hazard, stretches_s, gone_s):
    clock, losses = 0.0, 0
    # When each VM is lost next; one that runs again draws anew.
    lost_at = list(rng.exponential(1 / hazard, vms))
    for stretch_s, restart_s in stretches_s:
        end = clock + stretch_s
        while min(lost_at) < end:
            ready = 0.0
            while not ready or min(lost_at) < ready:
                first = min(range(vms), key=lost_at.__getitem__)
                losses += 1
                ready = lost_at[first] + gone_s + restart_s
                lost_at[first] += gone_s + rng.exponential(1 / hazard)
            end = ready + stretch_s
        clock = end
    return clock, losses, vms * clock - losses * gone_s
