"""What choosing by a forecast costs, against bills worked out by hand."""

import numpy as np
import pytest
from benchmarks.paper.regret import cheapest, questions, regrets

from tests.paper.made_runs import forecasts

# One question: 64 samples on 2, 4 and 8 VMs. At 3.6 dollars an hour a VM costs 0.001 a second.
ROWS = [
    ("a", (1, 1), 32, 4.0, 3.0, 2.0, 1.0),
    ("a", (1,) * 4, 16, 1.5, 2.0, 2.5, 0.6),
    ("a", (1,) * 8, 8, 1.0, 1.5, 0.5, 0.3),
]


def test_a_question_has_one_batch_and_several_numbers_of_vms():
    other = ("a", (1, 1), 16, 1.0, 1.0, 1.0, 1.0)  # 32 samples
    assert [rows.tolist() for rows in questions(forecasts([*ROWS, other]))] == [[0, 1, 2]]
    assert not questions(forecasts(ROWS[:2]))


def test_without_a_limit():
    # Measured bills of 1,000 iterations: 8, 6 and 8 dollars.
    found = regrets(forecasts(ROWS), 3.6, deadline=False)
    assert found["srifty"].usd == pytest.approx([2.0])  # believes 6, 8, 12: takes 2 VMs
    assert found["srifty"].share == pytest.approx([2 / 6])
    assert found["apm"].usd == pytest.approx([2.0])  # believes 4, 10, 4: the first
    assert not found["srifty"].refused.any()


def test_with_a_deadline():
    # 1.5 s must be kept; the best that does is 4 VMs, 6 dollars.
    found = regrets(forecasts(ROWS), 3.6, deadline=True)
    assert found["srifty"].usd == pytest.approx([2.0])  # only 8 VMs are believed to keep it
    assert found["srifty at 90 %"].refused.all()  # 1.65 s at the P90
    assert found["apm"].kept.all()
    linear = found["linear scaling"]
    assert linear.late_by == pytest.approx([4.0 / 1.5 - 1])  # believes 2, 2.4, 2.4
    assert not linear.kept.any()


def test_no_answer_within_the_limit_is_no_plan():
    bills, times_s = np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])
    assert cheapest(bills, times_s, 2.0) == 1
    assert cheapest(bills, times_s, 0.5) is None
