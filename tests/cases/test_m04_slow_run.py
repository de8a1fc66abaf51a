"""M04 in a run: a network that has become slow is told from a VM that has."""

import pytest

from .jobs import profile, write_case
from .runs import TOGETHER, decisions, own_runs, run, status

STEPS = 250
# Nothing else to move to than VMs of the same type.
ALIKE = ("--set", "offers.quota={g4dn.xlarge: {spot: 3}}")


@pytest.fixture(name="job")
def _job(tmp_path, monkeypatch):
    """Two g4dn.xlarge take 2 s for a step and keep the deadline; one of them would not."""
    with own_runs(tmp_path, monkeypatch):
        types = {"g4dn.xlarge": {"spot": 3}, "g4dn.12xlarge": {"on-demand": 1}}
        offers = {
            "markets": ["on-demand", "spot"],
            "quota": types,
            "prices": {"g4dn.xlarge": {"spot": 0.2}, "g4dn.12xlarge": {"on-demand": 3.9}},
        }
        yield write_case(
            tmp_path,
            offers,
            profile(sample_s=0.0625, max_batch=32, gradient_bytes=50_000_000),
            iterations=STEPS,
            deadline="1000s",
            budget_usd=5.0,
            confidence=0.5,
            overheads={"launch": "10s", "restore": "1s"},
        )


def played(*happenings):
    pools = [{"type": "g4dn.xlarge", "vms": list(happenings)}]
    return {"clock_factor": 60, "pools": pools}


def blamed(ended):
    """What was blamed, in order; on a busy machine, more may be later."""
    return [line for line in ended.err.splitlines() if "slow: " in line]


def test_one_slow_vm_is_named_and_replaced_while_it_trains_on(job):
    slow = {"nth": 2, "act": "slow", "after": "0s", "factor": 2}
    ended = run(job, *ALIKE, scenario=played(slow), script=TOGETHER, steps=STEPS)
    assert ended.code == 0, ended.err
    assert "vm-2 is slow: it computes" in blamed(ended)[0]
    document = status()
    first = decisions(document, "slow_vm")[0]
    assert first["replace"] == ["vm-2"]
    assert first["numbers"]["vm_excess_s"] >= 0.5 * first["numbers"]["excess_s"] > 0
    before, after = document["worlds"][:2]
    assert before["config"] == after["config"]
    # It trained on until the other VM was there, and saved: nothing was made twice.
    assert after["from_iteration"] >= 15
    assert "are made again" not in ended.err


def test_a_slow_network_is_named_and_a_plan_that_needs_none_is_moved_to(job):
    slow = {"nth": 1, "act": "delay", "after": "0s", "by": "4s"}
    ended = run(job, scenario=played(slow), script=TOGETHER, steps=STEPS)
    assert ended.code == 0, ended.err
    assert "the network is slow: the exchange takes" in blamed(ended)[0]
    assert "for all VMs alike" in blamed(ended)[0]
    document = status()
    # Most often by the alarm (slow_network); a busy machine may have time run out before.
    first = next(d for d in document["decisions"] if "network_excess_s" in d["numbers"])
    assert first["replace"] == []
    assert first["numbers"]["network_excess_s"] > 0.5 * first["numbers"]["excess_s"] > 0
    # All plans with a network between VMs are slow alike; one VM needs none. On a busy machine it
    # may look slow in turn, and be left again.
    configs = [world["config"] for world in document["worlds"]]
    assert any(config.startswith("1g4dn.12xlarge@") for config in configs), configs
