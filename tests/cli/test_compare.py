import json

import pytest

from tests.command import job_text, profile_document, srifty, write_job

METHODS = [
    "srifty", "anchored", "apm", "paleo", "oracle-bo", "cgf", "fgf", "cheapest-homogeneous",
]  # fmt: skip
LAYERS = [{"name": "conv", "flops": 1e9, "bytes": 1e6, "parameters": 250000}]


def compared(path, *arguments):
    outcome = srifty("compare", path, *arguments, "--json")
    assert outcome.err == ""
    return outcome.code, json.loads(outcome.out)


def test_json_holds_every_method_with_both_forecasts(tmp_path):
    path = write_job(tmp_path, profile=profile_document(layers=LAYERS))
    code, document = compared(path)
    assert code == 0
    assert [entry["method"] for entry in document["methods"]] == METHODS
    assert document["minimize"] == "cost"
    for entry in document["methods"]:
        assert entry["reason"] is None
        assert entry["meets_limits"]
        assert entry["over_best"] >= 0
        groups = entry["choice"]["groups"]
        assert sum(group["count"] * group["samples_per_vm"] for group in groups) == 64
        assert entry["simulated"]["cost_usd"]["mean"] > 0
    ours = document["methods"][0]
    assert ours["over_best"] == 0
    for key in ("time_s", "cost_usd", "iteration_s"):  # rows side by side differ in rounding
        assert ours["own"][key] == pytest.approx(ours["simulated"][key])
    planned = json.loads(srifty("plan", path, "--json").out)["plan"]
    assert ours["choice"]["config"] == planned["config"]
    assert document["assumptions"]


def test_options_change_the_job(tmp_path):
    path = write_job(tmp_path, profile=profile_document(layers=LAYERS))
    code, document = compared(
        path, "--minimize", "time", "--set", "deadline=1h", "--confidence", "0.8", "--seed", "3"
    )
    assert code == 0
    assert (document["minimize"], document["deadline_s"]) == ("time", 3600)
    assert document["confidence"] == 0.8
    outcome = srifty("compare", path, "--confidence", "1.5")
    assert outcome.code == 2
    assert outcome.err.startswith("error: --confidence: ")


def test_people_see_a_table_and_why_a_method_chooses_nothing(tmp_path):
    path = write_job(tmp_path)
    outcome = srifty("compare", path, "--set", "deadline=1h")
    assert outcome.code == 0
    for name in METHODS:
        assert f"  {name} " in outcome.out
    assert "kept (>99%)" in outcome.out
    assert "layers" not in outcome.out.split("\n")[0]
    assert "unknown in the profile of toy on T4" in outcome.out
    assert "within 1 h" in outcome.out


def test_limits_that_nobody_keeps_end_with_3(tmp_path):
    path = write_job(tmp_path, job_text(extra="deadline: 1s"))
    code, document = compared(path)
    assert code == 3
    methods = {entry["method"]: entry for entry in document["methods"]}
    assert methods["srifty"]["choice"] is None
    assert methods["srifty"]["reason"]
    assert methods["cgf"]["meets_limits"] is False
    assert methods["cgf"]["over_best"] is None
    outcome = srifty("compare", path)
    assert outcome.code == 3
    assert "broken (<1%)" in outcome.out


def test_a_bad_job_file_is_one_clear_error(tmp_path):
    outcome = srifty("compare", write_job(tmp_path, job_text(extra="dead_line: 1s")))
    assert outcome.code == 2
    assert "dead_line" in outcome.err
    assert outcome.out == ""
