"""An emulated cluster while it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from benchmarks.testbed import commands
from benchmarks.testbed.build import (
    configure_hosts,
    connect_by_bridges,
    enter,
    make_namespaces,
    netem_works,
    run_batch,
)
from benchmarks.testbed.cpu import CpuMeter, CpuUse
from benchmarks.testbed.native import compiled
from benchmarks.testbed.preflight import preflight
from benchmarks.testbed.procfs import process_id
from benchmarks.testbed.spec import Network, check_rate
from benchmarks.testbed.state import locked, namespaces, new_record
from benchmarks.testbed.sweep import inside, remove, sweep_leftovers
from benchmarks.testbed.switch import pipe, start_switch, switch_command, tell_rate

Policy = Literal["rr", "other"]
Carrier = Literal["bridge", "netem", "switch"]
FLOW = Path(__file__).parent / "flow.py"
FLOW_PORT = 5201


class Bed:
    """A network of namespaces, built on entering and gone, processes and all, on leaving.

    Entering also removes what earlier runs left that were killed.

    Args:
        network: what to build.
        seed: of the jitter.

    Attributes:
        policy: scheduling policy that processes get unless told otherwise: "rr" (real-time, in
            turns) where the machine lets this process use it, else "other".
        carrier: what carries packets: the kernel's bridges, the same with netem for a delay, or
            the switch in user space, where the kernel has no netem and for jitter, under which
            netem would mix up the order.
    """

    policy: Policy
    carrier: Carrier

    def __init__(self, network: Network, *, seed: int = 0) -> None:
        self.network = network
        self._seed = seed
        self._record = new_record()
        self._children: list[subprocess.Popen[Any]] = []
        self._switch: subprocess.Popen[str] | None = None
        self._flows = 0

    def __enter__(self) -> Bed:
        """Builds everything.

        Raises:
            RuntimeError: the machine lacks or refuses something; says what.
        """
        if missing := preflight():
            raise RuntimeError("\n".join(missing))
        sweep_leftovers()
        with ExitStack() as undo:
            undo.callback(self._take_down)
            with locked() as lock:
                self._record.write()
                make_namespaces(self._names, lock)
            self.policy = "rr" if self._allows_rr() else "other"
            self.carrier = self._choose_carrier()
            self._size = self._fitting_size()
            if self.carrier == "switch":
                command = switch_command(
                    self.network, self._hosts, self._core, self.policy, self._seed
                )
                self._switch = start_switch(command)
                self._adopt(self._switch)
            else:
                connect_by_bridges(
                    self.network,
                    self._hosts,
                    self._core,
                    self._size,
                    delayed=self.carrier == "netem",
                )
            configure_hosts(self.network, self._hosts, self._size)
            self._meter = CpuMeter(lambda: inside(self._names))
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kills every process inside by its number and removes everything.

        Raises:
            RuntimeError: the switch had ended before, so that nothing measured holds.
        """
        try:
            if kind is None:
                self._check_switch()
        finally:
            self._take_down()

    def _check_switch(self) -> None:
        if self._switch is not None and self._switch.poll() is not None:
            raise RuntimeError(f"the switch has ended: {self._switch.communicate()[1].strip()}")

    def _take_down(self) -> None:
        with locked():
            remove(namespaces(self._record.bed), self._record.processes)
            self._record.path.unlink(missing_ok=True)
        if self._switch is not None:
            self._switch.communicate()  # closes its pipes; those of others are their readers'
            self._switch = None
        for child in self._children:
            child.wait()
        self._children.clear()

    @property
    def _hosts(self) -> list[str]:
        return [self.namespace(host.name) for host in self.network.hosts]

    @property
    def _core(self) -> str:
        return f"{self._record.bed}-net"

    @property
    def _names(self) -> list[str]:
        return [*self._hosts, self._core]

    def _allows_rr(self) -> bool:
        tried = subprocess.run(enter(self._core, "rr", ["true"]), capture_output=True)
        return tried.returncode == 0

    def _choose_carrier(self) -> Carrier:
        if self.network.delay_ms == 0:
            return "bridge"
        if self.network.jitter_ms == 0 and netem_works(self._core):
            return "netem"
        return "switch"

    def _adopt(self, child: subprocess.Popen[Any]) -> None:
        self._children = [*(old for old in self._children if old.poll() is None), child]
        running = (process_id(each.pid) for each in self._children)
        self._record = replace(self._record, processes=tuple(p for p in running if p is not None))
        self._record.write()

    def namespace(self, host: str) -> str:
        """Name of a host's network namespace, as `ip netns` knows it."""
        return f"{self._record.bed}-{self.network.index(host)}"

    def address(self, host: str) -> str:
        """IPv4 address of a host, which only hosts of this bed reach."""
        return self.network.address(host)

    def popen(
        self,
        host: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        policy: Policy | None = None,
        shim: bool = True,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Starts a process on a host; it and all its children end with the bed at the latest.

        Args:
            host: name of the host.
            argv: the command.
            env: its environment; None: this process's.
            policy: scheduling policy, inherited by its children; None: the bed's.
            shim: preload what keeps gloo's event loop from starving its own threads.
            options: for `subprocess.Popen`.

        Raises:
            RuntimeError: the switch has ended, as in `set_rate`, `reshape` and `cpu`.
        """
        self._check_switch()
        variables = dict(os.environ if env is None else env)
        if shim:
            others = variables.get("LD_PRELOAD", "")
            variables["LD_PRELOAD"] = f"{compiled('epoll_pause')} {others}".strip()
        command = enter(self.namespace(host), policy or self.policy, list(argv))
        child = subprocess.Popen(command, env=variables, **options)
        self._adopt(child)
        return child

    def _fitting_size(self) -> commands.Shape:
        # A bucket before the switch only holds back, and may have any burst.
        fitting = commands.fitting_shape(self.network)
        if self.carrier != "switch":
            return fitting
        return replace(fitting, burst_bytes=commands.LARGE.burst_bytes)

    def set_rate(self, host: str, mbit: float) -> None:
        """Changes the rate of a host's link, both ways, in Mbit/s, while everything runs."""
        self._change({host: mbit}, self._size)

    def reshape(self, rates_mbit: Mapping[str, float]) -> None:
        """Changes links' rates, in Mbit/s, between runs.

        Unlike `set_rate` it also fits the size of packets to the rates, as a new bed does.
        Connections that stay open keep theirs, so there should be none.
        """
        before = self._size
        self._change(rates_mbit, None)
        if self._size != before:
            for namespace in self._hosts:
                run_batch("ip", namespace, [commands.packet_size(self._size)])

    def _change(self, rates_mbit: Mapping[str, float], size: commands.Shape | None) -> None:
        """Sets rates, and buckets of that size; None: of the one that fits the new rates."""
        self._check_switch()
        for host, mbit in rates_mbit.items():
            self.network.index(host)
            check_rate(f"the rate of {host}", mbit)
        before, old_size = self.network, self._size
        self.network = replace(
            before,
            hosts=tuple(
                replace(host, rate_mbit=rates_mbit.get(host.name, host.rate_mbit))
                for host in before.hosts
            ),
        )
        self._size = size or self._fitting_size()
        for index, host in enumerate(self.network.hosts):
            if host == before.hosts[index] and self._size == old_size:
                continue
            up = commands.uplink(self.network, index, self._size, verb="change")
            run_batch("tc", self._hosts[index], [up])
            if self._switch is not None:
                tell_rate(self._switch, index, host.rate_mbit)
            else:
                down = commands.downlink(
                    self.network,
                    index,
                    self._size,
                    delayed=self.carrier == "netem",
                    verb="change",
                )
                run_batch("tc", self._core, [down])

    @contextmanager
    def cross_traffic(
        self, src: str, dst: str, mbit: float, on_s: float, off_s: float, seed: int
    ) -> Generator[None]:
        """A TCP flow between two hosts that comes and goes while the context is open.

        Args:
            src: host that sends.
            dst: host that receives.
            mbit: rate while on, in Mbit/s, as far as the network lets it.
            on_s: mean length of the spells that send, in s (exponential).
            off_s: mean length of the pauses, in s (exponential); 0: none.
            seed: of those lengths.
        """
        check_rate("mbit", mbit)
        if on_s <= 0 or off_s < 0:
            raise ValueError(f"on_s {on_s} and off_s {off_s}: give on_s > 0 and off_s >= 0")
        port = str(FLOW_PORT + self._flows)
        self._flows += 1
        to = [self.address(dst), port]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        ends: list[subprocess.Popen[str]] = []
        try:
            for host, arguments in (
                (dst, ["sink", *to]),
                (src, ["source", *to, *map(str, (mbit, on_s, off_s, seed))]),
            ):
                script = [sys.executable, "-S", "-E", str(FLOW), *arguments]
                ends.append(self.popen(host, script, shim=False, **pipes))
                if pipe(ends[-1].stdout).readline() != "ready\n":
                    raise RuntimeError(f"cross traffic from {src} to {dst} did not start")
            yield
        finally:
            for end in reversed(ends):  # the source first: it would report the sink's end
                end.kill()
                end.communicate()

    def cpu(self) -> CpuUse:
        """Mean CPU use since the last call, or since the bed stood."""
        self._check_switch()
        return self._meter.read()
