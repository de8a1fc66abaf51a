import pytest

from srifty.catalog import builtin_gpus, builtin_instance_types
from srifty.catalog.builtin import builtin_prices

GPUS = builtin_gpus()
TYPES = builtin_instance_types()
PRICES = builtin_prices()


@pytest.mark.parametrize("name", GPUS)
def test_gpus_carry_their_source(name):
    assert GPUS[name].name == name
    assert GPUS[name].source.strip()


@pytest.mark.parametrize("name", TYPES)
def test_instance_types_carry_their_source_and_a_known_gpu(name):
    kind = TYPES[name]
    assert kind.name == name
    assert kind.source.strip()
    assert kind.gpu in GPUS
    assert kind.gpu_memory_bytes <= GPUS[kind.gpu].memory_bytes


def test_prices_carry_their_source_and_a_known_type():
    for price in PRICES:
        assert price.source.strip(), price
        assert price.instance_type in TYPES
        assert price.usd_per_hour > 0
        assert price.region


def test_one_price_for_each_type_market_and_zone():
    keys = [price.key for price in PRICES]
    assert len(keys) == len(set(keys))


def test_the_tables_are_read_once():
    assert builtin_gpus() is GPUS
    assert builtin_instance_types() is TYPES
    assert builtin_prices() is PRICES
