"""C03 in a run: prices are checked once more before anything is rented, and paid as checked."""

from datetime import UTC, datetime, timedelta

import pytest

from srifty.catalog import aws
from srifty.catalog.price import Price
from srifty.cli._runs import find_run
from srifty.control.ledger import Ledger
from srifty.core import Market
from srifty.errors import CloudRefused
from tests.catalog.skypilot_rows import cells
from tests.command import srifty

from .jobs import counts, import_rows, plan, profile, write_case
from .runs import ALONE, own_runs, run, status


@pytest.fixture(name="job")
def _job(tmp_path, monkeypatch):
    """A job planned with a quote of 0.28 that is 9 hours old; on demand is 0.44."""
    with own_runs(tmp_path, monkeypatch):
        date = (datetime.now(UTC) - timedelta(hours=9)).isoformat()
        vm = cells("g4dn.xlarge", "T4", 1, 4, 16384, "0.44", "0.28", "use1-az1")
        import_rows(tmp_path, "aws", date, vm)
        offers = {"markets": ["on-demand", "spot"], "quota": {"g4dn.xlarge": 1}}
        yield write_case(
            tmp_path, offers, profile(sample_s=0.0005), iterations=20, budget_usd=5,
            confidence=0.5, overheads={"launch": "1s", "restore": "0s"},
        )  # fmt: skip


def live(monkeypatch, **usd):
    """Has AWS answer with prices, or refuse; returns what it is asked for."""
    asked = []

    def refresh(region, types, **_):
        asked.append((region, tuple(types)))
        if not usd:
            raise CloudRefused("AWS: Unable to locate credentials")
        prices = tuple(
            Price("aws", "g4dn.xlarge", Market(market.replace("_", "-")), "us-east-1", zone,
                  price, "2026-11-30T10:00:00+00:00", "AWS")
            for market, price in usd.items()
            for zone in ("use1-az1", None)
        )  # fmt: skip
        return aws.Refreshed(prices, (), (), ())

    monkeypatch.setattr(aws, "refresh", refresh)
    return asked


def paid():
    """The prices as agreed, with their sources, in the run's ledger."""
    with Ledger.read(find_run("r1").ledger) as ledger:
        return [(p.usd_per_hour, p.source) for vm in ledger.vms() for p in vm.prices]


def test_on_demand_is_rented_once_spot_has_become_dearer(job, monkeypatch):
    assert counts(plan(job)["plan"]).keys() == {("g4dn.xlarge", "spot")}
    asked = live(monkeypatch, spot=0.49, on_demand=0.44)
    ended = run(job, "--live-prices", "aws", steps=20)
    assert ended.code == 0, ended.err
    assert asked == [("us-east-1", ("g4dn.xlarge",))]
    assert "$0.28 per hour in the catalog, $0.49 per hour now" in ended.err
    assert "At today's prices the run is expected to cost" in ended.err
    assert "1 x g4dn.xlarge (on-demand" in ended.err
    assert paid() == [(0.44, "AWS, 2026-11-30T10:00:00+00:00")]
    assert status()["bill"][0]["usd_total"] == pytest.approx(
        0.44 * status()["bill"][0]["billed_s"] / 3600
    )


def test_a_rise_of_more_than_5_percent_is_asked_about_again(job, monkeypatch):
    live(monkeypatch, spot=0.30)
    command = ("run", "--name", "r1", "--live-prices", "aws", job, "--", ALONE, "20", "5")
    ended = srifty(*command)
    assert ended.code == 2
    assert "nobody can be asked" in ended.err
    assert not (job.parent / "runs").exists()
    asked = []

    def refuse(question):
        asked.append(question)
        return False

    monkeypatch.setattr("srifty.cli.run.ask", refuse)
    assert srifty(*command).code == 3
    assert asked == ["Go on"]
    asked.clear()
    live(monkeypatch, spot=0.29)  # 3.6 % more: said, but asked about once, with the rest
    ended = srifty(*command)
    assert (ended.code, asked) == (0, ["Rent them"])
    assert "$0.28 per hour in the catalog, $0.29 per hour now" in ended.err


def test_what_breaks_the_budget_is_not_rented(job, monkeypatch):
    live(monkeypatch, spot=4.9, on_demand=4.4)
    ended = run(job, "--live-prices", "aws", "--set", "budget_usd=0.01", steps=20)
    assert ended.code == 3
    assert "At today's prices no plan meets the limits." in ended.err
    assert not (job.parent / "runs").exists()


def test_where_aws_does_not_answer_the_catalog_counts_and_that_is_said(job, monkeypatch):
    live(monkeypatch)
    ended = run(job, "--live-prices", "aws", steps=20)
    assert ended.code == 0, ended.err
    assert "Today's prices are not known, the catalog's count: AWS: Unable to locate" in ended.err
    assert paid()[0][0] == 0.28


def test_vms_that_are_played_are_not_asked_about(job, monkeypatch):
    asked = live(monkeypatch, spot=0.49)
    assert run(job, steps=20).code == 0
    assert asked == []
