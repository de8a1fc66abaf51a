"""One side of a cross-traffic flow, run inside a namespace as a plain script.

    flow.py sink ADDRESS PORT
    flow.py source ADDRESS PORT MBIT ON_S OFF_S SEED

The source sends in chunks at the given rate while it is on; lengths of the on and off spells are
exponential with the given means, drawn from the seed. OFF_S of 0 never stops. Both end when their
standard input does.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator

CHUNK_BYTES = 65_536


def end_with_stdin() -> None:
    """Ends this process when whoever started it is gone."""
    sys.stdin.buffer.read()
    os._exit(0)


def sink(address: str, port: int) -> None:
    """Takes connections, one at a time, and reads them empty."""
    with socket.create_server((address, port)) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                while connection.recv(1 << 20):
                    pass


def spells(on_s: float, off_s: float, seed: int) -> Iterator[tuple[bool, float]]:
    """Yields (sends, seconds) for ever, beginning with a spell that sends."""
    draw = random.Random(seed)  # noqa: S311 - traffic, not a secret
    while True:
        yield True, draw.expovariate(1 / on_s)
        if off_s > 0:
            yield False, draw.expovariate(1 / off_s)


def source(address: str, port: int, mbit: float, on_s: float, off_s: float, seed: int) -> None:
    """Sends until it is stopped."""
    chunk = bytes(CHUNK_BYTES)
    gap_s = 8 * CHUNK_BYTES / (mbit * 1e6)
    with socket.create_connection((address, port), timeout=10) as connection:
        connection.settimeout(None)
        print("ready", flush=True)
        for sends, length_s in spells(on_s, off_s, seed):
            end_s = time.monotonic() + length_s
            due_s = time.monotonic()
            while sends and (now_s := time.monotonic()) < end_s:
                # What the network held back is not made up for later.
                due_s = max(due_s, now_s - gap_s)
                if due_s > now_s:
                    time.sleep(due_s - now_s)
                connection.sendall(chunk)
                due_s += gap_s
            time.sleep(max(0.0, end_s - time.monotonic()))


def main(argv: list[str]) -> None:
    """Runs the side that the arguments name."""
    threading.Thread(target=end_with_stdin, daemon=True).start()
    side, address, port, *rest = argv
    if side == "sink":
        sink(address, int(port))
    else:
        mbit, on_s, off_s, seed = rest
        source(address, int(port), float(mbit), float(on_s), float(off_s), int(seed))


if __name__ == "__main__":
    main(sys.argv[1:])
