"""The plans of Figure 8 of Luo et al. 2022, by the planner alone; the run is a benchmark."""

from __future__ import annotations

import pytest
from benchmarks.paper.figure8 import JOB, PAPER_S, page

from srifty.cli._runs import planning_of
from srifty.cli._workbench import open_job
from srifty.control import PolicyRule, Pools, Situation, decide
from srifty.core.events import Cause, DecisionKind, Pool, Progress, VmEvent, VmEventKind
from srifty.core.notation import format_config

NOTICED_S, DETACH_S = 223.0, 4.0


def decision_after_the_loss(*changes: str):
    """What is decided when one of two p3.8xlarge was lost after 200 iterations."""
    bench = open_job(JOB, changes)
    planning = planning_of(bench, bench.job)
    p3 = next(Pool.of(o) for o in planning.offers if o.instance_type.name == "p3.8xlarge")
    rule = PolicyRule()
    pools = Pools().after(VmEvent(NOTICED_S, VmEventKind.PREEMPTED, "vm-2", p3), rule.pools)
    now_s = NOTICED_S + DETACH_S
    progress = Progress(now_s, 200, 200, spent_usd=0.19)
    first = planning.first().plan
    assert first is not None
    survivors = planning.meanwhile({p3: 1}, passes=False)
    situation = Situation(
        now_s,
        iterations_left=200,
        spent_usd=0.19,
        running=survivors and planning.candidate(survivors),
        is_idle=survivors is not None,
        ordered=planning.candidate(first.config),
        ready={p3: 1},
    )
    candidates = planning.candidates(progress, pools, {p3: 1})
    return first, decide(planning.job, candidates, situation, pools, rule)


def test_both_plans_are_the_papers():
    first, decision = decision_after_the_loss()
    assert format_config(first.config) == "2p3.8xlarge (spot)@512"
    assert first.forecast.time_s.mean == pytest.approx(150 + 152, abs=1)
    assert (decision.kind, decision.cause) == (DecisionKind.MOVE, Cause.LOST)
    assert format_config(decision.config) == "1p3.8xlarge (spot)@512 + 8g3.8xlarge (spot)@64"
    assert decision.number("chosen_finish_s") == pytest.approx(150 + 5 + 101, abs=1)


def test_while_its_vms_boot_the_plan_stays():
    """Were they to be launched anew, only several passes on the survivor would be fast enough."""
    bench = open_job(JOB, [])
    planning = planning_of(bench, bench.job)
    _, decision = decision_after_the_loss()
    ordered = planning.candidate(decision.config)
    held, now_s = dict(ordered.vms), 290.0
    p3, g3 = sorted(held, key=lambda pool: held[pool])
    pools = Pools().after(VmEvent(223.0, VmEventKind.PREEMPTED, "vm-2", p3), PolicyRule().pools)
    candidates = planning.candidates(Progress(now_s, 200, 200, spent_usd=0.3), pools, held)
    assert any(candidate.has_passes for candidate in candidates)
    situation = Situation(
        now_s, 200, spent_usd=0.3, ordered=ordered, ready={p3: 1}, booting={g3: 8}, boot_left_s=87.0
    )
    again = decide(planning.job, candidates, situation, pools, PolicyRule())
    assert (again.kind, again.config) == (DecisionKind.STAY, decision.config)


def test_without_preference_the_rest_is_in_time_too_and_no_dearer():
    _, preferring = decision_after_the_loss()
    _, free = decision_after_the_loss("offers.prefer=[]")
    assert free.number("chosen_finish_s") <= free.number("time_left_s")
    assert free.number("chosen_cost_usd") <= preferring.number("chosen_cost_usd")


def test_with_several_passes_the_survivor_alone_is_fast_enough():
    """What the paper does not consider: half as fast, it still ends in time, for less."""
    _, decision = decision_after_the_loss("accumulate=true", "offers.prefer=[]")
    assert format_config(decision.config) == "1p3.8xlarge (spot)@1024x2"
    assert decision.number("chosen_finish_s") <= decision.number("time_left_s")


def test_the_page_has_both_runs_and_the_paper_side_by_side():
    ours = {what: at_s + 1 for what, at_s in PAPER_S.items()} | {"all is saved and released": 425.0}
    result = {
        "prefers": True, "clock_factor": 2.0, "timeline": ours, "worlds": [], "forecast_s": 302.0,
        "forecast_usd_total": 0.35, "at_s": 425.0, "deadline_s": 500.0, "spent_usd_total": 0.5,
        "difference": 1.8e-7, "largest": 0.86, "machine": "any", "date": "2026-01-01",
    }  # fmt: skip
    shown = page(result, {**result, "prefers": False, "spent_usd_total": 0.4})
    assert "| one is cancelled | 222 | 223.0 | 223.0 |" in shown
    assert "0.40 USD in total (deadline 500 s)" in shown
