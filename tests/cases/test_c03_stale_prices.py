"""C03: a stale spot price, and spot that is dearer than on-demand."""

from datetime import UTC, datetime, timedelta

from tests.catalog.skypilot_rows import cells
from tests.command import srifty

from .jobs import counts, has, import_rows, plan, write_case


def quote(tmp_path, spot, hours_ago):
    """Brings a quote of that age into the own catalog."""
    date = datetime.now(UTC) - timedelta(hours=hours_ago)
    vm = cells("g4dn.xlarge", "T4", 1, 4, 16384, "0.44", spot, "use1-az1")
    import_rows(tmp_path, "aws", date.isoformat(), vm)


def job(tmp_path, quota=4):
    return write_case(tmp_path, {"markets": ["on-demand", "spot"], "quota": {"g4dn.xlarge": quota}})


def test_a_quote_of_nine_hours_is_used_and_its_age_shown(tmp_path):
    quote(tmp_path, "0.28", 9)
    document = plan(job(tmp_path))
    assert counts(document["plan"]).keys() == {("g4dn.xlarge", "spot")}
    assert {g["usd_per_hour_each"] for g in document["plan"]["groups"]} == {0.28}
    assert has(document["assumptions"], "$0.28 per hour, 9 hours (vms.csv")
    assert not has(document["warnings"], "snapshot")


def test_a_quote_above_a_day_warns_and_names_the_refresh(tmp_path):
    quote(tmp_path, "0.28", 25)
    warnings = plan(job(tmp_path))["warnings"]
    assert has(warnings, "g4dn.xlarge (spot) in use1-az1 is a snapshot (25 hours)",
               "srifty catalog refresh")  # fmt: skip


def test_each_price_of_a_plan_has_its_age(tmp_path):
    quote(tmp_path, "0.28", 9)
    path = job(tmp_path, {"spot": 2, "on-demand": 2})
    document = plan(path, "--minimize", "time")
    assert counts(document["plan"]) == {
        ("g4dn.xlarge", "spot"): 2,
        ("g4dn.xlarge", "on-demand"): 2,
    }
    for price in ("$0.28", "$0.44"):
        assert has(document["assumptions"], "Price of g4dn.xlarge", f"{price} per hour, 9 hours")
    assert "$0.44 per hour, 9 hours" in srifty("plan", path, "--minimize", "time").out


def test_on_demand_is_chosen_once_spot_is_not_cheaper(tmp_path):
    quote(tmp_path, "0.28", 9)
    quote(tmp_path, "0.49", 0)
    document = plan(job(tmp_path))
    assert counts(document["plan"]).keys() == {("g4dn.xlarge", "on-demand")}
    assert {g["usd_per_hour_each"] for g in document["plan"]["groups"]} == {0.44}


def test_equal_prices_take_the_vms_that_stay(tmp_path):
    quote(tmp_path, "0.44", 0)
    assert counts(plan(job(tmp_path))["plan"]).keys() == {("g4dn.xlarge", "on-demand")}


def test_dear_spot_that_has_to_be_used_warns(tmp_path):
    quote(tmp_path, "0.49", 0)
    document = plan(job(tmp_path, {"spot": 4, "on-demand": 0}))
    assert has(document["warnings"], "Spot is not cheaper than on-demand for g4dn.xlarge (spot)")


def test_an_older_import_never_replaces_a_newer_quote(tmp_path):
    quote(tmp_path, "0.49", 0)
    quote(tmp_path, "0.28", 9)
    assert counts(plan(job(tmp_path))["plan"]).keys() == {("g4dn.xlarge", "on-demand")}
