"""The loop in one process; `test_elastic` has several."""

import itertools
import json
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")
from torch.utils.data import DataLoader

import srifty.training as st
from srifty.errors import InputError, TrainingStalled
from srifty.training.progress import log_path
from srifty.training.run import Run
from tests.training.metadata import Ec2, playing

SHARE = st.Share.of(4)
DATA = list(range(22))
NOTHING = {}


class Count:
    """A state of one number."""

    def __init__(self):
        self.value = torch.zeros(())

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, saved):
        self.value.copy_(saved["value"])


@pytest.fixture(autouse=True)
def _one_process():
    st.distribute(torch.nn.Linear(1, 1), SHARE)


def train(run, count, *, steps=5, last=None, data=DATA, body=None, **options):
    """Steps made, with their samples; stops without a word after `last`."""
    sampler = st.GlobalBatchSampler(data, run.share, steps=steps, **options)
    made = []
    loader = DataLoader(data, batch_sampler=sampler)
    for step, batch in st.steps(loader, run):
        count.value += 1
        st.mean_loss(batch.double())
        made.append((step, batch.tolist()))
        if body is not None:
            body(step)
        if step == last:
            break
    return made


def lines(folder, kind="step"):
    found = map(json.loads, log_path(folder, 0).read_text().splitlines())
    return [line for line in found if kind in line]


def test_a_training_goes_on_where_it_was_saved(tmp_path, caplog):
    once = train(Run(SHARE, {"count": Count()}, environment=NOTHING), Count())
    options = {"folder": tmp_path, "save_every": 2, "environment": NOTHING}
    options["progress"] = tmp_path / "progress"
    count = Count()
    first = train(Run(SHARE, {"count": count}, **options), count, last=3)
    count = Count()
    run = Run(SHARE, {"count": count}, **options)
    second = train(run, count)
    # The step in which the script broke off does not count as made.
    assert first == once[:4]
    assert second == once[2:]
    assert count.value == 5
    assert run.finished
    assert "1 steps that were made are lost" in caplog.text
    logged = {line["step"]: line["loss"] for line in lines(tmp_path / "progress") if line["loss"]}
    # That of step 1 was on its way when the script broke off in step 3.
    assert logged == {step: sum(batch) / 4 for step, batch in once if step != 1}


def test_what_is_finished_is_not_trained_again(tmp_path, caplog):
    for expected in (5, 0, 0):
        count = Count()
        run = Run(SHARE, {"count": count}, folder=tmp_path, environment=NOTHING)
        assert len(train(run, count)) == expected
        assert run.finished
        assert run.step == 5
        assert count.value == 5
    assert "all 5 steps were made before" in caplog.text
    longer = Run(SHARE, {"count": count}, folder=tmp_path, environment=NOTHING)
    assert [step for step, _ in train(longer, count, steps=8)] == [5, 6, 7]


def test_another_global_batch_is_refused(tmp_path):
    count = Count()
    train(Run(SHARE, {"count": count}, folder=tmp_path, environment=NOTHING), count)
    run = Run(st.Share.of(3), {"count": count}, folder=tmp_path, environment=NOTHING)
    with pytest.raises(InputError, match="global_batch was 4 and is 3"):
        train(run, count)
    run = Run(SHARE, {"count": count}, folder=tmp_path, environment=NOTHING)
    with pytest.raises(InputError, match="seed was 0 and is 1"):
        train(run, count, seed=1)


def test_a_stop_file_stops_and_saves(tmp_path):
    stop = tmp_path / "stop"
    count = Count()
    run = Run(
        SHARE,
        {"count": count},
        environment={"SRIFTY_CHECKPOINT": str(tmp_path / "saved"), "SRIFTY_STOP": str(stop)},
    )
    made = train(run, count, steps=100, body=lambda step: step == 7 and stop.touch())
    assert [step for step, _ in made] == list(range(9))  # heard of one step later
    assert not run.finished
    assert st.Checkpoints(tmp_path / "saved", {"count": count}).newest().step == 9


def test_a_remainder_counts_as_what_it_is():
    # 22 samples are 5 steps of 4 and one of 2: its mean is over 2.
    run = Run(SHARE, {}, environment=NOTHING)
    sampler = st.GlobalBatchSampler(DATA, SHARE, remainder="keep", shuffle=False)
    means = [
        st.mean_loss(batch.double()).item()
        for _, batch in st.steps(DataLoader(DATA, batch_sampler=sampler), run)
    ]
    assert means == [1.5, 5.5, 9.5, 13.5, 17.5, 20.5]


def test_random_numbers_are_the_steps(tmp_path):
    def drawn(first):
        found = {}
        run = Run(SHARE, {"count": Count()}, folder=tmp_path / str(first), environment=NOTHING)
        run.step = first
        train(run, Count(), body=lambda step: found.setdefault(step, torch.rand(3).tolist()))
        return found

    whole, part = drawn(0), drawn(3)
    assert part == {step: whole[step] for step in (3, 4)}
    assert len({tuple(numbers) for numbers in whole.values()}) == 5


def test_training_that_does_not_get_on_is_stopped(tmp_path):
    options = {"progress": tmp_path, "most_restarts": 3, "environment": NOTHING}
    outcomes = []
    for _ in range(5):
        try:
            train(Run(SHARE, {"count": Count()}, **options), Count(), last=1)
            outcomes.append("began")
        except TrainingStalled as error:
            outcomes.append(str(error)[:37])
    assert outcomes == ["began"] * 3 + ["training began at step 0 3 times and ", "began"]


def test_a_failing_save_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    count = Count()
    run = Run(SHARE, {"count": count}, folder=tmp_path / "file", save_every=2, environment=NOTHING)
    with pytest.warns(UserWarning, match="could not be saved"):
        made = train(run, count)
    assert len(made) == 5
    assert run.finished


def test_a_notice_leads_to_a_save_in_time(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    announced = datetime.now(UTC) + timedelta(seconds=8)
    body = json.dumps({"action": "terminate", "time": announced.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
    service = Ec2([(404, ""), (200, body)])
    count = Count()
    with playing(service) as url:
        run = Run(
            SHARE,
            {"count": count},
            folder=tmp_path,
            notices=[st.Ec2Notices(url)],
            environment=NOTHING,
        )
        made = train(run, count, steps=10**6, body=lambda _: time.sleep(0.01))
    ended = time.time()
    assert "taken away" in caplog.text
    assert not run.finished
    found = st.Checkpoints(tmp_path, {"count": count}).newest()
    assert found.step == len(made)
    # How early the exit may be is checked with played seconds; here there is at least no hurry.
    assert found.facts["at"] < announced.timestamp()
    assert ended > announced.timestamp() - 6


def test_what_the_loader_must_be_is_said():
    with pytest.raises(InputError, match="batch_sampler=GlobalBatchSampler"):
        next(st.steps(DataLoader(DATA), Run(SHARE, {}, environment=NOTHING)))
    share = st.Share(0, (4,), (2,))
    sampler = st.GlobalBatchSampler(DATA, share)
    loader = DataLoader(DATA, batch_sampler=sampler)
    with pytest.raises(InputError, match="in_passes=True"):
        next(st.steps(loader, Run(share, {}, environment=NOTHING)))
    with pytest.raises(InputError, match="save_every must be 1 or more"):
        Run(SHARE, {}, save_every=0, environment=NOTHING)


def test_streams_are_dealt_too(tmp_path):
    def loader():
        stream = st.GlobalBatchStream(
            lambda place: itertools.islice(iter(DATA), place, None), SHARE
        )
        return DataLoader(stream, batch_size=None)

    count = Count()
    run = Run(SHARE, {"count": count}, folder=tmp_path, save_every=2, environment=NOTHING)
    for step, batch in st.steps(loader(), run):
        assert batch.tolist() == list(range(4 * step, 4 * step + 4))
        if step == 2:
            break
    run = Run(SHARE, {"count": count}, folder=tmp_path, save_every=2, environment=NOTHING)
    assert [step for step, _ in st.steps(loader(), run)] == [2, 3, 4]
