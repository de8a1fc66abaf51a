"""What the lines around a table say: who took part, over which network, with which library."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

_RANK = re.compile(
    r"\bRank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+(\d+)\s+)?on\s+(\S+)\s+device\s+(\d+)"
    r"(?:\s+\[[^\]]*\]?)?\s*(.*)"
)
_DEVICE = re.compile(r"\bDevice\s+(\d+)\s*->\s*(\d+)\s*\[[^\]]*\]\s*(.*)")
_NRANKS = re.compile(r"\bn[rR]anks (\d+)\b")
_NNODES = re.compile(r"\bnNodes (\d+)\b")
_VERSION = re.compile(r"\b[NR]CCL version\s*:?\s+(\d+(?:\.\d+)+)")
_LIBRARY_CODE = re.compile(r"\b[nr]ccl-library=(\d+)")
_SET = re.compile(r"\b(NCCL_[A-Z0-9_]+) set (?:by environment )?to (\S+)")
_ASSIGNED = re.compile(r"\b(NCCL_[A-Z0-9_]+)=([^\s'\"\\;]+|\"[^\"]*\"|'[^']*')")
# What makes a line a command, not prose about settings.
_COMMAND = re.compile(r"\s-x\s|\bexport\s|\b(?:mpirun|mpiexec|srun)\s|_perf\b|--env\b|\benv\s")
_TOKEN_IN_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|KEY|CREDENTIAL")
_PROVIDER = re.compile(r"Selected [Pp]rovider is (\w+)")
_NETWORK = re.compile(r"\bUsing network ([\w/ -]+)")
_IB_PORT = re.compile(r"NET/IB : Using .*?/(RoCE|IB)\b")
# GPUs that come on boards wired with NVLink, whatever else the VM has.
_NVLINKED = re.compile(r"SXM|HBM3|\bGH200|\bGB[23]00|\bB[23]00|\bH200|\bHGX")
# Settings that change what is printed or which card is used, not how a collective is done.
_NOT_TUNING = re.compile(r"DEBUG|IFNAME|COMM_ID|HOSTID|TESTS|VERSION|ROOT|HOME|CONF_FILE|UNIQUE")


class RankLine(NamedTuple):
    """One line of a device list.

    Attributes:
        line: its number.
        rank: the rank.
        group: the group that the rank is in, where a job was split.
        pid: the process; empty where not printed.
        host: the host's name; empty where the list has none (one machine).
        device: index of the GPU.
        gpu: the GPU model.
    """

    line: int
    rank: int
    group: int
    pid: str
    host: str
    device: int
    gpu: str

    @property
    def place(self) -> tuple[str, str, int]:
        """What two lines of one rank must have in common."""
        return (self.host, self.pid, self.device)


def read_rank(number: int, line: str) -> RankLine | None:
    """Returns what a line of a device list says, or None where the line is none."""
    match = _RANK.search(line)
    if match is not None:
        rank, group, pid, host, device, gpu = match.groups()
        return RankLine(
            number,
            int(rank[:9]),
            int((group or "0")[:9]),
            pid or "",
            host,
            int(device[:9]),
            " ".join(gpu.split()),
        )
    match = _DEVICE.search(line)
    if match is not None:
        return RankLine(
            number, int(match[1][:9]), 0, "", "", int(match[2][:9]), " ".join(match[3].split())
        )
    return None


def read_nranks(line: str) -> int | None:
    """Returns the number of ranks of the communicator that a message of NCCL names."""
    match = _NRANKS.search(line)
    return int(match[1][:9]) if match else None


def read_nnodes(line: str) -> int | None:
    """Returns the number of machines that a message of NCCL names."""
    match = _NNODES.search(line)
    return int(match[1][:9]) if match else None


def read_iterations(line: str) -> int | None:
    """Returns the number of timed iterations that the line of options names."""
    match = re.search(r"warmup iters: \d+ iters: (\d+)", line)
    return int(match[1][:9]) if match else None


def version_of_code(code: int) -> str:
    """Returns the version that `NCCL_VERSION_CODE` stands for: 2708 is 2.7.8, 22907 is 2.29.7."""
    thousand = 10_000 if code >= 10_000 else 1_000
    return f"{code // thousand}.{code % thousand // 100}.{code % 100}"


@dataclass(slots=True)
class Facts:
    """What a whole log says about its software and network.

    Attributes:
        versions: versions of NCCL, in order of appearance.
        gpus: GPU models with the number of ranks on each.
        settings: `NCCL_*` settings, the last value of each.
        networks: what NCCL said that it uses.
        nvls: whether NVLink switches took part.
    """

    versions: list[str] = field(default_factory=list[str])
    gpus: Counter[str] = field(default_factory=Counter[str])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    networks: Counter[str] = field(default_factory=Counter[str])
    nvls: bool = False

    def note(self, line: str) -> None:
        """Takes in one line that mentions NCCL."""
        match = _VERSION.search(line)
        if match is not None:
            self.add_version(match[1])
        elif "ccl-library=" in line and (match := _LIBRARY_CODE.search(line)) is not None:
            self.add_version(version_of_code(int(match[1][:9])))
        if "NCCL_" in line:
            for name, value in _SET.findall(line):
                self.add_setting(name, value)
            if "=" in line and _COMMAND.search(line):
                for name, value in _ASSIGNED.findall(line):
                    self.add_setting(name, value)
        if "rovider is" in line and (match := _PROVIDER.search(line)) is not None:
            self.networks[match[1].lower()] += 1
        elif "Using network" in line and (match := _NETWORK.search(line)) is not None:
            self.networks[match[1].strip().lower()] += 1
        elif "NET/IB" in line and (match := _IB_PORT.search(line)) is not None:
            self.networks[match[1].lower()] += 1
        if "NVLS" in line and (
            "Connected NVLS" in line or "NVLS multicast support is available" in line
        ):
            self.nvls = True

    def add_version(self, version: str) -> None:
        """Notes a version of the library."""
        if version not in self.versions:
            self.versions.append(version)

    def add_setting(self, name: str, value: str) -> None:
        """Notes a setting, unless its name says that its value is secret."""
        if not _TOKEN_IN_NAME.search(name):
            self.settings[name] = value.strip("\"'").rstrip(".,")

    def transport(self, vms: int | None) -> str:
        """Returns what carried the data: `efa`, `tcp-socket`, `roce`, ... or an empty text.

        Args:
            vms: the number of VMs, where known.
        """
        if vms == 1:
            linked = self.nvls or any(_NVLINKED.search(gpu) for gpu in self.gpus)
            return "nvlink" if linked else ""
        said = self.networks
        if "efa" in said:
            return "efa"
        if "cxi" in said:
            return "slingshot"
        if "socket" in said:
            return "tcp-socket"
        if "roce" in said:
            return "roce"
        if "ib" in said:
            return "ib"
        if "aws libfabric" in said:
            return "efa"
        if "tcp" in said:
            return "tcp-libfabric"
        return next((name.replace(" ", "-") for name in said), "")

    def tuning(self) -> str:
        """Returns the settings that make the run an environment of its own, as one text."""
        return " ".join(
            f"{name}={value}"
            for name, value in sorted(self.settings.items())
            if not _NOT_TUNING.search(name)
        )
