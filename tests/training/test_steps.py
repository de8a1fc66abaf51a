"""The loop in one process; `test_elastic` has several."""

import collections
import functools
import gc
import itertools
import json
import logging
import os
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")
from torch.utils.data import DataLoader

import srifty.training as st
from srifty.errors import InputError, SaveFailed, TrainingStalled
from srifty.training.progress import log_path
from srifty.training.run import Run
from srifty.training.writer_lock import LOCK
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
    assert "at least 1 steps that were made are lost" in caplog.text
    logged = {line["step"]: line["loss"] for line in lines(tmp_path / "progress") if line["loss"]}
    assert logged == {step: sum(batch) / 4 for step, batch in once}
    saved = f"{tmp_path}/step-000000000002"
    assert f"training goes on at step 2 of 5 from {saved}, saved by 1 worker, now 1" in caplog.text


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


def test_a_stop_file_stops_and_saves(tmp_path, caplog):
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
    said = f"training stops before step 9: the stop file is there; saved in {tmp_path}/saved/step-0"
    assert said in caplog.text
    variables = {"SRIFTY_STOP": str(stop)}
    with pytest.raises(InputError, match=r"stop: the stop file is there already.*delete it"):
        Run(SHARE, {"count": count}, environment=variables)
    stop.unlink()
    Run(SHARE, {"count": count}, environment=variables)


def test_sigterm_stops_and_saves(tmp_path, caplog):
    run = Run(SHARE, {"count": Count()}, folder=tmp_path, environment=NOTHING)
    kill = functools.partial(os.kill, os.getpid(), signal.SIGTERM)
    made = train(run, Count(), steps=100, body=lambda step: step == 3 and kill())
    assert len(made) == 5
    assert f"before step 5: SIGTERM came; saved in {tmp_path}/step-000000000005" in caplog.text


def test_a_stop_after_the_last_step_is_none():
    run = Run(SHARE, {}, environment=NOTHING)
    kill = functools.partial(os.kill, os.getpid(), signal.SIGTERM)
    assert len(train(run, Count(), body=lambda step: step == 3 and kill())) == 5
    assert run.finished


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


def broken(folder):
    """Has nothing be saved in a folder any more."""
    shutil.rmtree(folder)
    folder.write_text("")


def mended(folder):
    folder.unlink()
    folder.mkdir()


def test_a_failing_save_stops_nothing(tmp_path):
    folder = tmp_path / "saved"
    count = Count()
    run = Run(SHARE, {"count": count}, folder=folder, save_every=2, environment=NOTHING)
    changes = {0: broken, 4: mended}
    with pytest.warns(UserWarning, match="could not be saved"):
        made = train(run, count, body=lambda step: changes.get(step, bool)(folder))
    assert len(made) == 5
    assert run.finished
    assert st.Checkpoints(folder, {"count": count}).newest().step == 5


def test_a_last_save_that_fails_is_an_error_once_all_is_done(tmp_path):
    folder = tmp_path / "saved"
    run = Run(SHARE, {"count": Count()}, folder=folder, progress=tmp_path, environment=NOTHING)
    made = []
    with (
        pytest.warns(UserWarning, match="could not be saved"),
        pytest.raises(SaveFailed, match="saved: the state after 5 steps could not be saved"),
    ):
        train(run, Count(), body=lambda step: made.append(step) or (step == 4 and broken(folder)))
    assert made == [0, 1, 2, 3, 4]
    assert run.finished
    assert all(line["loss"] is not None for line in lines(tmp_path))
    assert len(lines(tmp_path)) == 5


def test_a_folder_that_cannot_be_written_into_is_found_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"file.*: checkpoints cannot be saved here"):
            Run(SHARE, {"count": Count()}, folder=folder, environment=NOTHING)
    folder = tmp_path / "good"
    Run(SHARE, {"count": Count()}, folder=folder, environment=NOTHING)
    assert [path.name for path in folder.iterdir()] == [LOCK]


def test_damaged_checkpoints_are_put_aside(tmp_path, caplog):
    options = {"folder": tmp_path, "save_every": 2, "environment": NOTHING}
    train(Run(SHARE, {"count": Count()}, **options), Count())
    data = {path.parent.name: path for path in tmp_path.glob("step-*/state.pt")}
    assert sorted(data) == ["step-000000000004", "step-000000000005"]

    def flip(name):
        content = bytearray(data[name].read_bytes())
        content[len(content) // 2] ^= 1
        data[name].write_bytes(content)

    flip("step-000000000005")
    made = train(Run(SHARE, {"count": Count()}, **options), Count())
    assert [step for step, _ in made] == [4]
    assert "step-000000000005 is kept as damaged-step-000000000005" in caplog.text
    for name in data:
        flip(name)
    for _ in range(2):
        with pytest.raises(InputError, match="none of its 2 checkpoints can be read"):
            train(Run(SHARE, {"count": Count()}, **options), Count())
    assert len(train(Run(SHARE, {"count": Count()}, fresh=True, **options), Count())) == 5
    assert sorted(path.name for path in tmp_path.glob("*step*")) == [
        "damaged-step-000000000004",
        "damaged-step-000000000005",
        "damaged-step-000000000005-2",
        "step-000000000004",
        "step-000000000005",
    ]
    # Where one is whole, that is gone on with.
    assert train(Run(SHARE, {"count": Count()}, fresh=True, **options), Count()) == []


def test_a_run_that_is_not_driven_is_noticed(tmp_path, caplog):
    run = Run(SHARE, {"count": Count()}, folder=tmp_path, environment=NOTHING)
    with pytest.raises(InputError, match="do not come from steps"):
        st.mean_loss(torch.ones(4))
    del run
    gc.collect()
    assert "a Run was made and never given to steps" in caplog.text
    caplog.clear()
    train(Run(SHARE, {"count": Count()}, folder=tmp_path, environment=NOTHING), Count())
    gc.collect()
    assert "never given" not in caplog.text


def test_another_dataset_length_is_refused(tmp_path):
    train(Run(SHARE, {"count": Count()}, folder=tmp_path, environment=NOTHING), Count())
    run = Run(SHARE, {"count": Count()}, folder=tmp_path, environment=NOTHING)
    with pytest.raises(InputError, match="samples was 22 and is 23"):
        train(run, Count(), data=[*DATA, 22])


@pytest.mark.parametrize("samples", [1, 3])
def test_a_dataset_of_less_than_a_batch_is_wrapped(samples):
    made = train(
        Run(SHARE, {}, environment=NOTHING), Count(), data=DATA[:samples], remainder="wrap"
    )
    assert [step for step, _ in made] == list(range(5))
    dealt = collections.Counter(sample for _, batch in made for sample in batch)
    assert set(dealt) == set(range(samples))
    assert max(dealt.values()) - min(dealt.values()) <= 1


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
