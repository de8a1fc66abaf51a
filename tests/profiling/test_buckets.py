"""Predicted buckets against those of two real processes, on this host's loopback."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

import srifty
from srifty.core import GradientSync
from srifty.core.buckets import buckets_as_ready, buckets_as_registered
from srifty.core.profile import Gradient, GradientSchedule
from srifty.errors import InputError
from srifty.profiling.buckets import DdpOptions, bucket_plan
from srifty.profiling.device import CpuDevice
from srifty.profiling.gradients import measure_gradients
from srifty.profiling.steps import StepRunner
from srifty.simulator.transfers import transfers_of
from srifty.units import MIB
from tests.profiling.ddp_log import ITERATIONS, settings
from tests.profiling.models import DDP_MODELS, workload

LIMIT_S = 150
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """What two processes sent: (model, setting) → iterations and error."""
    folder = tmp_path_factory.mktemp("ddp")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(srifty.__file__).parents[1]), str(ROOT))),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    out = folder / "log.json"
    processes = []
    errors = [folder / "0.err", folder / "1.err"]
    try:
        for rank, path in enumerate(errors):
            command = [sys.executable, "-m", "tests.profiling.ddp_log", str(rank)]
            with path.open("w") as file:
                processes.append(
                    subprocess.Popen(
                        [*command, str(folder / "store"), str(out)],
                        env=environment,
                        stderr=file,
                        cwd=ROOT,
                    )
                )
        until = time.monotonic() + LIMIT_S
        codes = [process.wait(max(0, until - time.monotonic())) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0, 0], "\n".join(path.read_text() for path in errors)
    rows = json.loads(out.read_text())
    return {(row["model"], json.dumps(row["setting"])): row for row in rows}


@pytest.fixture(scope="module")
def measured():
    """The gradients of each model: name → (model, times)."""
    found = {}
    for name, make in DDP_MODELS.items():
        runner = StepRunner(workload(make()), CpuDevice())
        batch = runner.workload.batch_of(2)
        found[name] = runner.workload.model, measure_gradients(runner, batch, steps=1, warm_up=0)
    return found


def options_of(setting):
    setting = dict(setting)
    caps = tuple(setting.pop("bucket_cap_mb_list", ()))
    return DdpOptions(bucket_cap_mb_list=caps, **setting)


def shown(buckets, log):
    """Returns our buckets as the log shows them; it has no size of sparse ones."""
    sizes = [size and bucket.bytes for bucket, (_, size) in zip(buckets, log, strict=False)]
    sizes += [bucket.bytes for bucket in buckets[len(log) :]]
    return [[list(bucket.names), size] for bucket, size in zip(buckets, sizes, strict=True)]


CASES = [(name, setting) for name in DDP_MODELS for setting in settings(name)]


@pytest.mark.parametrize(
    ("name", "setting"), CASES, ids=[f"{name}-{tuple(s.values())}" for name, s in CASES]
)
def test_every_bucket_of_every_iteration_is_as_predicted(name, setting, real, measured):
    row = real[name, json.dumps(setting)]
    model, times = measured[name]
    options = options_of(setting)
    if times.repeated and not options.static_graph:
        assert "mark a variable ready only once" in row["error"]
        assert any("static_graph=True" in note for note in times.notes)
        return
    if times.needs_find_unused_parameters and not (
        options.find_unused_parameters or options.static_graph
    ):
        assert "find_unused_parameters=True" in row["error"]
        with pytest.raises(InputError, match=r"wait for ever.*find_unused_parameters=True"):
            bucket_plan(model, times.schedule, options)
        return
    assert row["error"] is None
    plan = bucket_plan(model, times.schedule, options)
    assert len(row["iterations"]) == ITERATIONS > plan.first_iterations
    for iteration, log in enumerate(row["iterations"]):
        buckets = plan.first if iteration < plan.first_iterations else plan.later
        assert shown(buckets, log) == log


@pytest.mark.parametrize("name", DDP_MODELS)
@pytest.mark.parametrize("cap_mib", [None, 1])
@pytest.mark.parametrize("find", [None, False, True], ids=["auto", "keeps nothing", "finds unused"])
def test_the_planner_sends_what_is_really_sent(name, cap_mib, find, real, measured):
    model, times = measured[name]
    needed = times.schedule.find_unused_parameters if find is None else find
    setting = {"find_unused_parameters": needed, "static_graph": False}
    setting |= {} if cap_mib is None else {"bucket_cap_mb": cap_mib}
    if times.repeated or (times.schedule.unused and not needed):
        setting["static_graph"] = True  # DistributedDataParallel refuses without it
        if needed:
            pytest.skip("a static graph makes nothing of find_unused_parameters")
    row = real[name, json.dumps(setting)]
    caps = {} if cap_mib is None else {"bucket_bytes": cap_mib * MIB}
    sync = GradientSync(find_unused_parameters=find, **caps)
    transfers = transfers_of(times.schedule, sync)
    plan = bucket_plan(model, times.schedule, options_of(setting))
    assert transfers.sizes_bytes.tolist() == [bucket.bytes for bucket in plan.later]
    assert transfers.ready.tolist() == [bucket.ready for bucket in plan.later]
    log = row["iterations"][-1]
    assert len(transfers) == len(log)
    for size, (names, sent) in zip(transfers.sizes_bytes, log, strict=True):
        if sent is None:  # sparse: indices and values
            (sent,) = (g.bytes for g in times.schedule.gradients if [g.name] == names)
        assert size == sent


def test_profiles_know_what_distributed_data_parallel_needs(measured):
    unused, sparse, halves = (measured[n][1].schedule for n in ("unused", "sparse", "halves"))
    assert [g.name for g in unused.unused] == ["unused.weight", "spare.weight", "spare.bias"]
    assert sum(g.bytes for g in unused.unused) == (600 * 600 + 600 * 50 + 50) * 4
    assert unused.find_unused_parameters
    assert [g.name for g in unused.registered][:2] == ["unused.weight", "unused.bias"]
    assert not sparse.find_unused_parameters
    assert [g.name for g in sparse.gradients if g.sparse] == ["words.weight"]
    assert {g.dtype for g in halves.gradients} == {"float32", "bfloat16"}
    assert not measured["reentrant"][1].schedule.find_unused_parameters


@settings_of_hypothesis(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.sampled_from(["float32", "float16", "bfloat16"]),
                  st.integers(0, 7).map(lambda draw: draw == 0)),
        min_size=1, max_size=25,
    ),
    st.lists(st.integers(1, 200), min_size=1, max_size=3),
)  # fmt: skip
def test_buckets_are_those_of_torchs_own_function(parameters, caps):
    tensors = [
        torch.empty(size, dtype=getattr(torch, kind), device="meta") for size, kind, _ in parameters
    ]
    sparse = [is_sparse for _, _, is_sparse in parameters]
    gradients = [
        Gradient(str(at), t.numel() * t.element_size(), 0.0, dtype=kind, sparse=is_sparse)
        for at, (t, (_, kind, is_sparse)) in enumerate(zip(tensors, parameters, strict=True))
    ]

    def cut(indices):
        assign = torch.distributed._compute_bucket_assignment_by_size
        return assign(tensors, caps, sparse, indices)[0]

    def places(buckets):
        return [[int(gradient.name) for gradient in bucket] for bucket in buckets]

    assert places(buckets_as_ready(gradients, caps)) == cut(list(range(len(tensors))))
    assert places(buckets_as_registered(gradients, caps)) == cut([])[::-1]


def even(names, step=0.1):
    gradients = [Gradient(name, 4, round(step * at, 6)) for at, name in enumerate(names, 1)]
    return GradientSchedule(tuple(gradients))


def linears(count, width=256):
    return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(count)))


def test_a_bucket_waits_for_its_latest_gradient_and_for_the_buckets_before_it():
    # 256 KiB each; four make a bucket of 1 MiB.
    model = linears(6)
    order = ["5", "3", "4", "2", "1", "0"]
    schedule = even([f"{name}.weight" for name in order])
    plan = bucket_plan(model, schedule, DdpOptions(bucket_cap_mb=0.5, find_unused_parameters=True))
    assert [bucket.names for bucket in plan.later] == [
        ("4.weight", "5.weight"),
        ("2.weight", "3.weight"),
        ("0.weight", "1.weight"),
    ]
    assert [bucket.ready for bucket in plan.later] == [0.3, 0.4, 0.6]
    assert plan.first == plan.later
    assert plan.first_iterations == 0
    # The bucket of 4 and 5 is ready last but sent first.
    late = even([f"{name}.weight" for name in ("0", "1", "2", "3", "4", "5")])
    plan = bucket_plan(model, late, DdpOptions(bucket_cap_mb=0.5, find_unused_parameters=True))
    assert [bucket.ready for bucket in plan.later] == [0.6, 0.6, 0.6]


def test_silent_parameters_are_sent_as_zeros_and_delay_nothing():
    model = linears(4)
    schedule = even(["3.weight", "0.weight"], step=0.5)
    options = DdpOptions(bucket_cap_mb=0.25, find_unused_parameters=True)
    plan = bucket_plan(model, schedule, options)
    assert [bucket.names for bucket in plan.later] == [(f"{at}.weight",) for at in (3, 2, 1, 0)]
    assert [bucket.ready for bucket in plan.later] == [0.5, 0.5, 0.5, 1.0]
    assert sum(bucket.bytes for bucket in plan.later) == 4 * 256 * 1024


def test_the_schedule_of_another_model_is_refused():
    with pytest.raises(InputError, match=r"no trainable parameter 'head\.weight'"):
        bucket_plan(linears(2), even(["head.weight"]), DdpOptions())


def test_m07_sixty_layers_and_an_embedding_leave_in_few_buckets():
    # One MiB each and one embedding of 100 MiB, which is ready last.
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Embedding(25, MIB), *linears(60, width=512))
    names = [f"{at}.weight" for at in range(60, -1, -1)]
    schedule = GradientSchedule(
        tuple(
            Gradient(name, 4 * parameter.numel(), at / 61)
            for at, (name, parameter) in enumerate(
                ((name, model.get_parameter(name)) for name in names), 1
            )
        )
    )
    plan = bucket_plan(model, schedule, DdpOptions())
    assert [bucket.bytes // MIB for bucket in plan.later] == [1, 25, 25, 9 + 100]
    assert [bucket.ready for bucket in plan.later] == [1 / 61, 26 / 61, 51 / 61, 1.0]
    assert transfers_of(schedule, GradientSync()).sizes_bytes.tolist() == [
        bucket.bytes for bucket in plan.later
    ]
    assert [bucket.bytes // MIB for bucket in plan.first] == [160]
