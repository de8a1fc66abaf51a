from __future__ import annotations

import json

import pytest

from srifty.control.crew import (
    config_record,
    read_config,
    read_world,
    world_of,
    world_record,
)
from srifty.control.fleet import FleetVm
from srifty.core.events import Pool
from srifty.errors import InputError
from tests.builders import make_config, make_offer, make_type

ONE = make_offer(make_type("a1.small", gpus=4))
TWO = make_offer(make_type("b1.large", gpu="B", gpus=2))
CONFIG = make_config((ONE, 1, 37), (TWO, 2, 64, 2))


def test_a_configuration_survives_the_ledger():
    record = json.loads(json.dumps(config_record(CONFIG)))
    assert read_config(record, [TWO, ONE]) == CONFIG
    with pytest.raises(InputError, match=r"b1\.large"):
        read_config(record, [ONE])


def test_a_world_deals_the_shares_in_the_order_of_ranks():
    members = [FleetVm(n, Pool.of(o), 4, 0.0) for n, o in (("x", ONE), ("y", TWO), ("z", TWO))]
    paces = {group: float(group.samples_per_vm) for group in CONFIG.groups}
    world = world_of(3, CONFIG, members, ["train.py"], paces_s=paces)
    assert world.shares == "10,9,9,9,32/2,32/2,32/2,32/2"
    assert [(vm.vm, vm.workers, vm.pace_s) for vm in world.vms] == [
        ("x", 4, 37.0), ("y", 2, 64.0), ("z", 2, 64.0),
    ]  # fmt: skip
    assert read_world(json.loads(json.dumps(world_record(world)))) == world
