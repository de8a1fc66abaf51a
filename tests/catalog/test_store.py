import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.catalog.store import (
    Price,
    QuotaRow,
    TypeRow,
    add_prices,
    add_quotas,
    add_types,
    merge,
    own_catalog_path,
    quotas_path,
    read_prices,
    read_quotas,
    read_types,
    types_path,
)
from srifty.core.offers import Market
from srifty.errors import InputError

OLD, NEW = "2026-07-19T00:00:00+00:00", "2026-07-20T02:00:00+02:00"
HEADER = "cloud,instance_type,market,region,zone,usd_per_hour,date,source\n"
RIGHT = f"aws,g4dn.xlarge,spot,us-east-1,us-east-1a,0.2,{OLD},made up\n"


def price(zone="us-east-1a", usd=0.2, date=OLD, **other):
    row = Price("aws", "g4dn.xlarge", Market.SPOT, "us-east-1", zone, usd, date, "made, up")
    return replace(row, **other)


def test_prices_come_back_as_they_went(tmp_path):
    path = tmp_path / "deep" / "catalog.csv"
    rows = (price(None, 0.1 + 0.2), price(), price(market=Market.ON_DEMAND, zone=None))
    merged = add_prices(path, rows)
    assert merged.added == 3
    assert set(read_prices(path)) == set(rows)
    assert read_prices(path) == merged.prices
    assert not list(path.parent.glob("*.tmp"))


def test_no_file_is_an_empty_catalog(tmp_path):
    assert read_prices(tmp_path / "none.csv") == ()
    assert read_types(tmp_path / "none.csv") == ()
    assert read_quotas(tmp_path / "none.csv") == ()


def test_new_prices_replace_those_of_the_same_key_and_others_stay():
    other = price("us-east-1b")
    merged = merge([price(), other], [price(usd=0.3, date=NEW)])
    assert merged.prices == (price(usd=0.3, date=NEW), other)
    assert (merged.added, merged.replaced, merged.kept_newer, merged.removed) == (0, 1, 0, 0)


def test_an_older_price_never_replaces_a_newer_one():
    merged = merge([price(usd=0.3, date=NEW)], [price()])
    assert merged.prices == (price(usd=0.3, date=NEW),)
    assert merged.kept_newer == 1


def test_a_live_answer_is_all_there_is_of_its_types_market_and_region():
    kept = (
        price(market=Market.ON_DEMAND, zone=None),
        price(region="us-west-2"),
        price(instance_type="p3.8xlarge"),
    )
    gone, fresh = price("use1-az2"), price("us-east-1b", date=NEW)
    merged = merge([*kept, gone], [fresh], whole=True)
    assert set(merged.prices) == {*kept, fresh}
    assert merged.removed == 1


KEYS = st.builds(
    price,
    zone=st.sampled_from([None, "a", "b"]),
    usd=st.floats(0.01, 9),
    date=st.sampled_from([OLD, NEW]),
    region=st.sampled_from(["r1", "r2"]),
)


@given(st.lists(KEYS), st.lists(KEYS))
def test_merging_keeps_one_price_per_key_and_the_newest_date(old, new):
    merged = merge(old, new).prices
    assert len({row.key for row in merged}) == len(merged)
    assert {row.key for row in merged} == {row.key for row in (*old, *new)}
    assert merge(merged, ()).prices == merged
    last = {row.key: row for row in old}
    for row in merged:
        if row.key in last:
            assert row.date >= last[row.key].date


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (RIGHT.replace("0.2", "0"), "usd_per_hour must be above 0"),
        (RIGHT.replace("0.2", "-1"), "usd_per_hour must be above 0"),
        (RIGHT.replace("0.2", "nan"), "usd_per_hour must be above 0"),
        (RIGHT.replace("0.2", "1e9"), "usd_per_hour must be above 0"),
        (RIGHT.replace("0.2", ""), "usd_per_hour must be above 0"),
        (RIGHT.replace("spot", "reserved"), "market must be on-demand or spot"),
        (RIGHT.replace(OLD, "2026-07-19"), "date must be an ISO time with its zone"),
        (RIGHT.replace(OLD, "soon"), "date must be an ISO time with its zone"),
        (RIGHT.replace("g4dn.xlarge", ""), "instance_type is empty"),
        (RIGHT.replace("made up", '"made'), "has a stray quote"),
        (RIGHT.replace("made up", "made,up"), "has more cells than the header"),
        ("aws,g4dn.xlarge\n", "usd_per_hour must be"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path, row, words):
    path = tmp_path / "catalog.csv"
    path.write_text(HEADER + RIGHT + row)
    with pytest.raises(InputError, match=rf"catalog\.csv: line 3: .*{words}"):
        read_prices(path)


def test_all_bad_rows_are_reported_and_nothing_is_written(tmp_path):
    path = tmp_path / "catalog.csv"
    text = HEADER + RIGHT.replace("0.2", "x") + RIGHT.replace("spot", "y")
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        add_prices(path, [price()])
    assert len(caught.value.problems) == 2
    assert path.read_text() == text


def test_a_lacking_column_is_named(tmp_path):
    path = tmp_path / "catalog.csv"
    path.write_text("cloud,market\naws,spot\n")
    with pytest.raises(InputError, match="lacks the column"):
        read_prices(path)


def test_columns_in_any_order_blank_lines_and_crlf(tmp_path):
    path = tmp_path / "catalog.csv"
    path.write_bytes(
        b"note,source,date,usd_per_hour,zone,region,market,instance_type,cloud\r\n\r\n"
        b"x,made up,2026-07-19T00:00:00Z,0.2,,us-east-1,spot,g4dn.xlarge,aws\r\n"
    )
    (row,) = read_prices(path)
    assert (row.zone, row.usd_per_hour, row.cloud) == (None, 0.2, "aws")


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        add_prices(tmp_path / "file" / "catalog.csv", [price()])


def test_types_and_quotas_come_back_and_merge(tmp_path):
    path = tmp_path / "catalog.csv"
    kind = TypeRow("aws", "g9.xlarge", "T4", 1, 2**34, 4, "made up", 12.5)
    add_types(types_path(path), [kind])
    add_types(types_path(path), [replace(kind, vcpus=8, rated_gbit_per_s=None)])
    assert read_types(tmp_path / "catalog-types.csv") == (replace(kind, vcpus=8),)
    quota = QuotaRow("aws", "us-east-1", "G", Market.SPOT, 0, OLD, "made up")
    add_quotas(quotas_path(path), [quota])
    add_quotas(quotas_path(path), [replace(quota, vcpus=64), replace(quota, pool="P")])
    assert {(row.pool, row.vcpus) for row in read_quotas(tmp_path / "catalog-quotas.csv")} == {
        ("G", 64),
        ("P", 0),
    }


def test_a_file_of_types_without_speeds_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cloud,name,gpu,gpus,gpu_memory_bytes,vcpus,source\naws,a.b,T4,1,17,4,x\n")
    (row,) = read_types(path)
    assert row.rated_gbit_per_s is None
    path.write_text("cloud,name,gpu,gpus,gpu_memory_bytes,vcpus,source\naws,a.b,T4,0,17,4,x\n")
    with pytest.raises(InputError, match="line 2: gpus must be a whole number of at least 1"):
        read_types(path)


def test_where_the_catalog_is(monkeypatch):
    monkeypatch.setenv("SRIFTY_CATALOG", "/x/mine.csv")
    assert own_catalog_path() == Path("/x/mine.csv")
    assert types_path(own_catalog_path()) == Path("/x/mine-types.csv")
    monkeypatch.delenv("SRIFTY_CATALOG")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert own_catalog_path() == Path("/data/srifty/catalog.csv")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert own_catalog_path() == Path("/home/me/.local/share/srifty/catalog.csv")


def _add(path, worker):
    for number in range(10):
        add_prices(path, [price(f"z{worker}-{number}")])


def test_concurrent_writers_lose_nothing(tmp_path):
    path = tmp_path / "catalog.csv"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(path, worker)) for worker in range(3)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(60)
    assert len(read_prices(path)) == 30
