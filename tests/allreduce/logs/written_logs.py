"""Logs as nccl-tests of each era would write them, from made-up measurements.

The times come from `latency + bytes on the bus / rate` with noise; every figure is then printed and
rounded as the tool does it, so that what a reader must find is known to the digit.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

TYPES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "char": 1, "int": 4, "int8": 1}
ERAS = ("nccl1", "2018", "2019", "2022", "2025", "2026")
SIZES = tuple(4**k for k in range(2, 15))


@dataclass(frozen=True)
class Job:
    """One run of a test.

    Attributes:
        era: the version of the tool, by year.
        vms: number of machines.
        gpus: GPUs per machine.
        sizes: message sizes, bytes.
        dtype: element type.
        redop: reduction.
        collective: which test.
        latency_us: time of a message of no size.
        rate_gbps: bytes per second on the bus, GB/s.
        checked: whether results were verified.
        timestamps: whether each row ends with a time of day (2025 on).
        seed: of the noise.
    """

    era: str = "2022"
    vms: int = 2
    gpus: int = 8
    sizes: tuple[int, ...] = SIZES
    dtype: str = "float"
    redop: str = "sum"
    collective: str = "all_reduce"
    latency_us: float = 31.0
    rate_gbps: float = 40.0
    checked: bool = True
    timestamps: bool = False
    seed: int = 0

    @property
    def ranks(self) -> int:
        return self.vms * self.gpus


@dataclass(frozen=True)
class Half:
    time: str
    algbw: str
    busbw: str
    check: str


@dataclass(frozen=True)
class Row:
    size: int
    count: int
    halves: tuple[Half, Half]


@dataclass
class Written:
    """A log and what it says.

    Attributes:
        job: the run.
        lines: the log's lines.
        rows: the rows printed.
        first_row: index of the first row among the lines.
    """

    job: Job
    lines: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    first_row: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def truth(self) -> list[tuple[int, bool, float]]:
        """Size, in-place flag and seconds of every measurement."""
        unit_s = 1e-3 if self.job.era in ("nccl1", "2018") else 1e-6
        return [
            (row.size, k == 1, float(half.time) * unit_s)
            for row in self.rows
            for k, half in enumerate(row.halves)
        ]


def found(log) -> list[tuple[int, bool, float]]:
    """Returns of a parsed log what `Written.truth` says of a written one."""
    return [(row.size_bytes, row.in_place, row.time_s) for row in log.rows]


def significant(value: float, width: int) -> str:
    for digits in (2, 1, 0):
        text = f"{value:.{digits}f}"
        if len(text) <= width - (1 if digits else 0):
            return text
    return f"{value:.1e}"


def bus_factor(collective: str, n: int) -> float:
    return 2 * (n - 1) / n if collective == "all_reduce" else (n - 1) / n


def measured(job: Job) -> list[Row]:
    noise = random.Random(job.seed)
    rows = []
    factor = bus_factor(job.collective, job.ranks)
    for size in job.sizes:
        halves = []
        for _ in range(2):
            time_us = job.latency_us + size * factor / (job.rate_gbps * 1e3)
            time_us *= 1 + 0.03 * noise.random()
            algbw = size / time_us / 1e3
            if job.era in ("nccl1", "2018"):
                printed = f"{time_us / 1e3:.3f}"
                figures = (f"{algbw:.2f}", f"{algbw * factor:.2f}")
            else:
                width = 8 if job.era in ("2025", "2026") else 7
                printed = significant(time_us, width)
                figures = (significant(algbw, 6), significant(algbw * factor, 6))
            check = "0" if job.era in ("2022", "2025", "2026") else "2e-07"
            halves.append(Half(printed, *figures, check if job.checked else "N/A"))
        per_rank = 1 if job.collective == "all_reduce" else job.ranks
        rows.append(Row(size, size // (TYPES[job.dtype] * per_rank), (halves[0], halves[1])))
    return rows


def row_line(job: Job, row: Row) -> str:
    """Returns a row as the tool prints it."""
    extras = "   12.31    19.44    19.02     4.10" if job.era == "2026" else ""
    head = f"{row.size:12d}  {row.count:12d}  {job.dtype:>8s}"
    if job.collective != "all_gather" or job.era not in ("nccl1", "2018", "2019"):
        head += f"  {job.redop if job.collective != 'all_gather' else 'none':>6s}"
    if job.era in ("2022", "2025", "2026"):
        head += f"  {-1:6d}"
    for half in row.halves:
        head += f"  {half.time:>7s}  {half.algbw:>6s}  {half.busbw:>6s}  {half.check:>5s}{extras}"
    return head + ("  2026-02-03 10:11:12" if job.timestamps else "")


def write(job: Job) -> Written:
    """Returns the log of a run."""
    written = Written(job, rows=measured(job))
    out = written.lines
    if job.era in ("2025", "2026"):
        out.append("# nccl-tests version 2.17.6 nccl-headers=22907 nccl-library=22907")
        out.append(f"# Collective test starting: {job.collective}_perf")
    if job.era != "nccl1":
        out.append(
            f"# nThread 1 nGpus 1 minBytes {job.sizes[0]} maxBytes {job.sizes[-1]} "
            f"step: 4(factor) warmup iters: 5 iters: 20 validation: {int(job.checked)} "
        )
        out.append("#")
    out.append("# Using devices")
    for rank in range(job.ranks):
        host, device = f"vm-{rank // job.gpus}", rank % job.gpus
        pid = f"Pid {4000 + rank:6d} " if job.era not in ("nccl1", "2018") else ""
        group = "Group  0 " if job.era in ("2022", "2025", "2026") else ""
        if job.era == "nccl1":
            out.append(f"#   Device {rank:2d} -> {device:2d} [0x{device:02x}] Tesla P100")
        else:
            out.append(
                f"#   Rank {rank:2d} {group}{pid}on {host:>10s} device {device:2d} "
                f"[0x{device:02x}] Tesla V100-SXM2-16GB"
            )
    out += header(job)
    written.first_row = len(out)
    out += [row_line(job, row) for row in written.rows]
    out.append("# Out of bounds values : 0 OK")
    busbw = [float(half.busbw) for row in written.rows for half in row.halves]
    out.append(f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):.6g} ")
    out.append("#")
    return written


def header(job: Job) -> list[str]:
    """Returns the lines above a table."""
    redop = job.collective != "all_gather" or job.era not in ("nccl1", "2018", "2019")
    if job.era in ("nccl1", "2018"):
        half = "    time   algbw   busbw     res"
        op = "      op" if redop else ""
        return [
            "#                                                 out-of-place          in-place",
            f"#      bytes             N      type{op}{half}{half}",
        ]
    check = "#wrong" if job.era in ("2022", "2025", "2026") else "error"
    half = f"  {'time':>7s}  {'algbw':>6s}  {'busbw':>6s}  {check:>6s}"
    if job.era == "2026":
        half += "    i_min    i_max    i_p99    i_cv%"
    root = "    root" if job.era in ("2022", "2025", "2026") else ""
    op = "   redop" if redop else ""
    stamp = "            timestamp" if job.timestamps else ""
    return [
        "#",
        "#                                          out-of-place                    in-place",
        f"#       size         count      type{op}{root}{half}{half}{stamp}",
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)         (us)  (GB/s)",
    ]


def report(job: Job, **changes) -> str:
    """Returns the JSON file of a run, on one line as the tool writes it."""
    noise = random.Random(job.seed)
    factor = bus_factor(job.collective, job.ranks)
    results = []
    for size in job.sizes:
        per_rank = 1 if job.collective == "all_reduce" else job.ranks
        row = {
            "size": size,
            "count": size // (TYPES[job.dtype] * per_rank),
            "type": job.dtype,
            "redop": job.redop,
            "root": "    -1",
        }
        for key in ("out_of_place", "in_place"):
            time_us = round(job.latency_us * (1 + noise.random()) + size / job.rate_gbps / 1e3, 6)
            algbw = size / time_us / 1e3
            row[key] = {
                "time": time_us,
                "alg_bw": round(algbw, 6),
                "bus_bw": round(algbw * factor, 6),
                "nwrong": 0.0,
            }
        row["actual_iterations"] = 20
        results.append(row)
    devices = [
        {
            "rank": rank,
            "group": 0,
            "pid": 100 + rank,
            "hostname": f"vm-{rank // job.gpus}",
            "device": rank % job.gpus,
            "device_hex": "0000:10:00",
            "device_info": "NVIDIA H100 80GB HBM3",
        }
        for rank in range(job.ranks)
    ]
    said = {
        "version": 1,
        "start_time": "2026-01-02 03:04:05",
        "args": [f"./build/{job.collective}_perf", "-b", "16", "-J", "out.json"],
        "env": ["PATH=/usr/bin", "NCCL_ALGO=Ring", "AWS_SECRET_ACCESS_KEY=hidden"],
        "nccl_version": 22907,
        "config": {"nthreads": 1, "ngpus": 1, "iterations": 20, "devices": devices},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 1.0, "okay": "unchecked"},
        "errors": [],
        "end_time": "2026-01-02 03:05:05",
    } | changes
    return json.dumps(said)
