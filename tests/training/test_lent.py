import time

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from srifty.training import lent


@pytest.fixture(autouse=True)
def _nothing_lent():
    lent._lent.clear()
    yield
    lent._lent.clear()


def test_what_others_hold_is_awaited():
    held = [2, 2, 1]
    looks = []

    class Sent:
        device = torch.device("cpu")

        def _use_count(self):
            looks.append(held[len(looks)])
            return looks[-1]

    assert lent.lend(Sent()).device.type == "cpu"
    lent.await_lent()
    assert looks == [2, 2, 1]


def test_tensors_that_only_this_process_holds_take_no_time(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("nothing was to be waited for"))
    for _ in range(40):
        lent.lend(torch.zeros(3))
    assert len(lent._lent) == lent._MOST
    lent.await_lent()
    assert not lent._lent


def test_whoever_never_lets_go_is_not_awaited_for_ever(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(time, "sleep", lambda _: None)

    class Stuck:
        device = torch.device("cpu")

        def _use_count(self):
            return 2

    lent.lend(Stuck())
    lent.await_lent()
    assert next(clock) >= lent._PATIENCE_S


def test_a_gpu_s_tensors_are_left_to_their_library():
    class OnGpu:
        device = torch.device("cuda")

    lent.lend(OnGpu())
    assert not lent._lent
