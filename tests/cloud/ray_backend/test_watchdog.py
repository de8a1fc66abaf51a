import os
import subprocess
import time

import pytest

from srifty.cloud.ray_backend.watchdog import END, HEARD, leave_sign, watchdog


@pytest.fixture
def booted(tmp_path):
    """Boots a VM with the script; what ends it leaves a mark instead."""
    commands = tmp_path / "bin"
    commands.mkdir()
    shutdown = commands / "shutdown"
    shutdown.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/ended\nkill $PPID\n')
    shutdown.chmod(0o755)
    signs = tmp_path / "signs"

    def boot(**seconds):
        rule = {"most_s": 1e6, "silence_s": 1e6, "first_s": 0.0} | seconds
        script = tmp_path / "script"
        script.write_text(watchdog(**rule, every_s=0.05, folder=str(signs)))
        variables = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
        # The boot goes on: the script returns at once.
        subprocess.run(["sh", script], env=variables, check=True, timeout=60)
        return signs

    yield boot
    leave_sign(str(signs), END)
    until((tmp_path / "ended").exists)


def until(found):
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < 60, "it never came"
        time.sleep(0.02)


def test_it_ends_the_vm_when_told(booted, tmp_path):
    signs = booted(first_s=1e6)
    time.sleep(0.3)
    assert not (tmp_path / "ended").exists()
    leave_sign(str(signs), END)
    until((tmp_path / "ended").exists)
    assert (tmp_path / "ended").read_text() == "-h now\n"


def test_it_ends_a_vm_that_never_hears_of_a_controller(booted, tmp_path):
    booted(silence_s=0.0, first_s=1.0)
    until((tmp_path / "ended").exists)


def test_it_ends_a_vm_whose_controller_fell_silent(booted, tmp_path):
    (tmp_path / "signs").mkdir()
    leave_sign(str(tmp_path / "signs"), HEARD)
    signs = booted(silence_s=90.0, first_s=0.0)
    time.sleep(0.5)
    assert not (tmp_path / "ended").exists()
    long_ago = time.time() - 100
    os.utime(signs / HEARD, (long_ago, long_ago))
    until((tmp_path / "ended").exists)


def test_it_ends_the_vm_at_its_hard_end_though_the_controller_lives(booted, tmp_path):
    signs = booted(most_s=0.0)
    leave_sign(str(signs), HEARD)
    until((tmp_path / "ended").exists)


def test_a_vm_without_one_needs_no_signs(tmp_path):
    leave_sign("", HEARD)
    leave_sign(str(tmp_path / "none"), HEARD)
    assert list(tmp_path.iterdir()) == []
