"""A plan's bill if spot moves (C03), and quotas in vCPUs that were fetched before (E09)."""

import json

import pytest

from srifty.catalog.store import own_catalog_path, quotas_path
from tests.command import srifty, write_job


def plan(folder, **offers):
    document = {
        "name": "toy",
        "workload": "toy.json",
        "global_batch": 64,
        "iterations": 1000,
        "offers": {"region": "us-east-1", **offers},
    }
    job = write_job(folder, json.dumps(document))  # YAML reads JSON too
    outcome = srifty("plan", str(job), "--json")
    return outcome, json.loads(outcome.out) if outcome.code in (0, 3) else None


def test_the_bill_is_a_range_where_spot_may_rise(tmp_path):
    prices = {"g4dn.xlarge": {"spot": 0.28, "on-demand": 0.44}}
    quota = {"g4dn.xlarge": {"spot": 4}}
    _, document = plan(tmp_path, markets=["spot"], quota=quota, prices=prices)
    low, high = document["cost_range_usd"]
    assert low == pytest.approx(document["plan"]["cost_usd"]["mean"])
    assert high / low == pytest.approx(0.44 / 0.28)
    assert any("Spot prices may move" in sentence for sentence in document["assumptions"])


def test_a_plan_without_spot_has_no_range(tmp_path):
    quota = {"g4dn.xlarge": {"on-demand": 4}}
    _, document = plan(tmp_path, markets=["on-demand"], quota=quota)
    assert document["cost_range_usd"] is None


def test_quotas_of_the_own_catalog_are_used_when_asked_for(tmp_path):
    asked = {"markets": ["spot"], "quota": {"g4dn.xlarge": "vcpus"}, "vcpu_quota": "catalog"}
    outcome, _ = plan(tmp_path, **asked)
    assert outcome.code == 2
    assert "srifty catalog quota --region us-east-1" in outcome.err
    path = quotas_path(own_catalog_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "cloud,region,pool,market,vcpus,date,source\n"
        "aws,us-east-1,G,spot,8,2026-11-30T08:00:00+00:00,test\n"
    )
    outcome, document = plan(tmp_path, **asked)
    assert outcome.code == 0
    assert sum(group["count"] for group in document["plan"]["groups"]) <= 2
