"""Links whose rate wanders while a run lasts."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import numpy as np

from benchmarks.testbed.bed import Bed
from benchmarks.testbed.variance import step_factors

_ROUND = 1024  # factors drawn at once


@contextmanager
def vary_links(
    bed: Bed, log_sds: Mapping[str, float], *, interval_s: float, seed: int
) -> Generator[None]:
    """Sets links' rates anew, around those they have now, every so often while it is open.

    Rates are back where they were at its end. Nothing else may set rates meanwhile. Costs some
    3 ms of CPU per host and interval.

    Args:
        bed: the bed.
        log_sds: by host, the log standard deviation of its rate.
        interval_s: how long a rate lasts, in s.
        seed: of the rates.

    Raises:
        RuntimeError: a rate could not be set.
    """
    rates = {host.name: host.rate_mbit for host in bed.network.hosts if host.name in log_sds}
    stop = threading.Event()
    failures: list[Exception] = []

    def wander() -> None:
        generator = np.random.default_rng(seed)
        try:
            while True:
                draws = {host: step_factors(log_sds[host], _ROUND, generator) for host in rates}
                for step in range(_ROUND):
                    for host, rate in rates.items():
                        bed.set_rate(host, rate * float(draws[host][step]))
                    if stop.wait(interval_s):
                        return
        except Exception as error:  # noqa: BLE001 - raised where the context ends
            failures.append(error)

    thread = threading.Thread(target=wander)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for host, rate in rates.items():
            bed.set_rate(host, rate)
    if failures:
        raise RuntimeError(f"link rates could not be varied: {failures[0]}") from failures[0]
