import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srifty.errors import InputError
from srifty.files.plan_document import read_plan_document
from tests.command import srifty, write_job


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    path = folder / "plan.json"
    assert srifty("plan", write_job(folder), "--explain", "-o", path).code == 0
    return path


def write(folder, content):
    path = folder / "plan.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_all_that_plan_writes_is_read(written):
    document = json.loads(written.read_text())
    read = read_plan_document(written)
    assert read.job == "toy"
    assert read.request.iterations == 100
    assert read.plan.vms == sum(group["count"] for group in document["plan"]["groups"])
    assert read.plan.samples == read.request.global_batch == 64
    assert json.loads(read.model_dump_json()) == document


WRONG = {
    "no JSON": (lambda d: "{", "is not JSON"),
    "a list": (lambda d: [], "must be a mapping"),
    "another file": (lambda d: d | {"format": "srifty-profile/1"}, "format: must be"),
    "unknown key": (lambda d: d | {"plans": 1}, "plans: unknown key"),
    "a text for a number": (
        lambda d: d | {"plan": d["plan"] | {"usd_per_hour": "3"}},
        "plan.usd_per_hour: must be a valid number",
    ),
    "no groups": (lambda d: d | {"plan": d["plan"] | {"groups": []}}, "plan.groups"),
    "no world": (lambda d: d | {"plan": d["plan"] | {"world_size": 0}}, "plan.world_size"),
    "far too many": (lambda d: d | {"warnings": ["x"] * 10_001}, "at most 10,000 can be shown"),
    "hand-written": (lambda d: {"format": "srifty-plan/1", "plan": None}, "job: is missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_file_and_place(written, tmp_path, name):
    change, words = WRONG[name]
    path = write(tmp_path, change(json.loads(written.read_text())))
    with pytest.raises(InputError) as caught:
        read_plan_document(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_is_torn_out_is_an_input_error_or_read(written, tmp_path, data):
    document = json.loads(written.read_text())
    place, key = document, None
    for _ in range(data.draw(st.integers(1, 4))):
        entries = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not entries:
            break
        holder, key = place, data.draw(st.sampled_from(entries))
        place = holder[key]
        if not isinstance(place, dict | list):
            break
    holder[key] = data.draw(
        st.sampled_from([None, -1, 10**400, "", "x", [], {}, [[]], True, {"mean": "x"}])
    )
    with contextlib.suppress(InputError):
        read_plan_document(write(tmp_path, document))
