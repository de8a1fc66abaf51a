"""Starts the workers of a plan on a Ray cluster: one actor for each VM runs torchrun there.

`srifty export --format ray` writes this file's text into the cluster file, so it needs Ray and
nothing of Srifty's. Run on the cluster: `python on_ray.py world.json`. Exits with 0 when all
workers ended well, 1 when a worker failed or a VM was lost, 2 when a secret is not set.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_WAIT_S = 1800.0
_LOOK_S = 2.0
_STOP_S = 30.0

ray: Any = importlib.import_module("ray")


class Vm:
    """Runs torchrun on the VM that it was placed on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def address(self) -> tuple[str, int]:
        """Returns the VM's address and a port that is free there."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def run(self, arguments: list[str], variables: dict[str, str], folder: str) -> int:
        """Runs torchrun to its end and returns its exit code; what it prints goes to Ray's log."""
        command = [sys.executable, "-m", "torch.distributed.run", *arguments]
        self._process = subprocess.Popen(  # noqa: S603 - what the plan's owner asks for
            command,
            env=os.environ | variables,
            cwd=Path(folder).expanduser(),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if self._process.stdout is not None:
            for line in self._process.stdout:
                sys.stdout.write(line.decode(errors="replace"))
                sys.stdout.flush()
        return self._process.wait()

    def stop(self) -> None:
        """Ends torchrun and its workers, if they run."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)


def main() -> int:
    """Runs the world that a file describes and returns the exit code."""
    world = json.loads(Path(sys.argv[1]).expanduser().read_text(encoding="utf-8"))
    missing = [name for name in world["secrets"] if name not in os.environ]
    if missing:
        sys.stderr.write(f"secrets that are not set: {', '.join(missing)}\n")
        return 2
    variables = dict(world["variables"]) | {name: os.environ[name] for name in world["secrets"]}
    ray.init(address="auto")
    _wait_for(world["vms"])
    actor = ray.remote(Vm)
    vms = [
        actor.options(
            num_cpus=0,
            num_gpus=vm["workers"],  # Ray hides the GPUs that an actor did not ask for
            resources={vm["resource"]: 1},
            max_concurrency=2,  # so that a run can be stopped
        ).remote()
        for vm in world["vms"]
    ]
    address, port = ray.get(vms[0].address.remote())
    runs: list[Any] = []
    for node, (vm, handle) in enumerate(zip(world["vms"], vms, strict=True)):
        arguments = [
            f"--nnodes={len(vms)}",
            f"--node-rank={node}",
            f"--nproc-per-node={vm['workers']}",
            f"--master-addr={address}",
            f"--master-port={port}",
            *world["command"],
        ]
        runs.append(handle.run.remote(arguments, variables, world["folder"]))
    return _await_all(vms, runs)


def _wait_for(vms: list[dict[str, Any]]) -> None:
    """Returns once all VMs of the plan have joined the cluster; raises `TimeoutError` if not."""
    wanted: dict[str, int] = {}
    for vm in vms:
        wanted[vm["resource"]] = wanted.get(vm["resource"], 0) + 1
    end = time.monotonic() + _WAIT_S
    while True:
        have: dict[str, float] = ray.cluster_resources()
        short = {name: count for name, count in wanted.items() if have.get(name, 0) < count}
        if not short:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"VMs that did not come within {_WAIT_S:.0f} s: {short}")
        time.sleep(_LOOK_S)


def _await_all(vms: list[Any], runs: list[Any]) -> int:
    """Returns 0 once all ended well; at the first that did not, stops the others and returns 1."""
    left = list(runs)
    while left:
        done, left = ray.wait(left, num_returns=1)
        try:
            code = ray.get(done[0])
        except ray.exceptions.RayError as error:
            sys.stderr.write(f"VM {runs.index(done[0])} was lost: {error}\n")
            code = 1
        if code:
            sys.stderr.write(f"VM {runs.index(done[0])} ended with {code}; the others stop\n")
            stops = [vm.stop.remote() for run, vm in zip(runs, vms, strict=True) if run in left]
            if stops:
                ray.wait(stops, num_returns=len(stops), timeout=_STOP_S)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
