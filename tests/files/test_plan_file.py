# ruff: noqa: E501 - one row a case
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srifty.core import Location, Market
from srifty.errors import InputError
from srifty.files import read_plan
from tests.command import job_text, srifty, write_job

GROUP = {
    "instance_type": "p3.8xlarge", "market": "spot", "location": {"region": "us-east-1"},
    "count": 2, "samples_per_vm": 5, "gpus_used": 2, "local_batch": [3, 2], "accumulation": 2,
}  # fmt: skip


def document(*groups, **changes):
    plan = {
        "config": "2p3.8xlarge (spot):2gpu@5x2",
        "groups": list(groups or (GROUP,)),
        "world_size": 2 * 2 * max(len(groups), 1),
    }
    return {"format": "srifty-plan/1", "srifty": "0.1.0", "plan": plan} | changes


def write(folder, content):
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def with_group(**changes):
    return document(GROUP | changes)


def test_what_the_contract_names_is_enough(tmp_path):
    plan = read_plan(write(tmp_path, document()))
    (group,) = plan.groups
    assert (group.instance_type, group.market) == ("p3.8xlarge", Market.SPOT)
    assert group.location == Location("us-east-1")
    assert (group.gpus, group.cloud, group.vcpus) == (2, None, None)
    assert plan.shares == "3/2,2/2,3/2,2/2"
    assert plan.job == "plan"


def test_what_plan_writes_is_read(tmp_path):
    run = "run: {setup: [make], env: {A: b}, secrets: [TOKEN], tags: {team: vision}, image: ami-1}"
    path = tmp_path / "plan.json"
    outcome = srifty("plan", write_job(tmp_path, job_text(extra=run)), "-o", path)
    assert outcome.code == 0, outcome.err
    written = json.loads(path.read_text())
    plan = read_plan(path)
    assert (plan.job, plan.config) == ("toy", written["plan"]["config"])
    assert plan.world_size == written["plan"]["world_size"]
    assert sum(group.count * sum(group.local_batch) for group in plan.groups) == 64
    (group, *_) = plan.groups
    assert (group.cloud, group.gpu, group.gpus, group.vcpus) == ("aws", "T4", 1, 4)
    settings = plan.settings
    assert (settings.setup, settings.env) == (("make",), (("A", "b"),))
    assert (settings.secrets, settings.tags) == (("TOKEN",), (("team", "vision"),))
    assert (settings.image, settings.workdir) == ("ami-1", ".")


def test_a_spot_plan_with_explanations_is_read(tmp_path):
    path = tmp_path / "plan.json"
    text = job_text(("[on-demand, spot]", "[spot]"))
    outcome = srifty("plan", write_job(tmp_path, text), "--explain", "-o", path)
    assert outcome.code == 0, outcome.err
    written = json.loads(path.read_text())
    assert written["plan"]["interruptions"] is not None
    assert written["explanations"]
    assert {group.market for group in read_plan(path).groups} == {Market.SPOT}


def test_a_plan_that_meets_no_limits_is_no_plan(tmp_path):
    path = tmp_path / "plan.json"
    job = write_job(tmp_path, job_text(extra="deadline: 1ms"))
    assert srifty("plan", job, "-o", path).code == 3
    with pytest.raises(InputError, match="holds no plan: none met the limits"):
        read_plan(path)


WRONG = {
    "no JSON": ("{", "is not JSON (line 1"),
    "a list": ("[]", "must be a mapping"),
    "key twice": ('{"plan": null, "plan": null}', "'plan' is given twice"),
    "another file": ({"format": "srifty-profile/1", "srifty": "1", "plan": None}, "format: must be"),
    "unknown key": (document(plans=3), "plans: unknown key"),
    "no version": ({"format": "srifty-plan/1", "plan": None}, "srifty: is missing"),
    "no groups": (document(plan={"config": "x", "groups": [], "world_size": 1}), "plan.groups:"),
    "unknown market": (with_group(market="spott"), "plan.groups.0.market: must be one of on-demand"),
    "no VM": (with_group(count=0), "plan.groups.0.count: must be a whole number of at least 1"),
    "truth": (with_group(count=True), "plan.groups.0.count: must be a whole number"),
    "other GPUs": (with_group(gpus_used=3), "plan.groups.0.local_batch: lists 2 workers, but gpus"),
    "other samples": (with_group(samples_per_vm=6), "plan.groups.0.local_batch: sums to 5, but sam"),
    "too few GPUs": (with_group(gpus=1), "plan.groups.0: p3.8xlarge has 1 GPUs, so 2 of them"),
    "too many passes": (with_group(accumulation=3), "cannot make 3 passes"),
    "extra in a group": (with_group(shape=3), "plan.groups.0.shape: unknown key"),
    "world size": (document(GROUP, GROUP) | {"plan": document(GROUP, GROUP)["plan"] | {"world_size": 7}},
                   "plan.world_size: is 7, but the groups have 8 workers"),
    "two at once": (document(GROUP | {"count": 0}, GROUP | {"market": 3}), "plan.groups.0.count",
                    "plan.groups.1.market"),
    "run": (document(run={"secrets": ["A=b"]}), "run.secrets: entry 0 is no name"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_plan_is_named_with_file_path_and_remedy(tmp_path, name):
    content, *words = WRONG[name]
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_plan(path)
    message = str(caught.value)
    assert all(line.startswith(f"{path}: ") for line in message.splitlines())
    for word in words:
        assert word in message


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(
    st.sampled_from(sorted(GROUP)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=5,
    ),
)
def test_any_value_in_a_group_is_read_or_refused(tmp_path, key, value):
    path = write(tmp_path, with_group(**{key: value}))
    try:
        world_size = read_plan(path).world_size
    except InputError as error:
        world_size = 4
        told = str(error)
    else:
        told = "plan."
    assert world_size == 4
    assert "plan." in told
