import pytest

pytest.importorskip("jinja2")

from srifty.report.quantities import (
    count,
    difference,
    dollars,
    duration,
    hourly,
    moment,
    odds,
    plural,
    rate,
    share,
    size,
)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (duration(2452.0), "40 min 52 s"),
        (duration(0.0), "0 s"),
        (duration(None), "–"),
        (dollars(3.291), "$3.29"),
        (dollars(1e-9), "$0.00"),
        (dollars(-1.5), "−$1.50"),
        (hourly(0.25), "$0.25/h"),
        (odds(0.9999), ">99 %"),
        (odds(0.9), "90 %"),
        (share(0.256), "26 %"),
        (difference(0.951), "+95.1 %"),
        (difference(-0.02), "−2.0 %"),
        (difference(1e-9), "0 %"),
        (count(6000), "6,000"),
        (rate(2695.4), "2,695 samples/s"),
        (rate(0.84, unit=""), "0.840"),
        (rate(None), "–"),
        (size(25 * 2**20), "25 MiB"),
        (moment(265.9), "0:04:25"),
        (moment(100 * 3600.0), "100:00:00"),
        (moment(None), "–"),
    ],
)
def test_numbers_for_people(made, text):
    assert made.text == text


def test_a_number_knows_its_exact_value_and_place():
    made = dollars(3.2911929, "plan.cost_usd.mean")
    assert (made.value, made.source) == (3.2911929, "plan.cost_usd.mean")


def test_one_is_not_many():
    assert (plural(1, "VM"), plural(4000, "VM")) == ("1 VM", "4,000 VMs")
