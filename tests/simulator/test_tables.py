from dataclasses import fields

import numpy as np
import pytest

from srifty.core import ClusterConfig, IterationForecast, VmGroup
from srifty.simulator import ConfigTable, ForecastTable
from tests.builders import make_config, make_offer, make_type

A = make_offer(make_type("a1.x", "A"), usd_per_hour=1.0)
B = make_offer(make_type("b1.x", "B", gpus=4), usd_per_hour=2.5)
CONFIGS = [
    make_config((A, 2, 8)),
    make_config((B, 3, 37, 2), (A, 1, 5)),
    ClusterConfig((VmGroup(B, 1, 2, 2), VmGroup(A, 4, 16, 1), VmGroup(B, 2, 64, 4, 4))),
]
TABLE = ConfigTable.from_configs(CONFIGS)


def test_configurations_come_back_as_they_went_in():
    assert len(TABLE) == 3
    assert [TABLE.config(row) for row in range(3)] == CONFIGS


def test_columns_agree_with_the_configurations():
    assert TABLE.world_size.tolist() == [config.world_size for config in CONFIGS] == [2, 13, 14]
    assert TABLE.vms.tolist() == [config.vms for config in CONFIGS] == [2, 4, 7]
    assert TABLE.usd_per_hour == pytest.approx([config.usd_per_hour for config in CONFIGS])
    assert TABLE.usd_per_hour == pytest.approx([2.0, 8.5, 11.5])


def test_every_offer_stands_once():
    assert TABLE.offers == (A, B)


def test_absent_groups_are_left_out():
    assert (TABLE.count[0] > 0).tolist() == [True, False, False]
    assert len(TABLE.config(0).groups) == 1


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([1, 2])])
def test_some_rows(rows):
    part = TABLE.take(rows)
    assert len(part) == 2
    assert [part.config(row) for row in range(2)] == CONFIGS[1:]


def test_no_configurations():
    empty = ConfigTable.from_configs([])
    assert len(empty) == len(empty.usd_per_hour) == len(empty.world_size) == 0


def forecasts(start, rows):
    names = [field.name for field in fields(ForecastTable)]
    return ForecastTable(
        **{name: start + index + 100.0 * np.arange(rows) for index, name in enumerate(names)}
    )


def test_forecast_columns_are_the_fields_of_a_forecast():
    assert [f.name for f in fields(ForecastTable)] == [f.name for f in fields(IterationForecast)]


def test_forecast_rows():
    table = forecasts(1.0, 3)
    row = table.row(2)
    assert isinstance(row, IterationForecast)
    assert row.mean_s == 201.0
    assert row.input_s == 211.0
    assert row.persistent_std_s == pytest.approx(table.persistent_std_s[2], rel=1e-15)
    expected = np.sqrt(table.step_std_s[2] ** 2 + row.persistent_std_s**2)
    assert table.std_s[2] == pytest.approx(expected, rel=1e-15)


def test_forecasts_are_joined_in_order():
    joined = ForecastTable.concatenate([forecasts(1.0, 2), forecasts(1000.0, 1)])
    assert len(joined) == 3
    assert joined.mean_s.tolist() == [1.0, 101.0, 1000.0]
    assert joined.row(2) == forecasts(1000.0, 1).row(0)


def test_rows_that_equal_an_earlier_one_are_left_out():
    table = ConfigTable.from_configs([*CONFIGS, CONFIGS[1], CONFIGS[0], CONFIGS[2]])
    assert table.distinct().tolist() == [0, 1, 2]
    # What stands in a column without VMs makes no difference.
    other = ConfigTable(
        table.offers,
        np.where(table.count == 0, 1, table.offer),
        table.count,
        table.samples_per_vm,
        table.gpus_used,
        table.accumulation,
    )
    assert ConfigTable.concatenate([table, other]).distinct().tolist() == [0, 1, 2]
