"""Savers of checkpoints that are killed at random moments; also run as a process of its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import srifty
from srifty.training import checkpoint
from srifty.training.folder import LocalFolder
from srifty.training.saver import Checkpoints

ROOT = Path(__file__).parents[2]
LIMIT_S = 300  # only for what would hang for ever
_UNFINISHED = ".unfinished-*"


class State:
    """A state whose every number is its step's."""

    def __init__(self, size_bytes):
        self.values = torch.zeros(size_bytes // 4)

    def state_dict(self):
        return {"values": self.values}

    def load_state_dict(self, saved):
        self.values.copy_(saved["values"])


@dataclass
class Tally:
    """What the rounds found.

    Attributes:
        kills: rounds.
        torn: kills that left an unfinished checkpoint.
        resumed: rounds after which the state was put back whole.
        newest_said: rounds in which the step resumed at is at least the last one reported as saved.
    """

    kills: int = 0
    torn: int = 0
    resumed: int = 0
    newest_said: int = 0


def kill_rounds(folder, kills, size_bytes, seed=0):
    """Lets a saver save over and over, kills it at a random moment, and resumes; so many times."""
    moments = random.Random(seed)
    tally = Tally()
    save_s = None
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "OMP_NUM_THREADS": "1",
    }
    for _ in range(kills):
        command = [sys.executable, "-m", "tests.training.kill_saves", str(folder), str(size_bytes)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as saver:
            try:
                began = first = 0.0
                for line in saver.stdout:
                    if line.startswith("begins"):
                        began = time.perf_counter()
                    if line.startswith("saved"):
                        first = time.perf_counter() - began
                        break
                save_s = first if save_s is None else min(save_s, first)
                time.sleep(moments.uniform(0, 2 * save_s))
                saver.send_signal(signal.SIGKILL)
                # A line that the kill cut short has no end.
                rest = [each.split() for each in saver.stdout.read().split("\n")[:-1]]
                last = max(int(step) for word, step in [line.split(), *rest] if word == "saved")
            finally:
                saver.kill()
                saver.wait(LIMIT_S)
        tally.kills += 1
        tally.torn += bool(list(Path(folder).glob(_UNFINISHED)))
        found = checkpoint.newest(LocalFolder(Path(folder)))
        state = State(size_bytes)
        Checkpoints(folder, {"state": state}).load(found)
        tally.resumed += bool((state.values == found.step).all())
        tally.newest_said += found.step >= last
    return tally


def say(word, step):
    sys.stdout.write(f"{word} {step}\n")
    sys.stdout.flush()


def main():
    folder, size_bytes = sys.argv[1], int(sys.argv[2])
    state = State(size_bytes)
    saves = Checkpoints(folder, {"state": state})
    found = saves.newest()
    step = 0 if found is None else found.step
    while True:
        step += 1
        state.values.fill_(step)
        say("begins", step)
        saves.start(step, {})
        state.values.fill_(-1)  # training goes on while the state is written
        saves.wait()
        say("saved", step)


if __name__ == "__main__":
    main()
