from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from srifty.control.ledger import Ledger
from srifty.control.run_order import Ending
from srifty.core import Location, Market, Objective
from srifty.core.scenario import Act, Happening, PoolScript
from tests.control.played import RULE, PlayedRun, job, offers


@pytest.fixture
def run(tmp_path):
    made = PlayedRun(tmp_path)
    yield made
    made.close()


def small(*happenings: Happening, **changes) -> PoolScript:
    return PoolScript("a1.small", happenings=tuple((1, what) for what in happenings), **changes)


def ledger_of(run: PlayedRun) -> Ledger:
    return Ledger.read(run.folder / "ledger.db")


def test_a_steady_run_ends_with_everything_released(run):
    outcome = run.run()
    assert outcome.ending is Ending.FINISHED
    assert outcome.iteration == 40
    with ledger_of(run) as ledger:
        assert ledger.unfinished() == []
        assert ledger.run().outcome["ending"] == "finished"
        assert ledger.bill(1e6).usd == pytest.approx(outcome.usd)
        assert [step.kind for step in ledger.steps()] == [
            "order", "launch", "world", "end-world", "close", "release",
        ]  # fmt: skip
    assert run.is_gone()


def test_a_vm_that_is_taken_back_is_replaced_and_training_goes_on_from_the_checkpoint(run):
    run.scripts = (small(Happening(Act.PREEMPT, at_iteration=15)),)
    outcome = run.run()
    assert outcome.ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        starts = [s.document["from_iteration"] for s in ledger.steps() if s.kind == "world"]
        causes = [decision["cause"] for decision in ledger.decisions()]
    assert len(starts) == 2
    assert starts[0] == 0
    assert starts[1] >= 10
    assert "lost" in causes


def test_with_a_notice_what_was_made_is_saved_before_the_move(run):
    run.scripts = (small(Happening(Act.PREEMPT, at_iteration=12, notice_s=30.0)),)
    run.every = 10**9  # nothing is saved but on demand
    run.job = job(1_000_000)

    def stop_once_moved(words: str) -> None:
        run.told.append(words)
        run.stops[0] = int(sum("training starts" in told for told in run.told) == 2)

    run.tell = stop_once_moved
    assert run.run().ending is Ending.STOPPED
    with ledger_of(run) as ledger:
        starts = [s.document["from_iteration"] for s in ledger.steps() if s.kind == "world"]
    assert starts[1] >= 12


def test_a_worker_that_dies_is_started_again_on_the_same_vm(run):
    run.scripts = (small(Happening(Act.KILL_WORKER, at_iteration=15)),)
    assert run.run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        kinds = [step.kind for step in ledger.steps()]
    assert kinds.count("launch") == 1
    assert kinds.count("world") == 2


def test_without_capacity_another_pool_is_taken(run):
    dry = ("code=InsufficientInstanceCapacity",) * 2
    run.scripts = (PoolScript("a1.small", market=Market.SPOT, answers=dry),)
    assert run.run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        assert "b1.large" in str(ledger.events()[-1].pool)
        assert ledger.bill(1e6).vms[0].usd == 0.0


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "NobodyKnowsThisCode"])
def test_what_cannot_be_mended_stops_the_run_with_the_clouds_own_words(run, code):
    run.scripts = (PoolScript(answers=(f"code={code} op=RunInstances",) * 9),)
    outcome = run.run()
    assert outcome.ending is Ending.REFUSED
    assert code in outcome.message
    assert outcome.usd == 0.0


def test_vms_that_die_as_they_boot_are_not_asked_for_without_end(run):
    run.scripts = (PoolScript(boot_s=30.0, happenings=()),)
    run.rule = replace(RULE, launch_s=0.5)
    timer = threading.Timer(4.0, lambda: run.stops.__setitem__(0, 1))
    timer.start()
    assert run.run().ending is Ending.STOPPED
    timer.join()
    with ledger_of(run) as ledger:
        assert len(ledger.vms()) <= 6


def test_the_money_is_a_hard_cap(run):
    run.job = job(1_000_000, budget_usd=0.03)
    run.factor = 60.0
    outcome = run.run()
    assert outcome.ending is Ending.MONEY
    assert outcome.usd <= 0.03
    assert run.is_gone()


def test_a_run_that_makes_no_progress_is_given_up(run):
    (run.folder / "vms").mkdir()
    (run.folder / "vms" / "fail").touch()
    outcome = run.run()
    assert outcome.ending is Ending.UNFINISHED
    assert "5 starts in a row" in outcome.message
    assert ".log" in outcome.message


def test_a_script_that_ends_early_is_told_from_a_job_that_is_done(run):
    run.steps = 20
    outcome = run.run()
    assert outcome.ending is Ending.UNFINISHED
    assert "20 of 40" in outcome.message


def test_when_asked_to_stop_it_saves_and_releases(run):
    run.job = job(100_000)
    run.every = 1_000_000

    def stop_soon(words: str) -> None:
        run.told.append(words)
        if "training starts" in words:
            threading.Timer(1.0, lambda: run.stops.__setitem__(0, 1)).start()

    run.tell = stop_soon
    outcome = run.run()
    assert outcome.ending is Ending.STOPPED
    assert outcome.iteration > 0
    saved = [entry.name for entry in (run.folder / "vms" / "checkpoints").iterdir()]
    assert saved == [f"step-{outcome.iteration:012d}"]
    assert run.is_gone()


def test_a_controller_that_was_killed_is_followed_by_another(run):
    run.job = job(200)
    run.kill_after = 40  # looks
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.processes() != []
    run.kill_after = None
    outcome = run.run()
    assert outcome.ending is Ending.FINISHED
    assert any("goes on with this run" in words for words in run.told)
    with ledger_of(run) as ledger:
        assert len(ledger.vms()) == 1
        assert [step.kind for step in ledger.steps()].count("world") == 1


@pytest.mark.parametrize("kind", ["launch", "world", "release"])
def test_a_step_that_was_begun_and_not_done_is_done_once(run, kind, monkeypatch):
    begin = Ledger.begin

    def dying(self, what, *arguments):
        number = begin(self, what, *arguments)
        if what == kind:
            raise KeyboardInterrupt
        return number

    monkeypatch.setattr(Ledger, "begin", dying)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    monkeypatch.undo()
    assert run.run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        assert ledger.unfinished() == []
        assert len(ledger.vms()) == 1
    assert run.is_gone()


def test_in_a_partial_launch_the_refused_cost_nothing_and_the_rest_goes_on(run):
    run.offers = offers(small=4, large=0, on_demand=0)
    run.job = replace(job(30), objective=Objective.TIME)
    run.per_sample_s = 0.001
    run.scripts = (PoolScript("a1.small", answers=(None, None, None, "VcpuLimitExceeded")),)
    assert run.run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        lines = ledger.bill(1e6).vms
    assert lines[3].usd == 0.0
    # Two can share the batch; the third is let go, perhaps before it has booted.
    assert sum(line.usd > 0 for line in lines) >= 2


def worlds_of(run: PlayedRun) -> list[dict]:
    """The worlds that were started, each with all samples of the global batch."""
    with ledger_of(run) as ledger:
        worlds = [step.document for step in ledger.steps() if step.kind == "world"]
    assert all(sum(map(int, world["shares"].split(","))) == 64 for world in worlds)
    return worlds


def test_survivors_train_on_with_the_whole_batch_until_replacements_have_come(run):
    run.offers = offers(small=2, large=0, on_demand=1)
    run.job = replace(job(150, launch_s=8.0), objective=Objective.TIME)
    run.per_sample_s = 0.001
    run.factor = 4.0
    run.scripts = (
        small(Happening(Act.PREEMPT, at_iteration=15), market=Market.SPOT),
        PoolScript("a1.small", boot_s=8.0),
    )
    assert run.run().ending is Ending.FINISHED
    both, survivor, replaced = worlds_of(run)
    assert (both["shares"], survivor["shares"], replaced["shares"]) == ("32,32", "64", "32,32")
    assert survivor["vms"][0][0] in [vm[0] for vm in replaced["vms"]]
    assert survivor["from_iteration"] >= 10
    assert replaced["from_iteration"] > survivor["from_iteration"]


def test_who_moves_to_another_zone_trains_on_in_the_old_one_until_then(run):
    there = Location("us-east-1", "us-east-1b")
    run.offers = (
        *offers(small=2, large=0, on_demand=0),
        replace(offers()[1], location=there, usd_per_hour=1.50),
    )
    # Alone, one small VM would be late.
    run.job = job(200, deadline_s=36.0, launch_s=8.0)
    run.per_sample_s = 0.001
    run.factor = 4.0
    run.scripts = (
        small(Happening(Act.PREEMPT, at_iteration=15)),
        PoolScript("b1.large", boot_s=8.0),
    )
    assert run.run().ending is Ending.FINISHED
    _, survivor, moved = worlds_of(run)
    assert survivor["config_text"] == "1a1.small (spot)@64"
    assert "b1.large" in moved["config_text"]
    assert moved["from_iteration"] > survivor["from_iteration"]
    with ledger_of(run) as ledger:
        begun_s = [s.begun_s for s in ledger.steps() if s.kind == "world"]
        ended_s = {e.vm: e.at_s for e in ledger.events() if e.kind == "terminated"}
    assert ended_s[survivor["vms"][0][0]] > begun_s[2]


def test_vms_whose_iterations_cost_more_than_later_ones_do_not_train_on(run):
    dear, cheap = offers(small=1, large=1, on_demand=0)[:2]
    run.offers = (replace(dear, usd_per_hour=9.0), replace(cheap, usd_per_hour=0.1))
    run.job = job(3500, launch_s=60.0)
    run.factor = 30.0
    run.scripts = (PoolScript("b1.large", boot_s=60.0, answers=("InsufficientInstanceCapacity",)),)
    assert run.run().ending is Ending.FINISHED
    assert ["a1.small" in world["config_text"] for world in worlds_of(run)] == [True, False]
    with ledger_of(run) as ledger:
        kinds = [step.kind for step in ledger.steps()]
        launched_s = {e.vm: e.at_s for e in ledger.events() if e.kind == "launched"}
        ended_s = {e.vm: e.at_s for e in ledger.events() if e.kind == "terminated"}
        saved = next(s.document for s in ledger.steps() if s.kind == "end-world")
    assert kinds.count("world") == 2
    assert saved["saves"]
    old, new = sorted(launched_s, key=lambda vm: launched_s[vm])
    assert ended_s[old] < launched_s[new]


def test_cheaper_vms_are_waited_for_while_there_is_time(run):
    run.offers = offers(small=1, large=0, on_demand=1)
    run.job = job(400, deadline_s=3000.0)
    run.factor = 30.0
    run.scripts = (
        PoolScript("a1.small", market=Market.SPOT, answers=("InsufficientInstanceCapacity",)),
    )
    assert run.run().ending is Ending.FINISHED
    (world,) = worlds_of(run)
    assert world["config_text"] == "1a1.small (spot)@64"
    with ledger_of(run) as ledger:
        assert "slack" in [decision["cause"] for decision in ledger.decisions()]


SLEEPER = ("-c", "import time; time.sleep(600)")


def mixed(run: PlayedRun, preflight: tuple[str, ...]) -> PlayedRun:
    """A run whose best plan has two types of VMs, which try an exchange first."""
    run.offers = offers(small=2, large=1, on_demand=0)
    run.job = replace(job(30), objective=Objective.TIME)
    run.per_sample_s = 0.001
    run.preflight = preflight
    return run


def test_types_that_exchange_train_together(run):
    assert mixed(run, ("-c", "")).run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        kinds = [step.kind for step in ledger.steps()]
        worlds = [s.document["config_text"] for s in ledger.steps() if s.kind == "world"]
    assert kinds.index("preflight") < kinds.index("world")
    assert "a1.small" in worlds[0]
    assert "b1.large" in worlds[0]


def test_types_that_hang_are_named_and_kept_apart(run):
    run.rule = replace(RULE, preflight_s=0.5)
    assert mixed(run, SLEEPER).run().ending is Ending.FINISHED
    with ledger_of(run) as ledger:
        worlds = [s.document["config_text"] for s in ledger.steps() if s.kind == "world"]
    assert any("exchanges between a1.small and b1.large hang" in words for words in run.told)
    assert worlds
    assert all("+" not in config for config in worlds)
