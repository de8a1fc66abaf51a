"""What to do now: pure, fed a clock, the same for real runs, simulated ones and replays of traces.

In this order:

1. Money is a hard cap: what would overrun it before the next look is stopped.
2. A plan is *safe* if the deadline holds even if its VMs are reclaimed at the worst moment: the
   fallback, a plan that nobody reclaims and that keeps both limits, must still fit after it. Doing
   nothing, or less than the fallback would do, must leave time for some interruptions more. Where
   no firm plan keeps the limits, those are safe that keep them by themselves.
3. If the pace, seen at its best, has missed a limit for two windows, any safe plan that meets all
   limits wins, the best by the objective; the plan in force does not compete.
4. Else the best safe plan takes over if it gains enough, its switching costs paid, or if the plan
   in force is not safe any more or cannot be had. Waiting beats firm VMs while there is slack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from srifty.control.blame import Culprit
from srifty.control.outlook import Outlook
from srifty.control.pools import Pools
from srifty.control.situation import Candidate, PolicyRule, Situation
from srifty.core.events import Cause, Decision, DecisionKind
from srifty.core.job import Job, Objective

_S_PER_HOUR = 3600.0


@dataclass(frozen=True)
class _Choice:
    """What was chosen; None as candidate: to wait."""

    candidate: Candidate | None
    cause: Cause


@dataclass(frozen=True)
class _Fallbacks:
    """Firm plans that keep both limits.

    Attributes:
        usual: what is taken when time runs out: the cheapest, or a faster one that costs as good as
            the same.
        last: the fastest: what saves the deadline after a loss.
    """

    usual: Candidate
    last: Candidate


def decide(
    job: Job,
    candidates: Sequence[Candidate],
    situation: Situation,
    pools: Pools,
    rule: PolicyRule,
) -> Decision:
    """Returns what to do now.

    Args:
        job: the whole job; its limits count from the command.
        candidates: plans that could be gone on with, also those whose pools are closed for now.
        situation: where the run stands.
        pools: what is known of the pools.
        rule: what the policy weighs with.
    """
    outlook = Outlook(job, situation, pools, rule)
    if _overruns(outlook):
        return Decision(
            situation.now_s,
            DecisionKind.STOP,
            Cause.MONEY,
            None,
            situation.now_s,
            numbers=_numbers(outlook, None, None, None),
        )
    present = _present(outlook)
    known = list(candidates)
    known += [c for c in (present,) if c is not None and all(c.config != k.config for k in known)]
    usable = [candidate for candidate in known if outlook.is_obtainable(candidate)]
    fallbacks = _fallbacks(outlook, usable)
    choice = _choose(outlook, known, usable, present, fallbacks)
    return _decision(outlook, choice, present, fallbacks and fallbacks.usual)


def _overruns(outlook: Outlook) -> bool:
    """Whether what is rented would spend more than is left before the next look."""
    situation = outlook.situation
    if situation.iterations_left <= 0 or math.isinf(outlook.money_left_usd):
        return False
    running, ordered = situation.running, situation.ordered
    rented = [] if running is None else [running]
    if ordered is not None and not (running is not None and _same(running, ordered)):
        rented.append(ordered)  # both are paid for until the new VMs take over
    usd_per_hour = sum(c.usd_per_hour for c in rented) + outlook.job.extra_usd_per_hour
    saving_s = outlook.rule.look_s + outlook.job.overheads.checkpoint_s
    if running is not None and outlook.is_running(running):
        saving_s = min(saving_s, outlook.finish_s(running))  # what is nearly done is let end
    return outlook.money_left_usd <= usd_per_hour * saving_s / _S_PER_HOUR


def _present(outlook: Outlook) -> Candidate | None:
    """Returns the plan in force: what was ordered, or what runs where that cannot be had."""
    ordered = outlook.situation.ordered
    if ordered is not None and outlook.is_obtainable(ordered):
        return ordered
    return outlook.situation.running


def _fallbacks(outlook: Outlook, usable: Sequence[Candidate]) -> _Fallbacks | None:
    """Returns the firm plans that could still save both limits; None where there is none."""
    firm = [
        c
        for c in usable
        if c.is_firm
        and outlook.rescue_s(c) <= outlook.time_left_s
        and outlook.rescue_usd(c) <= outlook.money_left_usd
    ]
    if not firm:
        return None
    most_usd = (1.0 + outlook.rule.least_gain) * min(outlook.rescue_usd(c) for c in firm)
    cheap = [c for c in firm if outlook.rescue_usd(c) <= most_usd]
    return _Fallbacks(min(cheap, key=outlook.rescue_s), min(firm, key=outlook.rescue_s))


def _choose(
    outlook: Outlook,
    known: Sequence[Candidate],
    usable: Sequence[Candidate],
    present: Candidate | None,
    fallbacks: _Fallbacks | None,
) -> _Choice:
    """Returns what is best from here."""
    situation = outlook.situation
    fallback = None if fallbacks is None else fallbacks.usual
    scores = {id(c): outlook.score(c, fallback) for c in usable}

    def score(candidate: Candidate) -> tuple[float, float]:
        return scores[id(candidate)], outlook.iteration_s(candidate)

    safe = [c for c in usable if _is_safe(outlook, c, fallbacks)]
    if not outlook.job.accumulate:
        # The planner's last resort where it knows of nothing else: VMs that boot already may be.
        usual = [c for c in safe if not c.has_passes or (present and _same(c, present))]
        safe = usual or safe
    running = situation.running
    is_in_force = running is not None and present is not None and _same(running, present)
    if situation.alarm and is_in_force and _was_meant_to_meet(outlook):
        others = [c for c in safe if not outlook.is_running(c) and outlook.meets_limits(c)]
        if not others:
            return _Choice(present, Cause.NO_PLAN)
        return _Choice(min(others, key=score), _alarm_cause(situation))
    if not safe:
        return _least_bad(outlook, usable, present)
    best = min(safe, key=score)
    in_force = next((c for c in safe if present is not None and _same(c, present)), None)
    if in_force is not None:
        gains = scores[id(best)] <= (1.0 - outlook.rule.least_gain) * scores[id(in_force)]
        if gains:
            return _Choice(best, Cause.CHEAPER)
        if situation.slow_vm is not None:
            return _Choice(in_force, Cause.SLOW_VM)
        # What was ordered cannot be had any more, and its survivors do.
        is_left = situation.ordered is not None and not _same(situation.ordered, in_force)
        return _Choice(in_force, Cause.LOST if is_left else Cause.ON_COURSE)
    if _waiting_pays(outlook, known, scores[id(best)], fallback):
        return _Choice(None, Cause.SLACK)
    if not situation.has_begun:
        return _Choice(best, Cause.FIRST)
    if situation.ordered is None and not best.is_firm:
        return _Choice(best, Cause.RETRY)
    if fallbacks is None and running is not None and present is situation.ordered:
        return _Choice(best, Cause.LIMIT)
    given_up = situation.ordered is None or present is situation.ordered
    return _Choice(best, Cause.NO_RETURN if given_up else Cause.LOST)


def _alarm_cause(situation: Situation) -> Cause:
    """Returns why the pace misses a limit, as far as that is known."""
    if situation.slow_vm is not None:
        return Cause.SLOW_VM
    if situation.blame is not None and situation.blame.culprit is Culprit.NETWORK:
        return Cause.SLOW_NETWORK
    return Cause.LIMIT


def _same(one: Candidate, other: Candidate) -> bool:
    return one is other or one.config == other.config


def _is_safe(outlook: Outlook, candidate: Candidate, fallbacks: _Fallbacks | None) -> bool:
    """Whether a plan keeps the limits, whatever is reclaimed, if any firm plan can."""
    if fallbacks is None or candidate.is_firm:
        # A running plan is given up for its pace by the alarm alone, not by one slow window.
        on_trial = not outlook.situation.alarm and _was_meant_to_meet(outlook)
        return (on_trial and outlook.is_running(candidate)) or outlook.meets_limits(candidate)
    if outlook.cost_usd(candidate) > outlook.money_left_usd:
        return False
    usual = fallbacks.usual
    as_fast_s = (1.0 + outlook.rule.least_gain) * outlook.iteration_s(usual, at_confidence=True)
    if outlook.iteration_s(candidate) > as_fast_s:
        return outlook.margin_s(candidate, usual) >= _reserve_s(outlook, usual)
    return outlook.margin_s(candidate, fallbacks.last) >= 0.0


def _reserve_s(outlook: Outlook, fallback: Candidate) -> float:
    """Returns seconds of slack that are not waited away: they are worth more later.

    A second of slack saves at most a second of firm VMs if it is waited away; what an interruption
    costs buys a whole stay on cheap ones.
    """
    restore_s = outlook.job.overheads.restore_s
    worst_s = outlook.loss_s(fallback) + restore_s
    usual_s = outlook.usual_loss_s(fallback) + restore_s
    to_come = outlook.interruptions_to_come(fallback)
    return outlook.rule.interruptions_kept * worst_s + to_come * usual_s


def _was_meant_to_meet(outlook: Outlook) -> bool:
    """Whether what runs would keep the limits at its forecast pace.

    What was chosen for being cheap while a fallback keeps the deadline is no disappointment.
    """
    situation = outlook.situation
    running = situation.running
    if running is None or situation.pace is None:
        return False
    as_forecast_s = situation.iterations_left * running.iteration_s + outlook.pauses_s
    return situation.slow_vm is not None or as_forecast_s <= outlook.time_left_s


def _least_bad(outlook: Outlook, usable: Sequence[Candidate], present: Candidate | None) -> _Choice:
    """Returns what misses the deadline least, within the money, where no plan meets all limits."""
    affordable = [c for c in usable if outlook.cost_usd(c) <= outlook.money_left_usd]
    best = min(affordable or usable, key=outlook.finish_s, default=None)
    if best is None or present is None:
        return _Choice(best, Cause.NO_PLAN)
    in_force = next((c for c in usable if _same(c, present)), None)
    least_s = (1.0 - outlook.rule.least_gain) * outlook.finish_s(present)
    if in_force is not None and outlook.finish_s(best) > least_s:
        return _Choice(in_force, Cause.NO_PLAN)
    return _Choice(best, Cause.NO_PLAN)


def _waiting_pays(
    outlook: Outlook,
    known: Sequence[Candidate],
    best_score: float,
    fallback: Candidate | None,
) -> bool:
    """Whether VMs that are cheaper than the best at hand may come in time, and nothing is lost."""
    if outlook.job.objective is not Objective.COST or math.isinf(outlook.time_left_s):
        return False
    if fallback is None or outlook.margin_s(None, fallback) < _reserve_s(outlook, fallback):
        return False
    hoped_for = [
        outlook.usd_per_iteration(c)
        for c in known
        if not c.is_firm
        and not outlook.is_obtainable(c)
        and not any(outlook.pools.is_lost(pool) for pool in c.vms)
    ]
    return min(hoped_for, default=math.inf) < (1.0 - outlook.rule.least_gain) ** 2 * best_score


def _decision(
    outlook: Outlook, choice: _Choice, present: Candidate | None, fallback: Candidate | None
) -> Decision:
    """Returns the choice in words for whoever carries it out."""
    situation, chosen = outlook.situation, choice.candidate
    now_s, look_s = situation.now_s, outlook.rule.look_s
    look_again_s = min(now_s + look_s, max(outlook.pools.next_opening_s(now_s), now_s + 1.0))
    numbers = _numbers(outlook, chosen, present, fallback)
    if chosen is None:
        return Decision(now_s, DecisionKind.WAIT, choice.cause, None, look_again_s, numbers=numbers)
    ordered = situation.ordered
    stays = ordered is not None and _same(ordered, chosen) and situation.slow_vm is None
    return Decision(
        now_s,
        DecisionKind.STAY if stays else DecisionKind.MOVE,
        choice.cause,
        chosen.config,
        look_again_s,
        train_on=_training_on_pays(outlook, chosen, fallback),
        replace=() if stays or situation.slow_vm is None else (situation.slow_vm[0],),
        numbers=numbers,
    )


def _training_on_pays(outlook: Outlook, chosen: Candidate, fallback: Candidate | None) -> bool:
    """Whether the present VMs should train while those of the chosen plan boot.

    They should where their iterations cost no more than later ones may, or where time is missing.
    Those that the chosen plan keeps are paid for whether or not they train.
    """
    running = outlook.situation.running
    if running is None:
        return True
    if outlook.situation.is_idle and outlook.boot_s(chosen) <= outlook.restore_s(running):
        return False
    if outlook.job.objective is Objective.TIME:
        return True
    later = [outlook.usd_per_iteration(c) for c in (chosen, fallback) if c is not None]
    usd_per_hour = outlook.usd_per_hour_beside(chosen)
    if outlook.iteration_s(running) * usd_per_hour / _S_PER_HOUR <= max(later):
        return True
    return outlook.finish_s(chosen) + 2 * outlook.boot_s(chosen) > outlook.time_left_s


def _numbers(
    outlook: Outlook,
    chosen: Candidate | None,
    present: Candidate | None,
    fallback: Candidate | None,
) -> tuple[tuple[str, float], ...]:
    """Returns the figures that a decision rests on."""
    situation = outlook.situation
    numbers = [
        ("iterations_left", situation.iterations_left),
        ("spent_usd", situation.spent_usd),
        ("time_left_s", outlook.time_left_s),
        ("money_left_usd", outlook.money_left_usd),
    ]
    if situation.pace is not None:
        numbers += [
            ("pace_per_s", situation.pace.mean),
            ("best_pace_per_s", situation.pace.bound),
        ]
    if situation.blame is not None:
        numbers += [
            ("excess_s", situation.blame.excess_s),
            ("vm_excess_s", situation.blame.vm_excess_s),
            ("network_excess_s", situation.blame.network_excess_s),
        ]
    for name, candidate in (("chosen", chosen), ("present", present), ("fallback", fallback)):
        if candidate is not None:
            numbers += [
                (f"{name}_finish_s", outlook.finish_s(candidate)),
                (f"{name}_cost_usd", outlook.cost_usd(candidate)),
                (f"{name}_usd_per_iteration", outlook.usd_per_iteration(candidate)),
            ]
    if fallback is not None:
        numbers += [
            ("margin_s", outlook.margin_s(chosen, fallback)),
            ("reserve_s", _reserve_s(outlook, fallback)),
        ]
    return tuple((name, value) for name, value in numbers)
