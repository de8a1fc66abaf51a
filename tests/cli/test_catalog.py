import json
from datetime import UTC, datetime, timedelta

import pytest

from srifty.catalog import aws
from srifty.catalog.store import read_prices, read_quotas, read_types
from srifty.cli import main
from tests.catalog.aws_fakes import FakeAws, facts, of_pages, price_list, quota_values, spot
from tests.catalog.skypilot_rows import BASES, HEADER, cells, line_of

# A type that no built-in table will ever have: g99.xlarge.


@pytest.fixture(name="catalog", autouse=True)
def _catalog(tmp_path, monkeypatch):
    path = tmp_path / "own" / "catalog.csv"
    monkeypatch.setenv("SRIFTY_CATALOG", str(path))
    return path


@pytest.fixture(name="srifty")
def _srifty(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["srifty", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run


@pytest.fixture(name="cloud")
def _cloud(monkeypatch):
    """An account that answers all; tests change its answers."""
    fake = FakeAws(
        describe_instance_types=of_pages(
            {
                "InstanceTypes": [
                    facts("p3.8xlarge", "V100", 4, 16384, 32, 10.0),
                    facts("g99.xlarge", "L4", 1, 22888, 4, 2.5),
                ]
            }
        ),
        describe_spot_price_history=of_pages(
            {
                "SpotPriceHistory": [
                    spot("p3.8xlarge", "us-east-1a", "3.67"),
                    spot("g99.xlarge", "us-east-1a", "0.81"),
                ]
            }
        ),
        get_products=price_list({"p3.8xlarge": "12.24", "g99.xlarge": "0.8048"}),
        **quota_values({"L-DB2E81BA": 32.0, "L-417A185B": 64.0, "L-3819A6DF": 120.0}),
    )
    monkeypatch.setattr(aws, "BotoAws", lambda: fake)
    return fake


def write_vms(tmp_path, *rows):
    path = tmp_path / "vms.csv"
    path.write_text("\n".join([HEADER, *(line_of(row) for row in rows)]))
    return path


def test_list_shows_the_built_in_prices_with_age_and_source(srifty):
    code, out, err = srifty("catalog", "list", "--type", "p3.8xlarge", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["prices"]
    for price in document["prices"]:
        assert (price["gpu"], price["gpus"], price["own"]) == ("V100", 4, False)
        assert price["age"]
        assert price["source"]
        assert price["usd_per_gpu_hour"] == price["usd_per_hour"] / 4


@pytest.mark.parametrize(
    ("filters", "key", "value"),
    [
        (["--gpu", "t4"], "gpu", "T4"),
        (["--market", "spot"], "market", "spot"),
        (["--region", "us-west-2"], "region", "us-west-2"),
        (["--cloud", "aws"], "cloud", "aws"),
    ],
)
def test_list_filters(srifty, filters, key, value):
    _, out, _ = srifty("catalog", "list", *filters, "--json")
    assert {price[key] for price in json.loads(out)["prices"]} == {value}


def test_nothing_to_list_is_no_error(srifty):
    code, out, err = srifty("catalog", "list", "--region", "nowhere")
    assert (code, out) == (0, "")
    assert "No prices match" in err


def test_import_then_list_and_show(srifty, tmp_path, catalog):
    new = cells("g99.xlarge", "L4", 1, 4, 22888, "0.8048", "0.9")
    zero = cells("p5.48xlarge", "H100", 8, 192, 81920, "0.00", "")
    path = write_vms(tmp_path, BASES[0], new, zero)
    day = datetime.now(UTC) - timedelta(days=2)
    code, out, _ = srifty(
        "catalog", "import", path, "--cloud", "aws", "--date", day.isoformat(), "--json"
    )
    document = json.loads(out)
    assert code == 0
    assert (document["rows"], document["rows_taken"], document["prices"]) == (3, 2, 4)
    assert (document["added"], document["replaced"], document["kept_newer"]) == (4, 0, 0)
    assert {d["reason"]: d["count"] for d in document["dropped"] if not d["gap"]} == {
        "on-demand: price is zero (sold by reservation only, or unknown)": 1
    }
    assert [t.name for t in read_types(catalog.with_name("catalog-types.csv"))] == ["g99.xlarge"]
    _, out, _ = srifty("catalog", "list", "--region", "us-east-1", "--json")
    listed = [p for p in json.loads(out)["prices"] if p["own"]]
    assert len(listed) == 4
    flagged = {(p["instance_type"], p["market"]): p["flags"] for p in listed}
    assert flagged["g99.xlarge", "spot"] == ["spot is not cheaper than on-demand", "stale"]
    assert flagged["g99.xlarge", "on-demand"] == []
    code, out, _ = srifty("catalog", "show", "g99.xlarge")
    assert code == 0
    assert "1 x L4" in out
    assert "2 days" in out
    assert "network unknown" in out
    code, out, _ = srifty("catalog", "import", path, "--cloud", "aws", "--date", "2020-01-01")
    assert code == 0
    assert "4 left alone because yours are newer" in out


def test_import_takes_the_files_own_time_and_says_so(srifty, tmp_path):
    path = write_vms(tmp_path, BASES[0])
    _, out, _ = srifty("catalog", "import", path, "--cloud", "aws")
    assert "the file's own time" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cloud", "a w s"], "is no cloud"),
        (["--cloud", "aws", "--date", "soon"], "no ISO date"),
        (["--cloud", "aws", "--date", "2999-01-01"], "lies in the future"),
    ],
)
def test_import_of_bad_arguments(srifty, tmp_path, arguments, words):
    code, _, err = srifty("catalog", "import", write_vms(tmp_path, BASES[0]), *arguments)
    assert code == 2
    assert words in err


def test_import_of_a_file_without_a_usable_row_changes_nothing(srifty, tmp_path, catalog):
    path = write_vms(tmp_path, cells("p5.48xlarge", "H100", 8, 192, 81920, "0.00", "nan"))
    code, out, err = srifty("catalog", "import", path, "--cloud", "aws", "--json")
    assert code == 2
    assert json.loads(out)["prices"] == 0
    assert "no usable price" in err
    assert not catalog.exists()
    code, _, err = srifty("catalog", "import", tmp_path / "none.csv", "--cloud", "aws")
    assert code == 2
    assert "no such file" in err


def test_a_broken_catalog_is_named_with_its_line(srifty, catalog):
    catalog.parent.mkdir()
    catalog.write_text(
        "cloud,instance_type,market,region,zone,usd_per_hour,date,source\naws,a.b,spot,r,,0,x,y\n"
    )
    code, _, err = srifty("catalog", "list")
    assert code == 2
    assert "catalog.csv: line 2: usd_per_hour must be above 0" in err


def test_show_of_an_unknown_type_names_similar_ones(srifty):
    code, _, err = srifty("catalog", "show", "p3.8xlrge")
    assert code == 2
    assert "did you mean p3.8xlarge" in err


def test_dry_runs_print_the_calls_and_ask_nothing(srifty, monkeypatch, catalog):
    monkeypatch.setattr(aws, "BotoAws", lambda: pytest.fail("asked"))
    code, out, err = srifty(
        "catalog", "refresh", "--region", "us-east-1", "--type", "p3.8xlarge", "--dry-run"
    )
    assert code == 0
    assert out.count("\n") == 3
    assert "pricing.get_products in us-east-1" in out
    assert "3 calls, not made" in err
    code, out, _ = srifty("catalog", "quota", "--region", "us-east-1", "--dry-run", "--json")
    codes = [call["request"]["QuotaCode"] for call in json.loads(out)["calls"]]
    assert codes[:4] == ["L-DB2E81BA", "L-417A185B", "L-3819A6DF", "L-7212CCBC"]
    assert not catalog.parent.exists()


REFRESH = ("catalog", "refresh", "--region", "us-east-1", "--type", "p3.8xlarge", "--type",
           "g99.xlarge", "--json")  # fmt: skip


def test_refresh_stores_fresh_prices(srifty, cloud, catalog):
    code, out, _ = srifty(*REFRESH)
    document = json.loads(out)
    assert code == 0
    assert (document["fetched"], document["added"], document["failures"]) == (4, 4, [])
    assert {p["age"] for p in document["prices"]} == {"just now"}
    assert {(p.instance_type, p.market, p.usd_per_hour) for p in read_prices(catalog)} == {
        ("p3.8xlarge", "on-demand", 12.24),
        ("p3.8xlarge", "spot", 3.67),
        ("g99.xlarge", "on-demand", 0.8048),
        ("g99.xlarge", "spot", 0.81),
    }
    (learned,) = read_types(catalog.with_name("catalog-types.csv"))
    assert (learned.name, learned.rated_gbit_per_s) == ("g99.xlarge", 2.5)
    _, out, _ = srifty("catalog", "list", "--type", "g99.xlarge", "--market", "spot", "--json")
    assert json.loads(out)["prices"][0]["flags"] == ["spot is not cheaper than on-demand"]


def test_a_part_that_fails_keeps_its_last_prices_and_exits_with_5(srifty, cloud, catalog):
    srifty(*REFRESH)
    before = {row.key: row for row in read_prices(catalog)}
    del cloud.answers["describe_spot_price_history"]
    code, out, err = srifty(*REFRESH)
    assert code == 5
    assert "no answer for spot prices: AccessDeniedException" in err
    assert [failure["part"] for failure in json.loads(out)["failures"]] == ["spot prices"]
    after = {row.key: row for row in read_prices(catalog)}
    assert after.keys() == before.keys()
    for key, row in after.items():
        assert (row == before[key]) or row.market == "on-demand"


def test_a_cloud_that_refuses_all_exits_with_5_and_changes_nothing(srifty, cloud, catalog):
    cloud.answers.clear()
    for arguments in (REFRESH, ("catalog", "quota", "--region", "us-east-1")):
        code, out, err = srifty(*arguments)
        assert (code, out) == (5, "")
        assert "AccessDenied" in err
    assert not catalog.exists()
    code, _, err = srifty("catalog", "quota", "--region", "us-mars-1")
    assert code == 5
    assert "us-mars-1" in err


def test_quota_in_vcpus_and_vms_as_case_e09_wants(srifty, cloud, catalog):
    code, out, _ = srifty("catalog", "quota", "--region", "us-east-1", "--json")
    assert code == 0
    by_pool = {(q["market"], q["pool"]): q for q in json.loads(out)["quotas"]}
    assert by_pool["spot", "G"]["vms"]["g4dn.xlarge"] == 30
    assert by_pool["on-demand", "G"]["vms"]["g4dn.12xlarge"] == 0
    assert by_pool["on-demand", "G"]["vms"]["g3.8xlarge"] == 1
    assert by_pool["on-demand", "P"]["vms"]["p3.16xlarge"] == 1
    assert by_pool["on-demand", "P"]["vms"]["p3.2xlarge"] == 8
    assert by_pool["spot", "P"]["vcpus"] == 0
    assert len(read_quotas(catalog.with_name("catalog-quotas.csv"))) == 5
    code, out, _ = srifty("catalog", "show", "p3.2xlarge")
    assert "on-demand P in us-east-1: 64 vCPUs: 8 VMs" in out
    code, out, _ = srifty("catalog", "quota", "--region", "us-east-1")
    assert "no VM of the types known" in out


@pytest.mark.parametrize("command", ["list", "show", "import", "refresh", "quota"])
def test_every_command_has_help_with_an_example(srifty, command):
    code, out, _ = srifty("catalog", command, "--help")
    assert code == 0
    assert f"Example: srifty catalog {command}" in " ".join(out.split())
