"""C01: a price of zero, a missing price, the price of another region."""

import re

import pytest

from tests.catalog.skypilot_rows import cells
from tests.command import srifty

from .jobs import counts, has, import_rows, plan, refused, write_case


def row(name, price, spot, region="r1"):
    return cells(name, "T4", 1, 4, 16384, price, spot, f"{region}-a", region)


ROWS = (
    row("A", "0.00", ""),
    row("B", "", ""),
    row("C", "0.22", ""),
    row("C", "0.18", "", "r2"),
    row("D", "0.10", "", "r2"),
    row("E", "0.30", ""),
    row("N", "-0.05", ""),
    row("X", "nan", ""),
)
ALL = "ABCDE"


@pytest.fixture(name="imported")
def _imported(tmp_path):
    return import_rows(tmp_path, "toy", "2026-07-20", *ROWS)


def declared(*names):
    """What a user states of types whose network speed no catalog knows."""
    return [
        {"name": name, "gpu": "T4", "gpus": 1, "gpu_memory_gib": 16, "vcpus": 4,
         "rated_gbit_per_s": 10}
        for name in names
    ]  # fmt: skip


def job(tmp_path, names=ALL, region="r1", markets=("on-demand", "spot"), types=None):
    offers = {
        "cloud": "toy",
        "region": region,
        "markets": list(markets),
        "quota": dict.fromkeys(names, 4),
        "types": declared(*names) if types is None else types,
    }
    return write_case(tmp_path, offers)


def test_the_import_drops_unusable_prices_and_says_why(imported):
    reasons = {d["reason"]: d["first_lines"] for d in imported["dropped"] if not d["gap"]}
    assert reasons == {
        "on-demand: price is zero (sold by reservation only, or unknown)": [2],
        "on-demand: price is negative": [8],
        "on-demand: price is not a number": [9],
    }
    gaps = {d["reason"]: d["count"] for d in imported["dropped"] if d["gap"]}
    assert gaps == {"on-demand: price is missing": 1, "spot: price is missing": 8}


def test_a_type_without_a_network_speed_leads_to_its_declaration(tmp_path, imported):
    message = refused(job(tmp_path, "CE", types=[]))
    entries = re.findall(r"declare it: offers\.types: \[(\{.*?\})\]", message)
    assert [re.search(r"name: (\w+)", entry)[1] for entry in entries] == ["C", "E"]
    path = job(tmp_path, "CE", types=[])
    assert plan(path, "--set", f"offers.types=[{', '.join(entries)}]")["plan"]


def test_region_r1_has_c_at_its_own_price_and_says_what_is_left_out(tmp_path, imported):
    document = plan(job(tmp_path), "--top", "50")
    assert counts(document["plan"]).keys() == {("C", "on-demand")}
    assert {g["usd_per_hour_each"] for g in document["plan"]["groups"]} == {0.22}
    warnings = document["warnings"]
    for name in "AB":
        assert has(warnings, f"offers.quota.{name}: has no on-demand or spot price", "zero is not")
    assert has(warnings, "offers.quota.D: has no on-demand or spot price in r1, only in r2")
    assert has(warnings, "offers.quota.E: has no spot price in r1", "not offered as spot")
    used = {key for each in document["ranking"] for key in counts(each)}
    assert used == {("C", "on-demand"), ("E", "on-demand")}
    human = srifty("plan", job(tmp_path)).out
    assert "offers.quota.A: has no on-demand or spot price in r1 or elsewhere" in human


def test_region_r2_has_its_own_prices(tmp_path, imported):
    document = plan(job(tmp_path, region="r2"), "--top", "50")
    prices = {
        (g["instance_type"], g["usd_per_hour_each"])
        for each in document["ranking"]
        for g in each["groups"]
    }
    assert prices == {("C", 0.18), ("D", 0.10)}


def test_spot_alone_is_never_silently_on_demand(tmp_path, imported):
    message = refused(job(tmp_path, "E", markets=["spot"]))
    assert "offers.quota.E: has no spot price in r1" in message
    message = refused(job(tmp_path, markets=["spot"]))
    assert message.count("error:") == 5


def test_a_price_of_another_cloud_does_not_count(tmp_path, imported):
    import_rows(tmp_path, "other", "2026-07-20", row("C", "0.06", ""), row("B", "0.06", ""))
    document = plan(job(tmp_path))
    assert {g["usd_per_hour_each"] for g in document["plan"]["groups"]} == {0.22}
    assert has(document["warnings"], "offers.quota.B: has no")


@pytest.mark.parametrize("usd", ["0", "-0.22", ".nan", "-.inf"])
def test_no_such_price_can_be_stated(tmp_path, imported, usd):
    message = refused(job(tmp_path, "C"), "--set", f"offers.prices={{C: {{on-demand: {usd}}}}}")
    assert "offers.prices.C: on-demand: must be USD per hour, above 0" in message


def test_free_machines_are_declared_as_owned(tmp_path, imported):
    lab = "[{name: lab, gpu: T4, gpus: 1, vcpus: 8, count: 4, usd_per_hour: 0}]"
    document = plan(job(tmp_path, "C"), "--set", f"offers.owned={lab}")
    assert counts(document["plan"]).keys() == {("lab", "owned")}
    assert document["plan"]["cost_usd"]["p95"] == 0
