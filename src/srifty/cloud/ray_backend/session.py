"""All that is asked of Ray itself: the one module that imports it."""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from srifty.cloud.ray_backend.agent import VmAgent
from srifty.errors import CloudRefused, InputError

_ANSWER_S = 0.8
_REACH_S = 5.0
_CALLS_AT_ONCE = 4
# Where Ray's autoscaler writes what it does, for `ray status`.
_STATUS_KEY = b"__autoscaling_status"


class Silence(Enum):
    """Why an agent does not answer: it has not yet, or it is no more."""

    UNHEARD = "not yet"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said; `value` is None where it said nothing, and `silence` why."""

    value: Any = None
    silence: Silence | None = None


class RaySession:
    """A connection to a Ray cluster, with the agents of one run.

    It connects when it is first needed, and then raises `InputError` where Ray is not installed and
    `CloudRefused` where there is no such cluster.

    Args:
        name: of the run, or of its folder; agents of different names do not meet.
        address: of the cluster; `auto` is the one that `RAY_ADDRESS` names, or that this machine
            belongs to.
    """

    def __init__(self, name: str, address: str = "auto") -> None:
        self._namespace = f"srifty-{name}"
        self._address = address
        self._connected: Any = None
        self._asked: dict[tuple[str, str], Any] = {}

    @property
    def _ray(self) -> Any:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def _connect(self) -> Any:
        try:
            ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError:
            raise InputError('Ray is not installed; pip install "srifty[ray]"') from None
        # Ray prints what its nodes report, though asked not to; stdout is for results alone.
        printing: Any = importlib.import_module("ray._private.worker")
        printing.print_to_stdstream = _pass_over
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
        services: Any = importlib.import_module("ray._private.services")
        try:
            address: str = services.canonicalize_bootstrap_address_or_die(self._address)
            # Ray itself tries for minutes, and then ends this process.
            host, _, port = address.rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S):
                pass
            ray.init(
                address=address,
                namespace=self._namespace,
                ignore_reinit_error=True,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise CloudRefused(
                f"no Ray cluster answers ({error}); run this on the cluster's head, or say in "
                "RAY_ADDRESS where it is, as HOST:PORT"
            ) from None
        return ray

    def is_there(self) -> bool:
        """Whether there is such a cluster."""
        try:
            return self._ray.is_initialized()
        except (InputError, CloudRefused):
            return False

    def resources(self) -> dict[str, float]:
        """Returns how much of each resource the cluster's living nodes have, used or not."""
        return self._ray.cluster_resources()

    def hosts(self) -> set[str]:
        """Returns the addresses of the cluster's living nodes."""
        return {node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}

    def make_agent(self, vm: str, resource: str, gpus: int, setup: Mapping[str, Any]) -> None:
        """Asks for a VM's agent, once; Ray places it as soon as a node has the resource.

        Args:
            vm: the VM's name.
            resource: of which each node of the offer has one.
            gpus: the agent's workers may use.
            setup: an `AgentSetup` as a mapping.
        """
        actor = self._ray.remote(VmAgent)
        actor.options(
            name=vm,
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            num_gpus=gpus,
            resources={resource: 1},
            max_restarts=0,
            max_concurrency=_CALLS_AT_ONCE,
        ).remote(dict(setup))

    def ask(self, vms: Sequence[str], method: str) -> dict[str, Answer]:
        """Returns what agents answer within a second; a question is not put twice meanwhile.

        Args:
            vms: whose agents.
            method: without arguments.
        """
        answers: dict[str, Answer] = {}
        for vm in vms:
            if (vm, method) not in self._asked:
                handle = self._handle(vm)
                if handle is None:
                    answers[vm] = Answer(silence=Silence.DEAD)
                    continue
                self._asked[vm, method] = getattr(handle, method).remote()
        asked = {vm: self._asked[vm, method] for vm in vms if vm not in answers}
        if asked:
            waited = list(asked.values())
            done, _ = self._ray.wait(waited, num_returns=len(waited), timeout=_ANSWER_S)
            for vm, reference in asked.items():
                if reference in done:
                    del self._asked[vm, method]
                    answers[vm] = self._answer(reference)
                else:
                    answers[vm] = Answer(silence=Silence.UNHEARD)
        return answers

    def tell(self, vm: str, method: str, *arguments: Any, **options: Any) -> None:
        """Calls an agent without waiting; one that is gone is passed over."""
        handle = self._handle(vm)
        if handle is not None:
            getattr(handle, method).remote(*arguments, **options)

    def get(self, vm: str, method: str, *arguments: Any) -> Answer:
        """Returns what one agent answers within a second."""
        handle = self._handle(vm)
        if handle is None:
            return Answer(silence=Silence.DEAD)
        reference = getattr(handle, method).remote(*arguments)
        done, _ = self._ray.wait([reference], timeout=_ANSWER_S)
        return self._answer(reference) if done else Answer(silence=Silence.UNHEARD)

    def address(self, vm: str) -> str | None:
        """Returns the address of an agent's VM; None while it is not known."""
        answer = self.get(vm, "__ray_call__", _node_address)
        return answer.value

    def forget(self, vm: str) -> None:
        """Ends an agent, placed or not; its node is free for another, or idle and soon released."""
        handle = self._handle(vm)
        if handle is not None:
            self._ray.kill(handle, no_restart=True)
        for key in [key for key in self._asked if key[0] == vm]:
            del self._asked[key]

    def autoscaler_status(self) -> dict[str, Any]:
        """Returns what the cluster's autoscaler reports; empty where there is none."""
        store = importlib.import_module("ray.experimental.internal_kv")
        text: bytes | None = store._internal_kv_get(_STATUS_KEY)
        return json.loads(text) if text else {}

    def _handle(self, vm: str) -> Any:
        try:
            return self._ray.get_actor(vm, namespace=self._namespace)
        except ValueError:
            return None

    def _answer(self, reference: Any) -> Answer:
        errors = self._ray.exceptions
        try:
            return Answer(self._ray.get(reference))
        except errors.ActorUnavailableError:
            return Answer(silence=Silence.UNHEARD)
        except errors.RayActorError:
            return Answer(silence=Silence.DEAD)


def _pass_over(data: Any, ignore_prefix: bool) -> None:
    """Prints nothing; it is in Ray's own logs."""


def _node_address(_: Any) -> str:
    """Returns the address of the node that this runs on."""
    return importlib.import_module("ray").util.get_node_ip_address()
