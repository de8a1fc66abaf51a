import json
from pathlib import Path

import pytest

from tests.command import job_text, profile_document, srifty, write_job

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet50.yaml"
GLOBAL_BATCH = 1024
KEYS = {
    "verdict", "plan", "ranking", "front", "method", "considered", "proved_optimal", "seconds",
    "assumptions", "reasons",
}  # fmt: skip
PLAN_KEYS = {"config", "groups", "world_size", "iteration_s", "parts", "time_s", "cost_usd"}
GROUP_KEYS = {
    "instance_type", "market", "location", "count", "samples_per_vm", "gpus_used", "local_batch",
    "accumulation",
}  # fmt: skip
PARTS = {"forward_s", "backward_s", "exchange_s", "exposed_exchange_s", "optimizer_s"}
QUANTILES = {"mean", "std", "p50", "p90", "p95"}


def plan(*arguments):
    """The JSON of `srifty plan ARGUMENTS --json`, with its exit code."""
    outcome = srifty("plan", *arguments, "--json")
    assert outcome.err == ""
    return outcome.code, json.loads(outcome.out)


def assert_plan(document, global_batch):
    assert document.keys() >= PLAN_KEYS
    assert document["parts"].keys() >= PARTS
    for name in ("iteration_s", "time_s", "cost_usd"):
        assert document[name].keys() == QUANTILES
        assert 0 < document[name]["p50"] <= document[name]["p90"] <= document[name]["p95"]
    groups = document["groups"]
    assert sum(g["count"] * g["samples_per_vm"] for g in groups) == global_batch
    assert sum(g["count"] * g["gpus_used"] for g in groups) == document["world_size"]
    for group in groups:
        assert group.keys() >= GROUP_KEYS
        batches = group["local_batch"]
        assert len(batches) == group["gpus_used"]
        assert sum(batches) == group["samples_per_vm"]
        assert max(batches) - min(batches) <= 1


def test_json_has_what_the_contract_names():
    code, document = plan(EXAMPLE)
    assert code == 0
    assert document.keys() >= KEYS
    assert document["verdict"] == "optimal"
    assert document["proved_optimal"] is True
    assert document["reasons"] == []
    for each in (document["plan"], *document["ranking"], *document["front"]):
        assert_plan(each, GLOBAL_BATCH)
    assert document["plan"] == document["ranking"][0]


def test_quotas_hold():
    quota = {("g4dn.12xlarge", "spot"): 4, ("g4dn.12xlarge", "on-demand"): 2}
    document = plan(EXAMPLE, "--set", "offers.quota={g4dn.12xlarge: {spot: 4, on-demand: 2}}")[1]
    for each in (*document["ranking"], *document["front"]):
        used = dict.fromkeys(quota, 0)
        for group in each["groups"]:
            used[group["instance_type"], group["market"]] += group["count"]
        assert all(used[key] <= quota[key] for key in quota)


def test_the_config_of_a_plan_is_what_simulate_takes():
    document = plan(EXAMPLE)[1]["plan"]
    outcome = srifty("simulate", EXAMPLE, "--config", document["config"], "--json")
    simulated = json.loads(outcome.out)
    assert simulated["groups"] == document["groups"]
    for name in ("iteration_s", "time_s", "cost_usd"):
        assert simulated[name] == pytest.approx(document[name])


def test_people_get_the_answer_first():
    outcome = srifty("plan", EXAMPLE)
    result = plan(EXAMPLE)[1]
    document = result["plan"]
    assert all(each["config"] in outcome.out for each in result["ranking"])
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "resnet50: rent"
    assert document["config"] in outcome.out
    answer = next(line for line in lines if line.startswith("Ends in "))
    assert "for $" in answer
    assert "within the deadline (" in answer
    assert "considered in" in lines[-1]
    assert "\x1b" not in outcome.out


def test_no_plan_says_why_and_is_code_3():
    code, document = plan(EXAMPLE, "--set", "deadline=3m")
    assert code == 3
    assert document["plan"] is None
    assert document["ranking"] == []
    assert document["verdict"] == "limits_too_tight"
    assert "deadline" in {reason["kind"] for reason in document["reasons"]}
    for reason in document["reasons"]:
        assert reason.keys() == {"kind", "message", "nearest", "subject"}
    assert_plan(document["nearest"], GLOBAL_BATCH)
    outcome = srifty("plan", EXAMPLE, "--set", "deadline=3m")
    assert outcome.code == 3
    assert outcome.out.startswith("resnet50: no plan. No cluster configuration meets the limits")
    for reason in document["reasons"]:
        assert reason["message"] in outcome.out


def test_the_printed_relaxation_works():
    reasons = plan(EXAMPLE, "--set", "deadline=3m")[1]["reasons"]
    nearest = next(r["nearest"] for r in reasons if r["kind"] == "deadline")
    assert plan(EXAMPLE, "--set", f"deadline={nearest}s")[0] == 0


def test_no_configuration_is_code_3():
    code, document = plan(EXAMPLE, "--set", "offers.quota={p3.8xlarge: 0}")
    assert code == 3
    assert document["verdict"] == "no_configuration"
    assert document["nearest"] is None
    assert [reason["kind"] for reason in document["reasons"]]


@pytest.mark.parametrize("change", ["deadline=1h", "deadline=3m"])
def test_the_written_file_is_the_printed_json(tmp_path, change):
    path = tmp_path / "plan.json"
    printed = plan(EXAMPLE, "--set", change, "-o", path)[1]
    assert json.loads(path.read_text(encoding="utf-8")) == printed


def test_a_file_that_cannot_be_written(tmp_path):
    outcome = srifty("plan", EXAMPLE, "-o", tmp_path / "none" / "plan.json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "cannot be written" in outcome.err


def test_minimize_replaces_the_objective():
    cost = plan(EXAMPLE, "--minimize", "cost")[1]["plan"]
    time = plan(EXAMPLE, "--minimize", "time")[1]["plan"]
    assert cost["cost_usd"]["mean"] <= time["cost_usd"]["mean"]
    assert time["time_s"]["mean"] <= cost["time_s"]["mean"]


@pytest.mark.parametrize("confidence", ["1.5", "1", "0.3", "-1", "nan"])
def test_a_confidence_that_is_none(confidence):
    outcome = srifty("plan", EXAMPLE, f"--confidence={confidence}")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "error: --confidence: confidence must lie between 0.5" in outcome.err


def test_every_plan_keeps_the_asked_confidence():
    for confidence in (0.5, 0.99):
        document = plan(EXAMPLE, "--confidence", confidence)[1]
        for each in document["ranking"]:
            assert each["success_probability"] >= confidence - 1e-9


@pytest.mark.parametrize(("rule", "considered"), [("any", 18), ("power-of-two", 3)])
def test_one_gpu_type_is_counted_by_hand(tmp_path, rule, considered):
    # 480 = 2^5 · 3 · 5 on at most 60 VMs of one GPU: of its 24 divisors 18 are at most 60 (any),
    # and three of the local batches 480 / n are powers of two (n = 15, 30, 60).
    text = job_text(
        ("global_batch: 64", "global_batch: 480"),
        ("[on-demand, spot]", "[on-demand]"),
        ("g4dn.xlarge: 4", "g4dn.xlarge: 60"),
    )
    profile = profile_document(max_batch=512, max_batch_evidence="measured")
    code, document = plan(write_job(tmp_path, text, profile), "--batches", rule)
    assert code == 0
    assert document["considered"] == considered
    assert_plan(document["plan"], 480)


@pytest.mark.parametrize("batch", [1, 2, 6, 37, 41, 2_100, 6_144, 1_048_576, 10**9])
def test_any_global_batch_sums_exactly(tmp_path, batch):
    text = job_text(
        ("global_batch: 64", f"global_batch: {batch}"), ("{g4dn.xlarge: 4}", "{g4dn.12xlarge: 4}")
    )
    code, document = plan(write_job(tmp_path, text))
    assert code == 0
    for each in document["ranking"]:
        assert_plan(each, batch)


@pytest.mark.parametrize("top", [1, 3])
def test_top(top):
    wide = ["--set", "deadline=24h", "--set", "budget_usd=1000"]
    assert len(plan(EXAMPLE, *wide, "--top", top)[1]["ranking"]) == top


def test_a_profile_of_a_cpu_is_answered_with_how_to_estimate(tmp_path):
    profile = profile_document(gpu="CPU (made up)")
    outcome = srifty("plan", write_job(tmp_path, profile=profile))
    assert outcome.code == 2
    assert "the profiles are for CPU (made up); measure there, or estimate: " in outcome.err
    assert "srifty profile MODULE:FACTORY --estimate-for T4 -o PROFILE.json" in outcome.err


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_doubts_about_profile_and_synchronisation_are_said(tmp_path, command):
    profile = profile_document(
        source="srifty profile on CPU (made up)",
        unused_parameters=[{"name": "spare.weight", "bytes": 4}],
        find_unused_parameters=True,
    )
    # One GPU would exchange nothing.
    extra = "minimize: time\ngradient_sync: {find_unused_parameters: false}"
    path = write_job(tmp_path, job_text(extra=extra), profile)
    config = ("--config", "2g4dn.xlarge@32") if command == "simulate" else ()
    outcome = srifty(command, path, *config, "--json")
    document = json.loads(outcome.out)
    assert any("for T4 was measured on a CPU" in text for text in document["assumptions"])
    found = [text for text in document["warnings"] if "spare.weight get no gradient" in text]
    assert found
    assert "static_graph=True" in found[0]
