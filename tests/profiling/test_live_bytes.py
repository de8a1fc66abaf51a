import pytest

torch = pytest.importorskip("torch")

from srifty.profiling.live_bytes import LiveBytes


def test_a_storage_lives_until_nothing_holds_it():
    with LiveBytes() as live:
        first = torch.zeros(1000)
        assert live.now == 4000
        second = first + 1
        view = second[:10]
        assert live.now == 8000
        del second
        assert live.now == 8000
        del view
        assert live.now == 4000
        live.restart()
        assert live.peak == 4000
        first.add_(1)
        assert live.peak == 4000
    assert live.now == 4000


def test_what_was_there_before_counts_once():
    weight = torch.zeros(10)
    live = LiveBytes()
    live.add([weight, weight[2:], weight])
    assert (live.now, live.peak) == (40, 40)


def test_the_peak_of_a_step_is_what_autograd_keeps():
    weight = torch.zeros(100, requires_grad=True)
    live = LiveBytes()
    live.add([weight])
    with live:
        kept = weight.exp().exp().sum()
        # Both exponentials are saved for the backward pass.
        assert live.now == 400 + 800 + 4
        kept.backward()
    assert live.peak >= 400 + 800 + 400
    assert live.now == 400 + 400 + 4


def test_torchs_own_tracker_says_the_same():
    from torch.distributed._tools.mem_tracker import MemTracker

    def step(model, rows):
        model(rows).square().mean().backward()

    def model():
        layers = (torch.nn.Linear(50, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3))
        return torch.nn.Sequential(*layers)

    rows = torch.zeros(64, 50)
    one, other = model(), model()
    tracker = MemTracker()
    tracker.track_external(one, rows)
    with tracker:
        step(one, rows)
    live = LiveBytes()
    live.add([*other.parameters(), rows])
    with live:
        step(other, rows)
    theirs = sum(parts["Total"] for parts in tracker.get_tracker_snapshot("peak").values())
    assert live.peak == pytest.approx(theirs, rel=0.02)
