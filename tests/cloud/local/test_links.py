from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from srifty.cloud.backend import WorkersStatus
from srifty.cloud.clock import Clock
from srifty.cloud.local import Launcher, LocalBackend
from srifty.cloud.local import links as local_links
from srifty.cloud.local.links import check_links, connect, cut, is_up, link_of, read_link, sweep
from srifty.cloud.local.processes import kill_all, tagged
from srifty.cloud.local.run_folder import RunFolder
from srifty.core.events import VmEventKind
from srifty.core.scenario import Act, Happening, PoolScript, Scenario
from srifty.errors import InputError
from tests.cloud.contract import has, request, until, world

root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
NAMESPACES = Path("/run/netns")


def in_namespace(link, *, then) -> int:
    """Returns the exit code of a child that joins the switch and does something."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            connect(link)
            code = then()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_each_vm_of_a_run_has_an_address_and_no_other_run_has_its_switch(tmp_path):
    links = [link_of(tmp_path, number, None) for number in range(1, 700)]
    assert len({link.address for link in links}) == len(links)
    assert len({link.switch for link in links}) == 1
    assert all(len(link.port) <= 15 for link in links)
    assert link_of(tmp_path / "other", 1, None).switch != links[0].switch
    assert read_link(links[0].document()) == links[0]
    assert read_link(None) is None


def test_who_may_not_make_links_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(local_links.os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="root"):
        check_links()
    backend = LocalBackend(
        tmp_path / "run", Clock.start(), Scenario((PoolScript(link_mbit=100.0),))
    )
    with pytest.raises(InputError, match="link_mbit"):
        backend.prepare(request("vm-1"))


def test_without_the_tools_that_is_told(monkeypatch):
    monkeypatch.setattr(local_links.os, "geteuid", lambda: 0)
    monkeypatch.setattr(local_links.shutil, "which", lambda _: None)
    with pytest.raises(InputError, match="iproute2"):
        check_links()


@root
def test_a_link_is_cut_and_restored(tmp_path):
    link = link_of(tmp_path, 1, 100.0)

    def look() -> int:
        seen = [is_up()]
        for restore in (False, True):
            assert cut(link, restore=restore)
            began_s = time.monotonic()
            while is_up() != restore and time.monotonic() - began_s < 60:
                time.sleep(0.01)
            seen.append(is_up())
        shaped = subprocess.run(["tc", "qdisc"], capture_output=True, text=True, check=True).stdout
        return 0 if seen == [True, False, True] and "rate 100Mbit" in shaped else 2

    assert in_namespace(link, then=look) == 0


@root
def test_a_switch_without_vms_is_removed_and_one_that_was_half_made_is_made_anew(tmp_path):
    link = link_of(tmp_path, 1, None)
    (NAMESPACES / link.switch).touch()  # as `ip` leaves it when it is killed
    assert in_namespace(link, then=lambda: 0 if is_up() else 2) == 0

    def is_swept() -> bool:
        sweep()  # the kernel takes its time with the VM's end of the link
        return not (NAMESPACES / link.switch).exists()

    until(is_swept)
    assert not cut(link)
    assert not cut(replace(link, port="port9"))


@root
def test_vms_meet_over_their_links_and_one_that_is_cut_off_is_lost(tmp_path, monkeypatch):
    from srifty.cloud.local import backend as local_backend

    monkeypatch.setattr(local_backend, "_LOST_AFTER_S", 6.0)
    script = PoolScript(link_mbit=1000.0, happenings=((2, Happening(Act.CUT, at_iteration=3)),))
    backend = LocalBackend(
        tmp_path / "run", Clock.start(), Scenario((script,)), launcher=Launcher.PLAIN
    )
    try:
        backend.launch(backend.prepare(request("vm-1", "vm-2")))
        until(has(backend, VmEventKind.LAUNCHED, "vm-1", "vm-2"))
        backend.start_workers(world(1, ("vm-1", 1), ("vm-2", 1), steps=1000))
        until(has(backend, VmEventKind.LOST, "vm-2"))
        assert {event.vm for event in backend.events(0) if event.kind is VmEventKind.LOST} == {
            "vm-2"
        }
        statuses = {each.vm: each.status for each in backend.workers()}
        assert statuses["vm-1"] is WorkersStatus.RUNNING
        backend.terminate(["vm-1", "vm-2"])
        until(has(backend, VmEventKind.TERMINATED, "vm-1", "vm-2"))
    finally:
        for files in RunFolder((tmp_path / "run").resolve()).all_vms():
            kill_all(tagged(files.tag))
        sweep()
