"""The VMs' logs on the controller's machine: what agents append there, appended here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from srifty.cloud.backend import WorkerLines
from srifty.cloud.local.run_folder import RunFolder
from srifty.cloud.ray_backend.session import RaySession

# A place in a rank's log: its generation, and bytes within that.
_PLACES = 1 << 40


class Mirror:
    """Copies of the logs of all VMs; how much of a log is here is the copy's size.

    Args:
        run: the run's folder.
        session: for the agents.
    """

    def __init__(self, run: RunFolder, session: RaySession) -> None:
        self._run = run
        self._session = session

    def log(self, vm: str, generation: int) -> Path:
        """Returns where the copy of what a VM's workers print is."""
        return self._folder(vm) / f"workers-{generation:06d}.log"

    def fetch(self, vms: Sequence[str]) -> None:
        """Appends what VMs have more than we do."""
        for vm in vms:
            folder = self._folder(vm)
            sizes = {
                str(path.relative_to(folder)): path.stat().st_size
                for path in folder.rglob("*")
                if path.is_file()
            }
            more: dict[str, bytes] = self._session.get(vm, "read_more", sizes).value or {}
            for name, data in more.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab") as file:
                    file.write(data)

    def lines(self, after: Mapping[int, int]) -> list[WorkerLines]:
        """Returns the steps that workers logged, rank by rank, through all generations."""
        logs: dict[int, dict[int, Path]] = {}
        for path in self._run.vms.glob("*/mirror/progress-*/worker-*.jsonl"):
            rank = int(path.stem.removeprefix("worker-"))
            generation = int(path.parent.name.removeprefix("progress-"))
            logs.setdefault(rank, {})[generation] = path
        found: list[WorkerLines] = []
        for rank, paths in sorted(logs.items()):
            place = after.get(rank, 0)
            lines: list[str] = []
            for generation, path in sorted(paths.items()):
                start, offset = divmod(place, _PLACES)
                if generation < start:
                    continue
                offset = offset if generation == start else 0
                with path.open("rb") as file:
                    file.seek(offset)
                    whole, end, _ = file.read().rpartition(b"\n")
                if end:
                    lines += [line for line in whole.decode(errors="replace").split("\n") if line]
                    place = generation * _PLACES + offset + len(whole) + 1
            if lines:
                found.append(WorkerLines(rank, place, tuple(lines)))
        return found

    def _folder(self, vm: str) -> Path:
        return self._run.vm(vm).path / "mirror"
