"""One slow VM is told apart from a slow network."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.control import Culprit, blame
from srifty.core import IterationForecast
from srifty.core.events import WorkerStep
from srifty.errors import InputError

FORECAST = IterationForecast(1.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.4, 0.2, 0.05, 0.0)
COMPUTE_S, EXCHANGE_S = 0.8, 0.2


def steps(compute_s, network_s=EXCHANGE_S, gpus=2):
    """Workers of a synchronous step: who is early waits for the last one in the exchange."""
    last_s = max(compute_s)
    return [
        WorkerStep(rank, f"vm{rank // gpus}", own_s, last_s - own_s + network_s)
        for rank, own_s in enumerate(compute_s)
    ]


def test_nothing_is_blamed_where_all_is_as_forecast():
    assert blame(steps([COMPUTE_S] * 8), FORECAST).culprit is Culprit.NOTHING


def test_one_slow_gpu_blames_its_vm():
    found = blame(steps([0.8, 0.8, 0.8, 1.3, 0.8, 0.8]), FORECAST)
    assert (found.culprit, found.vm) == (Culprit.VM, "vm1")
    assert found.vm_excess_s == pytest.approx(0.5)
    assert found.network_excess_s == pytest.approx(0.0)


def test_waiting_for_a_slow_vm_is_not_taken_for_a_slow_network():
    waits = [step.exchange_s for step in steps([0.8, 0.8, 1.6, 1.6])]
    assert max(waits) > 4 * EXCHANGE_S
    assert blame(steps([0.8, 0.8, 1.6, 1.6]), FORECAST).vm == "vm1"


def test_a_slow_network_blames_no_vm():
    found = blame(steps([0.8, 0.81, 0.79, 0.8], network_s=0.7), FORECAST)
    assert (found.culprit, found.vm) == (Culprit.NETWORK, None)
    assert found.network_excess_s == pytest.approx(0.5)


def test_all_workers_slow_alike_blames_the_forecast_not_a_vm():
    assert blame(steps([1.2, 1.21, 1.2, 1.19]), FORECAST).culprit is Culprit.ALL_WORKERS


def test_a_single_vm_has_nobody_to_compare_with():
    assert blame(steps([1.4, 1.4]), FORECAST).culprit is Culprit.ALL_WORKERS


@given(
    slow=st.integers(0, 7),
    excess_s=st.floats(0.15, 3.0),
    jitter=st.lists(st.floats(-0.01, 0.01), min_size=8, max_size=8),
)
def test_whoever_is_slow_is_blamed(slow, excess_s, jitter):
    compute_s = [COMPUTE_S + j for j in jitter]
    compute_s[slow] += excess_s
    assert blame(steps(compute_s, gpus=1), FORECAST).vm == f"vm{slow}"


def test_input_that_was_forecast_to_be_slow_is_no_surprise():
    slow_input = replace(FORECAST, input_s=1.5, mean_s=1.5)
    assert blame(steps([1.5, 1.5, 1.5, 1.5], network_s=0.2), slow_input).culprit is Culprit.NOTHING


def test_without_reports_nobody_is_blamed():
    with pytest.raises(InputError, match="without a report"):
        blame([], FORECAST)
