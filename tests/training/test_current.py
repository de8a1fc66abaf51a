import json
import logging

import pytest

pytest.importorskip("torch", reason="torch is an extra")

from srifty.errors import InputError
from srifty.training import Share, current_share
from tests.command import srifty, write_job

GROUP = {"count": 2, "local_batch": [10, 9], "accumulation": 3}


def environment(rank, world_size, **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(world_size), **more}


def plan_file(folder, document):
    path = folder / "plan.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_a_plan_deals_by_rank(tmp_path):
    groups = [GROUP, {"count": 1, "local_batch": [4], "accumulation": 1}]
    path = plan_file(tmp_path, {"plan": {"groups": groups}})
    share = current_share(environment=environment(4, 5, SRIFTY_PLAN=path))
    assert share == Share(4, (10, 9, 10, 9, 4), (3, 3, 3, 3, 1))
    assert share.global_batch == 42


def test_what_the_command_line_plans_is_understood(tmp_path):
    path = tmp_path / "plan.json"
    assert srifty("plan", write_job(tmp_path), "-o", path).code == 0
    world_size = json.loads(path.read_text())["plan"]["world_size"]
    share = current_share(environment=environment(0, world_size, SRIFTY_PLAN=str(path)))
    assert share.world_size == world_size
    assert share.global_batch == 64


def test_shares_may_be_listed():
    share = current_share(environment=environment(2, 3, SRIFTY_SHARES="12/3, 2,1"))
    assert share == Share(2, (12, 2, 1), (3, 1, 1))
    assert current_share(environment={"SRIFTY_SHARES": "8/2"}) == Share(0, (8,), (2,))


def test_without_a_plan_a_script_is_ordinary(caplog):
    assert current_share(global_batch=7, environment={}) == Share.of(7)
    even = current_share(global_batch=8, environment=environment(1, 3))
    assert even == Share.of(3, 3, 2, rank=1)
    with caplog.at_level(logging.WARNING):
        assert current_share(environment={}) == Share.of(32)
    assert "each step takes 32 samples" in caplog.text


@pytest.mark.parametrize(
    ("variables", "options", "words"),
    [
        (environment(0, 2, SRIFTY_SHARES="5,2,1"), {}, "3 workers, torchrun started 2"),
        ({"SRIFTY_SHARES": "5,2,1"}, {}, "start the script with torchrun, 3 processes"),
        (environment(0, 2, SRIFTY_SHARES="5,x"), {}, "worker 1: 'x' is no share"),
        (environment(0, 2, SRIFTY_SHARES="5,2/3"), {}, "worker 1: 2 samples cannot be done in 3"),
        (environment(0, 2, SRIFTY_SHARES="5,2"), {"global_batch": 8}, "global batch of 7"),
        ({"SRIFTY_SHARES": "5", "SRIFTY_PLAN": "x"}, {}, "both set"),
        ({"RANK": "1"}, {}, "belong together"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, {}, "RANK must be a whole number, not 'one'"),
        (environment(2, 2), {}, "rank must lie between 0 and 1, not 2"),
        (environment(0, 4), {"global_batch": 3}, "cannot be dealt to 4 workers"),
        ({}, {"global_batch": 0}, "global_batch must be 1 or more"),
        ({"SRIFTY_PLAN": "/nowhere/plan.json"}, {}, "there is no such file"),
    ],
)
def test_what_does_not_fit_is_refused(variables, options, words):
    with pytest.raises(InputError, match=words):
        current_share(environment=variables, **options)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "has no key `plan`"),
        ({"plan": None}, "holds no plan"),
        ({"plan": []}, "plan.groups: must be a list"),
        ({"plan": {"groups": []}}, "plan.groups: must be a list"),
        ({"plan": {"groups": [3]}}, "plan.groups.0.local_batch: must list"),
        ({"plan": {"groups": [GROUP | {"count": True}]}}, r"groups.0.count: .* not True"),
        ({"plan": {"groups": [GROUP | {"local_batch": [1, "2"]}]}}, "must list the samples"),
        ({"plan": {"groups": [GROUP | {"count": 10**9}]}}, "more than 1,000,000 workers"),
    ],
)
def test_files_that_are_no_plan_are_refused(tmp_path, document, words):
    path = plan_file(tmp_path, document)
    with pytest.raises(InputError, match=words):
        current_share(environment=environment(0, 1, SRIFTY_PLAN=path))
