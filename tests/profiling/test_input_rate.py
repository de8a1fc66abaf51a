import pytest

torch = pytest.importorskip("torch")

from srifty.errors import InputError
from srifty.profiling.input_rate import measure_input_rate


class Paced:
    """A loader of so many batches of 8, each of which takes a stated time on a clock of its own."""

    def __init__(self, batch_s, batches=10**6, start_s=0.0, ready=0):
        self.now_s = 0.0
        self.asked = []
        self._parts = batch_s, batches, start_s, ready

    def clock(self):
        return self.now_s

    def __call__(self, workers):
        self.asked.append(workers)
        return self

    def __iter__(self):
        batch_s, batches, start_s, ready = self._parts
        self.now_s += start_s
        for index in range(batches):
            self.now_s += batch_s if index >= ready else 0.0
            yield torch.ones(8, 2), torch.ones(8)


def rate_of(loader, seconds=10.0):
    return measure_input_rate(loader, "toy", seconds=seconds, clock=loader.clock)


def test_one_worker_s_rate_without_its_start_and_what_lay_ready():
    loader = Paced(0.1, start_s=3.0, ready=2)
    rate = rate_of(loader)
    assert loader.asked == [1]
    assert rate.samples_per_s_per_vcpu == pytest.approx(80.0)
    assert loader.now_s < 11.0


def test_a_short_loader_is_begun_anew():
    assert rate_of(Paced(0.1, batches=3)).samples_per_s_per_vcpu == pytest.approx(80.0)


def test_a_loader_slower_than_the_time_given_counts_from_its_first_batch():
    assert rate_of(Paced(20.0)).samples_per_s_per_vcpu == pytest.approx(8 / 20)


def test_an_empty_loader_is_refused():
    with pytest.raises(InputError, match="no batch"):
        rate_of(Paced(0.1, batches=0))


def test_an_error_of_the_loader_is_told_as_theirs():
    def loader(workers):
        raise OSError("no such disk")

    with pytest.raises(InputError, match="loader") as caught:
        measure_input_rate(loader, "toy")
    assert "no such disk" in str(caught.value)


def test_a_real_loader_with_a_worker_process():
    data = torch.utils.data.TensorDataset(torch.ones(64, 2))
    rate = measure_input_rate(
        lambda workers: torch.utils.data.DataLoader(data, batch_size=8, num_workers=workers),
        "toy",
        seconds=0.2,
    )
    assert rate.samples_per_s_per_vcpu > 0
    assert rate.samples % 8 == 0
