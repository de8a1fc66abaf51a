"""The two ends of a link's check, run inside namespaces as a plain script.

    link_ends.py far ADDRESS
    link_ends.py near ADDRESS PINGS BYTES

The near end prints a JSON object: `rtt_s`, the times of PINGS round trips of one byte, and
`transfer_s`, the time from the first of BYTES sent until the far end says that it has all.
"""

from __future__ import annotations

import json
import socket
import sys
import time

PORT = 5200
CHUNK_BYTES = 1 << 20


def far(address: str) -> None:
    """Answers bytes until the near end sends a length, then reads that much and answers again."""
    with socket.create_server((address, PORT)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(1) == b"p":
            connection.sendall(b"p")
        left = int.from_bytes(connection.recv(8, socket.MSG_WAITALL))
        room = bytearray(CHUNK_BYTES)
        while left:
            left -= connection.recv_into(room, min(left, CHUNK_BYTES))
        connection.sendall(b"d")


def near(address: str, pings: int, size_bytes: int) -> None:
    """Times both."""
    with socket.create_connection((address, PORT), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rtt_s = []
        for _ in range(pings):
            began_s = time.perf_counter()
            connection.sendall(b"p")
            connection.recv(1)
            rtt_s.append(time.perf_counter() - began_s)
            time.sleep(0.002)  # a link at rest, as between the messages of a probe
        connection.sendall(b"t" + size_bytes.to_bytes(8))
        chunk = memoryview(bytes(CHUNK_BYTES))
        left = size_bytes
        began_s = time.perf_counter()
        while left:
            left -= connection.send(chunk[: min(left, CHUNK_BYTES)])
        connection.recv(1)
        print(json.dumps({"rtt_s": rtt_s, "transfer_s": time.perf_counter() - began_s}))


if __name__ == "__main__":
    side, where, *numbers = sys.argv[1:]
    if side == "far":
        far(where)
    else:
        near(where, *map(int, numbers))
