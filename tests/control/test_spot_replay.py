"""The replays' cloud against bills worked out by hand, and the deadlines on made-up traces."""

from dataclasses import replace

import pytest
from benchmarks.spot_policies import RIVALS, srifty
from benchmarks.spot_replay import table, triples
from benchmarks.spot_traces import Trace, read_traces
from benchmarks.spot_world import Terms, run
from hypothesis import given, settings
from hypothesis import strategies as st

ALWAYS = Trace("always", 1, (0.0,), (1,), 1e6)
NEVER = replace(ALWAYS, name="never", capacity=(0,))
FULL_USD = (3600 + 60) / 3600


def terms(trace: Trace, factor: float = 2.0, work_s: float = 3600.0) -> Terms:
    return Terms(trace, 0.0, factor * (work_s + 210.0), work_s)


@pytest.mark.parametrize("name", ["the paper's rule", "Uniform Progress", "spot with restart"])
def test_where_spot_never_ends_everyone_pays_its_price(name):
    for policy in (RIVALS[name], srifty):
        outcome = run(terms(ALWAYS), policy(terms(ALWAYS)))
        assert outcome.met
        assert outcome.cost_usd == pytest.approx(0.3 * FULL_USD)
        assert outcome.time_s == pytest.approx(3600 + 210)


def test_where_there_is_no_spot_ours_costs_what_on_demand_costs():
    for policy in (RIVALS["on-demand"], srifty):
        outcome = run(terms(NEVER), policy(terms(NEVER)))
        assert outcome.met
        assert outcome.cost_usd == pytest.approx(FULL_USD)
    assert not run(terms(NEVER), RIVALS["spot with restart"](terms(NEVER))).met


def test_a_reclaim_costs_the_work_since_the_checkpoint_and_a_new_start():
    # Ready at 210 s, lost at 1500 s with 1290 s done, 1200 s of them kept; back at 2000 s.
    trace = Trace("once", 1, (0.0, 1500.0, 2000.0), (1, 0, 1), 1e6)
    own = terms(trace, factor=3.0)
    outcome = run(own, RIVALS["spot with restart"](own))
    asked_s = 2040.0  # the first look after 2000 s: looks are a minute apart, from 0 and 1500 s
    assert outcome.interruptions == 1
    assert outcome.time_s == pytest.approx(asked_s + 210 + 2400, abs=60)
    billed_s = (1500 - 150) + (outcome.time_s - asked_s - 150)
    assert outcome.cost_usd == pytest.approx(0.3 * billed_s / 3600, abs=0.3 / 60)


def test_the_papers_rule_never_asks_a_reclaimed_pool_again():
    trace = Trace("once", 1, (0.0, 1500.0, 1501.0), (1, 0, 1), 1e6)
    own = terms(trace)
    outcome = run(own, RIVALS["the paper's rule"](own))
    on_demand_s = outcome.time_s - 1500 - 150
    assert outcome.cost_usd == pytest.approx((0.3 * 1350 + on_demand_s) / 3600)


@settings(max_examples=15, deadline=None)
@given(
    seconds=st.lists(st.floats(30.0, 7200.0), min_size=1, max_size=30),
    vms=st.sampled_from([1, 3]),
    factor=st.floats(1.2, 3.0),
    work_s=st.floats(1800.0, 14_400.0),
    data=st.data(),
)
def test_on_any_trace_our_deadline_holds(seconds, vms, factor, work_s, data):
    capacity = data.draw(
        st.lists(st.integers(0, vms), min_size=len(seconds), max_size=len(seconds))
    )
    times_s = [0.0]
    for length_s in seconds[:-1]:
        times_s.append(times_s[-1] + length_s)
    trace = Trace("random", vms, tuple(times_s), tuple(capacity), 1e6)
    own = terms(trace, factor, float(round(work_s)))
    outcome = run(own, srifty(own))
    assert outcome.met
    assert outcome.cost_usd <= 1.35 * vms * (own.work_s + 60) / 3600 + 0.3


def test_draws_are_seeded_and_stay_within_their_traces():
    traces = [ALWAYS, NEVER]
    first, again = triples(traces, 20, seed=3), triples(traces, 20, seed=3)
    assert first == again
    assert first != triples(traces, 20, seed=4)
    for own in first:
        assert own.start_s + own.deadline_s <= own.trace.end_s
        assert 1.2 <= own.deadline_s / (own.work_s + 210.0) <= 3.0


def test_the_table_compares_with_those_alone_that_met_every_deadline():
    jobs = [terms(ALWAYS), terms(NEVER)]
    outcomes = {
        name: [run(own, policy(own)) for own in jobs]
        for name, policy in {**RIVALS, "Srifty": srifty}.items()
    }
    text = table(jobs, outcomes)
    assert "| spot with restart | 1 of 2 |" in text
    assert "the cheapest of on-demand, the paper's rule, Uniform Progress, job by job" in text


def test_traces_are_read_as_step_functions(tmp_path):
    (tmp_path / "skypilot_spot_traces_rle.csv").write_text(
        "kind,nodes,collection,cloud,zone,device,gap_seconds,start_tick,ticks,available\n"
        "availability,1,c,aws,z,d,100,0,3,1\n"
        "availability,1,c,aws,z,d,100,3,2,0\n"
    )
    (tmp_path / "bamboo_node_events.csv").write_text(
        "trace,time_ms,event,node\np3,1000,add,a\np3,1000,add,b\np3,5000,remove,a\n"
    )
    one, cluster = read_traces(tmp_path, cluster=2)
    assert [one.at(t) for t in (0.0, 299.0, 300.0, 499.0)] == [1, 1, 0, 0]
    assert (one.vms, one.end_s, one.next_change_s(0.0)) == (1, 500.0, 300.0)
    assert [one.inverted().at(t) for t in (0.0, 300.0)] == [0, 1]
    assert [cluster.at(t) for t in (0.0, 1.0, 4.9, 5.0)] == [0, 2, 2, 1]
    assert cluster.vms == 2
