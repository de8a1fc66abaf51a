from __future__ import annotations

import pytest

from srifty.core import Market
from srifty.core.scenario import Act, Happening, PoolScript, Scenario, Supply
from srifty.errors import InputError
from srifty.files.scenario_file import read_scenario

SCENARIO = """\
clock_factor: 10.0
pools:
  - type: g3.8xlarge
    zone: us-east-1a
    market: spot
    boot: 95s
    supply: [{at: 0s, vms: 6}, {at: 10m, vms: 2}]
    notice: 2m
    answers: [null, 'code=Unsupported']
    vms:
      - {nth: 1, act: preempt, at_iteration: 200}
      - {nth: 2, act: slow, after: 100s, factor: 1.3, for: 5m}
      - {nth: 2, act: delay, at: 0s, by: 250ms}
      - {nth: 3, act: cut, at: 2m, for: 30s}
    link_mbit: 1000
  - supply: 3
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scenario.yaml"


def test_a_scenario(path):
    path.write_text(SCENARIO)
    first = PoolScript(
        "g3.8xlarge",
        "us-east-1a",
        Market.SPOT,
        95.0,
        (Supply(0.0, 6), Supply(600.0, 2)),
        120.0,
        (None, "code=Unsupported"),
        (
            (1, Happening(Act.PREEMPT, at_iteration=200)),
            (2, Happening(Act.SLOW, after_s=100.0, factor=1.3, lasts_s=300.0)),
            (2, Happening(Act.DELAY, at_s=0.0, by_s=0.25)),
            (3, Happening(Act.CUT, at_s=120.0, lasts_s=30.0)),
        ),
        1000.0,
    )
    scenario = Scenario((first, PoolScript(supply=(Supply(0.0, 3),))), 10.0)
    assert read_scenario(path) == scenario
    assert scenario.has_links


def test_vms_have_links_of_their_own_only_where_those_are_limited_or_cut(path):
    path.write_text("pools: [{vms: [{nth: 1, act: die, after: 1s}]}]")
    assert not read_scenario(path).has_links
    path.write_text("pools: [{vms: [{nth: 1, act: cut, after: 1s}]}]")
    assert read_scenario(path).has_links


def test_a_supply_from_a_trace_beside_the_file(path):
    path.write_text("pools: [{supply: {trace: nodes.csv, rows: {trace: a}, start: 10s, times: 2}}]")
    path.with_name("nodes.csv").write_text(
        "trace,time_ms,event,node\na,0,add,n1\na,20000,add,n2\nb,0,add,n9\na,30000,remove,n1\n"
    )
    (script,) = read_scenario(path).pools
    assert script.supply == (Supply(0.0, 2), Supply(10.0, 4), Supply(20.0, 2))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[]", "must be a mapping"),
        ("pools: [{bot: 1s}]", "pools.0.bot: unknown key"),
        ("pools: [{boot: 90}]", "pools.0.boot: must be a duration with a unit"),
        ("pools: [{market: sport}]", "pools.0.market: must be one of on-demand, spot"),
        ("pools: [{supply: -1}]", "pools.0.supply"),
        ("pools: [{}, {vms: [{nth: 1, act: preempt}]}]", "pools.1: preempt: say when"),
        ("pools: [{vms: [{nth: 0, act: die, at: 1s}]}]", "pools.0.vms.0.nth"),
        ("pools: [{vms: [{nth: 1, act: slow, at: 1s}]}]", "factor above 1"),
        ("pools: [{supply: {trace: none.csv, rows: {}}}]", "pools.0.supply.trace"),
        ("clock_factor: 0.0", "factor must be above 0"),
        ("pools: [{supply: [{at: 5s, vms: 1}, {at: 1s, vms: 1}]}]", "order of time"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path, text, where):
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_scenario(path)
    assert where in str(caught.value)
    assert str(path) in str(caught.value)
