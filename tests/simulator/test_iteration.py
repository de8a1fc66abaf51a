import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.compute.latency import LatencyModel
from srifty.core import Gradient, GradientSchedule, GradientSync, Sharing
from srifty.errors import ModelError
from srifty.files import builtin_profiles
from srifty.simulator import ConfigTable, IterationLaw, Noise, Simulator
from srifty.simulator.workers import worker_groups
from tests.builders import (
    PAPER_SYNC,
    PER_TENSOR,
    LinearAllreduce,
    Link,
    make_config,
    make_job,
    make_latency,
    make_offer,
    make_profile,
    make_type,
    with_ready_at,
)
from tests.simulator.reference import reference_iteration_s

MANY_TENSORS = 78


def forecast(simulator, job, config):
    return simulator.predict(job, ConfigTable.from_configs([config])).row(0)


# --- the built-in ResNet-50 against a closed form ------------------------------------------------

ALPHAS_S = (20e-6, 100e-6, 500e-6, 1000e-6)
BETAS = (0.5e9, 1e9, 3e9, 10e9)
RESNET = next(profile for profile in builtin_profiles("resnet50") if profile.gpu == "V100")
MODEL = LatencyModel.fit(RESNET)
# 0.09 s forward and 0.18 s backward at a local batch of 128, about what was measured; no spread.
RESNET_LATENCY = replace(
    MODEL,
    forward=MODEL.forward.scaled(0.09 / float(MODEL.forward.predict(128.0))),
    backward=MODEL.backward.scaled(0.18 / float(MODEL.backward.predict(128.0))),
    step_std_fraction=0.0,
    spatial_std_fraction=0.0,
)
RESNET_CONFIG = make_config((make_offer(make_type("v1.large", "V100", gpus=2)), 4, 256))


def resnet_iteration_s(alpha_s, beta, sync):
    simulator = Simulator({"V100": RESNET_LATENCY}, LinearAllreduce(Link(alpha_s, beta)))
    return forecast(simulator, make_job(RESNET, sync=sync), RESNET_CONFIG).mean_s


def closed_form_s(alpha_s, beta, *, bucketed):
    """Without spread all workers are alike: each message waits for its gradients and the link."""
    forward_s, backward_s = 0.09, 0.18
    cap, held, link_free_s = 2**20, 0, 0.0
    gradients = RESNET.gradients.gradients
    for position, gradient in enumerate(gradients, start=1):
        held += gradient.bytes
        if bucketed and held < cap and position < len(gradients):
            continue
        ready_s = forward_s + gradient.ready * backward_s
        link_free_s = max(link_free_s, ready_s) + alpha_s + held / beta
        cap, held = 25 * 2**20, 0
    return max(forward_s + backward_s, link_free_s) + RESNET_LATENCY.optimizer_s


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("alpha_s", ALPHAS_S)
@pytest.mark.parametrize("bucketed", [True, False], ids=["bucketed", "per tensor"])
def test_resnet50_equals_a_closed_form(alpha_s, beta, bucketed):
    sync = GradientSync() if bucketed else PER_TENSOR
    expected = closed_form_s(alpha_s, beta, bucketed=bucketed)
    assert resnet_iteration_s(alpha_s, beta, sync) == pytest.approx(expected, rel=1e-12)


def per_tensor_gain_s(alpha_s, beta):
    """How much sooner an iteration ends with single tensors than with buckets."""
    return resnet_iteration_s(alpha_s, beta, GradientSync()) - resnet_iteration_s(
        alpha_s, beta, PER_TENSOR
    )


# Bytes per second → the latency at which both ways take equally long lies between these seconds. A
# slow link never pauses after its first message, so that all that single tensors win are the 4 kB
# sent before the first bucket is full, for some 155 latencies more. On a fast one 161 latencies
# must hide behind a backward pass of 0.18 s.
CROSSINGS = {
    0.3e9: (1e-8, 1e-6),
    1e9: (2e-4, 1e-3),
    3e9: (4e-4, 1.5e-3),
    10e9: (0.6e-3, 0.18 / 161),
    30e9: (0.6e-3, 0.18 / 161),
}


@pytest.mark.parametrize("beta", CROSSINGS)
def test_tensors_win_at_small_latency_and_buckets_at_large(beta):
    low_s, high_s = least_s, most_s = CROSSINGS[beta]
    assert per_tensor_gain_s(low_s, beta) > 0
    assert per_tensor_gain_s(high_s, beta) < 0
    for _ in range(30):
        middle_s = (low_s + high_s) / 2
        if per_tensor_gain_s(middle_s, beta) > 0:
            low_s = middle_s
        else:
            high_s = middle_s
    assert least_s * 1.01 < low_s <= high_s < most_s * 0.99
    # A real crossing: on both sides the two differ, and so says the closed form.
    for factor, sign in ((0.9, 1), (1.1, -1)):
        alpha_s = factor * low_s
        assert sign * per_tensor_gain_s(alpha_s, beta) > 0
        bucketed_s, single_s = (closed_form_s(alpha_s, beta, bucketed=b) for b in (True, False))
        assert sign * (bucketed_s - single_s) > 0


def test_which_way_is_faster_depends_on_both_latency_and_bandwidth():
    assert per_tensor_gain_s(20e-6, 10e9) > 0.5e-3
    assert per_tensor_gain_s(5000e-6, 10e9) < -0.5
    assert per_tensor_gain_s(20e-6, 0.3e9) < -1e-3


# --- many random configurations against the reference --------------------------------------------

KINDS = (
    make_type("a1.x", "A", gpus=1, vcpus=8),
    make_type("b1.x", "B", gpus=4, vcpus=16),
    make_type("c1.x", "C", gpus=8, vcpus=4),
)
OFFERS = tuple(make_offer(kind) for kind in KINDS)
LATENCY = {
    "A": make_latency("A", (0.010, 0.0010), (0.020, 0.0020), 0.004, 0.02, 0.02),
    "B": make_latency("B", (0.004, 0.0007), (0.011, 0.0011), 0.002, 0.05, 0.00),
    "C": make_latency("C", (0.006, 0.0005), (0.012, 0.0012), 0.003, 0.00, 0.00),
}
LINKS = {
    "a1.x": Link(80e-6, 1.2e9, 10e-6),
    "b1.x": Link(200e-6, 2.5e9, 4e-6),
    "c1.x": Link(50e-6, 0.9e9, 15e-6),
}
SIMULATOR = Simulator(LATENCY, LinearAllreduce(links=LINKS))


def random_table(seed, rows):
    """Two or three VM groups per row; local batches that differ by one; 1 to 4 passes."""
    rng = np.random.default_rng(seed)
    shape = (rows, 3)
    offer = np.stack([rng.permutation(3) for _ in range(rows)])
    offer[::7, 1] = offer[::7, 0]  # two groups of one type
    count = rng.integers(1, 9, shape)
    count[::2, 2] = 0  # an absent group
    gpus = np.array([offer.instance_type.gpus for offer in OFFERS])[offer]
    gpus = np.where(rng.random(shape) < 0.2, np.maximum(gpus // 2, 1), gpus)
    samples = gpus * rng.integers(4, 65, shape) + rng.integers(0, gpus)  # often a remainder
    accumulation = np.where(rng.random(shape) < 0.3, rng.integers(2, 5, shape), 1)
    return ConfigTable(OFFERS, offer, count, samples, gpus, accumulation)


def random_gradients(seed, count):
    rng = np.random.default_rng(seed)
    sizes = (10 ** rng.uniform(3, 6.7, count)).astype(int)
    sizes[rng.integers(count, size=count // 2)] = sizes[0]
    return list(zip(sizes.tolist(), np.sort(rng.random(count)).tolist(), strict=True))


MANY = make_job(make_profile("A", random_gradients(1, MANY_TENSORS)))
FEW = make_job(make_profile("A", random_gradients(2, 12)))

CASES = {
    "bucketed, one slot": (MANY, GradientSync(bucket_bytes=4_000_000), 300),
    "per tensor, the paper's rule, many tensors": (MANY, PAPER_SYNC, 60),
    "per tensor, one slot, many tensors": (MANY, PER_TENSOR, 60),
    "few tensors, the paper's rule": (FEW, PAPER_SYNC, 150),
    "few tensors, two slots": (FEW, replace(PER_TENSOR, slots=2), 100),
    "bucketed, unlimited slots": (MANY, GradientSync(bucket_bytes=4_000_000, slots=None), 100),
}


@pytest.mark.parametrize("law", IterationLaw)
@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_random_configurations_equal_the_scalar_reference(case, law):
    job, sync, rows = CASES[case]
    if law is IterationLaw.PAPER:
        rows = rows // 3
    job = replace(job, sync=sync)
    simulator = replace(SIMULATOR, law=law)
    table = random_table(len(case), rows)
    mean_s = simulator.predict(job, table).mean_s
    expected = [reference_iteration_s(simulator, job, table.config(r)) for r in range(rows)]
    assert mean_s == pytest.approx(expected, rel=1e-9)


SIZED = (
    with_ready_at(make_profile("A", random_gradients(4, 7)), (4, 16, 64)),
    with_ready_at(make_profile("B", random_gradients(4, 7)), (8, 30), late=0.9),
    make_profile("C", random_gradients(4, 7)),  # as A
)


@pytest.mark.parametrize("law", IterationLaw)
@pytest.mark.parametrize("sync", [PER_TENSOR, GradientSync(bucket_bytes=3_000_000)])
def test_every_worker_is_ready_as_its_own_micro_batch_makes_it(sync, law):
    rows = 80
    job = replace(make_job(*SIZED), sync=sync)
    simulator = replace(SIMULATOR, law=law)
    table = random_table(5, rows)
    mean_s = simulator.predict(job, table).mean_s
    expected = [reference_iteration_s(simulator, job, table.config(r)) for r in range(rows)]
    assert mean_s == pytest.approx(expected, rel=1e-9)
    # It does matter, and is all that differs.
    plain = replace(job, profiles=tuple(make_profile(p.gpu, random_gradients(4, 7)) for p in SIZED))
    assert mean_s != pytest.approx(simulator.predict(plain, table).mean_s, rel=1e-3)


@pytest.mark.parametrize("law", IterationLaw)
def test_many_transfers_are_ready_nearly_as_if_all_were_evaluated(law):
    rows = 40
    profiles = (
        with_ready_at(make_profile("A", random_gradients(1, MANY_TENSORS)), (4, 16, 64)),
        with_ready_at(make_profile("B", random_gradients(1, MANY_TENSORS)), (8, 30), late=0.9),
    )
    job = make_job(*profiles, sync=PER_TENSOR)
    simulator = replace(SIMULATOR, law=law)
    table = random_table(6, rows)
    mean_s = simulator.predict(job, table).mean_s
    expected = [reference_iteration_s(simulator, job, table.config(r)) for r in range(rows)]
    assert mean_s == pytest.approx(expected, rel=3e-4)


def test_ready_fractions_by_hand():
    # 0.01 + 0.001 b forward, 0.02 + 0.002 b backward; nothing else takes noticeable time but the
    # one message, which is ready at 0.2 (batch 4) to 0.8 (batch 64); 16 is half way.
    profile = make_profile("A", [(1_000_000, 0.2)])
    gradient = replace(profile.gradients.gradients[0], ready_at={4: 0.2, 64: 0.8})
    profile = replace(profile, gradients=GradientSchedule((gradient,)))
    simulator = Simulator({"A": make_latency()}, LinearAllreduce(Link(1.0, 1e15)))
    for batch, fraction in ((1, 0.2), (4, 0.2), (16, 0.5), (64, 0.8), (256, 0.8)):
        row = forecast(simulator, make_job(profile), make_config((A, 2, batch)))
        ready_s = 0.01 + 0.001 * batch + fraction * (0.02 + 0.002 * batch)
        assert row.mean_s == pytest.approx(ready_s + 1.0, rel=1e-6)
    # Two passes of 16 each: it is the last one that counts.
    row = forecast(simulator, make_job(profile), make_config((A, 2, 32, 2)))
    assert row.mean_s == pytest.approx(0.026 + 0.052 + 0.026 + 0.5 * 0.052 + 1.0, rel=1e-6)


def test_an_unknown_order_of_registration_is_said():
    simulator = Simulator({"A": make_latency()}, LinearAllreduce())
    sync = GradientSync(find_unused_parameters=True)
    unknown = make_job(sync=sync)
    assert any("order" in s and "assumed" in s for s in simulator.assumptions(unknown, [A]))
    schedule = GradientSchedule((Gradient("w", 4, 1.0, index=0),))
    known = make_job(replace(make_profile("A"), gradients=schedule), sync=sync)
    assert not any("assumed" in s and "order" in s for s in simulator.assumptions(known, [A]))


@pytest.mark.parametrize(
    ("sync", "needed", "unused", "words"),
    [
        (GradientSync(find_unused_parameters=False), True, "u", "u get no gradient"),
        (GradientSync(find_unused_parameters=False), True, "uvwxyz", "u, v, w and 3 more get no"),
        (GradientSync(find_unused_parameters=False), True, "", "no gradient in some steps"),
        (GradientSync(find_unused_parameters=False), False, "u", None),
        (GradientSync(find_unused_parameters=True), True, "u", None),
        (GradientSync(), True, "u", None),
        (replace(PER_TENSOR, find_unused_parameters=False), True, "u", None),
    ],
)
def test_parameters_that_would_have_to_be_found_are_warned_of(sync, needed, unused, words):
    schedule = GradientSchedule(
        (Gradient("used", 4, 1.0),),
        unused=tuple(Gradient(name, 4, 0.0) for name in unused),
        find_unused_parameters=needed,
    )
    job = make_job(replace(make_profile("A"), gradients=schedule), sync=sync)
    simulator = Simulator({"A": make_latency()}, LinearAllreduce())
    warnings = simulator.warnings(job, make_config((A, 2, 32)))
    found = [text for text in warnings if "find_unused_parameters" in text]
    assert len(found) == (words is not None)
    assert words is None or words in found[0]
    assert all(("static_graph=True" in text) == bool(unused) for text in found)
    alone = simulator.warnings(job, make_config((A, 1, 16)))
    assert not any("find_unused_parameters" in text for text in alone)


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({"source": "srifty profile on CPU (AMD EPYC)"}, True),
        ({"source": "srifty profile on CPU (AMD EPYC)", "estimated": True}, False),
        ({"source": "srifty profile on Tesla T4"}, False),
    ],
)
def test_a_cpu_that_poses_as_a_gpu_is_said(change, warned):
    simulator = Simulator({"A": make_latency()}, LinearAllreduce())
    sentences = simulator.assumptions(make_job(replace(make_profile("A"), **change)), [A])
    assert any("A was measured on a CPU" in text for text in sentences) == warned


def test_a_row_is_predicted_alike_alone_and_among_thousands():
    table = random_table(3, 1100)
    job = replace(FEW, sync=GradientSync(bucket_bytes=4_000_000))
    together = SIMULATOR.predict(job, table)
    for row in (0, 1, 500, 1023, 1024, 1099):
        alone = SIMULATOR.predict(job, table.take(slice(row, row + 1)))
        for name in ("mean_s", "step_std_s", "gpu_std_s", "model_std_s", "exchange_s"):
            assert getattr(together, name)[row] == pytest.approx(getattr(alone, name)[0], rel=1e-12)


def test_no_configurations_make_an_empty_table():
    assert len(SIMULATOR.predict(FEW, ConfigTable.from_configs([]))) == 0


# --- by hand --------------------------------------------------------------------------------------

# One sample per GPU: type A computes 0.1 s forward, 0.5 s backward; type B 0.2 and 0.3.
HAND_LATENCY = {
    "A": make_latency("A", (0.1, 0.0), (0.5, 0.0)),
    "B": make_latency("B", (0.2, 0.0), (0.3, 0.0)),
}
A, B = make_offer(make_type("a1.x", "A")), make_offer(make_type("b1.x", "B"))
# One message of 1 MB, ready at the end of the backward pass, that takes 0.05 + 0.05 s.
HAND_JOB = make_job(make_profile("A", [(1_000_000, 1.0)]))
HAND_NETWORK = LinearAllreduce(Link(0.05, 20e6))


def test_sums_by_hand():
    # C = max(0.6, 0.5) = 0.6; the message is ready at 0.6 and takes 0.1.
    row = forecast(
        Simulator(HAND_LATENCY, HAND_NETWORK), HAND_JOB, make_config((A, 1, 1), (B, 1, 1))
    )
    assert row.mean_s == pytest.approx(0.7, rel=1e-12)
    assert row.exposed_exchange_s == pytest.approx(0.1, rel=1e-12)
    assert row.exchange_s == pytest.approx(0.6, rel=1e-12)  # backward 0.5, then 0.1
    assert row.forward_s == pytest.approx(0.1, rel=1e-12)
    assert row.backward_s == pytest.approx(0.5, rel=1e-12)


def test_the_paper_s_law_by_hand():
    # max f + max(max b, t_pe) = 0.2 + max(0.5, 0.5 + 0.1) = 0.8.
    simulator = Simulator(HAND_LATENCY, HAND_NETWORK, law=IterationLaw.PAPER)
    config = make_config((A, 1, 1), (B, 1, 1))
    assert forecast(simulator, HAND_JOB, config).mean_s == pytest.approx(0.8, rel=1e-12)
    # Two messages, the first hidden: 0.1 s from u = 0.5; the second takes 0.05 + 0.025 s.
    # t_pe = max(0.25 + 0.1, 0.5) + 0.075 = 0.575.
    job = make_job(make_profile("A", [(1_000_000, 0.5), (500_000, 1.0)]), sync=PER_TENSOR)
    assert forecast(simulator, job, config).mean_s == pytest.approx(0.2 + 0.575, rel=1e-12)
    # Both hidden but for the optimizer: a last message of 0 s is not possible, so ready early.
    job = make_job(make_profile("A", [(1_000_000, 0.5)]), sync=PER_TENSOR)
    assert forecast(simulator, job, config).mean_s == pytest.approx(0.7, rel=1e-12)


def test_optimizer_and_slowest_type_of_network_by_hand():
    latency = {
        "A": replace(HAND_LATENCY["A"], optimizer_s=0.03),
        "B": replace(HAND_LATENCY["B"], optimizer_s=0.04),
    }
    network = LinearAllreduce(links={"a1.x": Link(0.05, 20e6), "b1.x": Link(0.2, 20e6)})
    row = forecast(Simulator(latency, network), HAND_JOB, make_config((A, 1, 1), (B, 1, 1)))
    assert row.optimizer_s == 0.04
    assert row.mean_s == pytest.approx(0.6 + 0.25 + 0.04, rel=1e-12)


@pytest.mark.parametrize("sync", [GradientSync(), PAPER_SYNC, replace(PER_TENSOR, slots=2)])
def test_one_worker_exchanges_nothing(sync):
    row = forecast(
        Simulator(HAND_LATENCY, HAND_NETWORK), replace(HAND_JOB, sync=sync), make_config((A, 1, 1))
    )
    assert row.mean_s == pytest.approx(0.6, rel=1e-12)
    assert row.exchange_s == row.exposed_exchange_s == row.allocation_std_s == 0.0


def test_without_known_gradients_nothing_is_exchanged():
    simulator = Simulator(HAND_LATENCY, HAND_NETWORK)
    job = make_job(make_profile("A", None))
    row = forecast(simulator, job, make_config((A, 8, 1)))
    assert row.mean_s == pytest.approx(0.6, rel=1e-12)
    assert any("exchange is left out" in text for text in simulator.assumptions(job, [A]))


def test_only_the_last_pass_overlaps_the_exchange():
    # 12 samples in 3 passes of 4: f = 0.014, b = 0.028. Two passes send nothing.
    simulator = Simulator({"A": make_latency()}, LinearAllreduce(Link(0.01, 1e9)))
    job = make_job(make_profile("A", [(10_000_000, 0.25), (1_000_000, 1.0)]), sync=PER_TENSOR)
    row = forecast(simulator, job, make_config((A, 2, 12, 3)))
    before_s = 2 * 0.042
    first_s = before_s + 0.014 + 0.25 * 0.028 + 0.02
    end_s = max(first_s, before_s + 0.042) + 0.011
    assert row.mean_s == pytest.approx(end_s, rel=1e-12)
    assert row.forward_s == pytest.approx(3 * 0.014, rel=1e-12)
    assert row.backward_s == pytest.approx(3 * 0.028, rel=1e-12)
    assert row.exchange_s == pytest.approx(0.028 + 0.011, rel=1e-12)


def test_uneven_passes_put_the_smaller_one_last():
    # 11 samples in 3 passes: 4, 4, 3.
    simulator = Simulator({"A": make_latency()}, LinearAllreduce(Link(0.01, 1e9)))
    row = forecast(simulator, make_job(make_profile("A", [(1, 1.0)])), make_config((A, 2, 11, 3)))
    assert row.mean_s == pytest.approx(2 * 0.042 + 0.013 + 0.026 + 0.01 + 1e-9, rel=1e-12)


def test_a_remainder_makes_the_larger_share_decide():
    # 37 samples on 4 GPUs: 10, 9, 9, 9; the worker with 10 is the slowest.
    offer = make_offer(make_type("q1.x", "A", gpus=4))
    simulator = Simulator({"A": make_latency()}, LinearAllreduce())
    groups = worker_groups(
        simulator.latency, ConfigTable.from_configs([make_config((offer, 2, 37))])
    )
    assert groups.workers.tolist() == [[6.0, 2.0]]
    row = forecast(simulator, make_job(make_profile("A", None)), make_config((offer, 2, 37)))
    assert row.mean_s == pytest.approx(0.010 + 0.010 + 0.020 + 0.020, rel=1e-12)


def test_a_slow_loader_sets_the_pace():
    # 8 vCPUs × 2 samples/s: 64 samples take 4 s.
    simulator = Simulator({"A": make_latency(optimizer_s=0.001)}, LinearAllreduce())
    job = make_job(make_profile("A", input_samples_per_s_per_vcpu=2.0))
    row = forecast(simulator, job, make_config((A, 2, 64)))
    assert row.input_s == row.mean_s == pytest.approx(4.0, rel=1e-12)
    assert row.is_input_bound
    parts = row.forward_s + row.backward_s + row.exposed_exchange_s + row.optimizer_s
    assert parts < row.mean_s
    fast = make_job(make_profile("A", input_samples_per_s_per_vcpu=1000.0))
    assert not forecast(simulator, fast, make_config((A, 2, 64))).is_input_bound


def test_spreads_by_hand():
    network = replace(HAND_NETWORK, allocation_fraction=0.1, model_fraction=0.3)
    latency = {"A": make_latency("A", (0.1, 0), (0.5, 0), 0.02, 0.03, 0.04, 0.05)}
    # Bound by computation: the message is ready at u = 0.5 and done before the backward pass ends.
    job = make_job(make_profile("A", [(1_000_000, 0.5)]))
    one = forecast(Simulator(latency, network), job, make_config((A, 2, 1)))
    # The slower of two equal normals: m + s/√π, spread s √(1 − 1/π), s = 5 % of 0.6 s.
    compute_s = 0.6 + 0.03 / math.sqrt(math.pi)
    spread_s = 0.03 * math.sqrt(1 - 1 / math.pi)
    assert one.mean_s == pytest.approx(compute_s + 0.02, rel=3e-4)
    assert one.exposed_exchange_s == one.allocation_std_s == 0
    assert one.step_std_s == pytest.approx(0.6 * spread_s, rel=0.01)
    assert one.gpu_std_s == pytest.approx(0.8 * spread_s, rel=0.01)
    assert one.model_std_s == pytest.approx(0.05 * (compute_s + 0.02), rel=1e-3)
    # Bound by the exchange, which starts at 0.1 + 0.1 · 0.5 on the slower worker and takes 2 s:
    # computation counts up to there, the network from there.
    job = make_job(make_profile("A", [(39_000_000, 0.1)]))
    two = forecast(Simulator(latency, network), job, make_config((A, 2, 1)))
    start_s = 0.15 * (1 + 0.05 / math.sqrt(math.pi))
    assert two.mean_s == pytest.approx(start_s + 2.0 + 0.02, rel=3e-4)
    assert two.allocation_std_s == pytest.approx(0.1 * 2.0, rel=1e-6)
    share = start_s / compute_s
    assert two.step_std_s == pytest.approx(0.6 * spread_s * share, rel=0.01)
    assert two.model_std_s == pytest.approx(
        math.hypot(0.05 * (start_s + 0.02), 0.3 * 2.0), rel=1e-3
    )


def test_gradients_that_are_all_ready_at_once_need_no_interpolation():
    job = make_job(make_profile("A", [(1000, 1.0)] * (MANY_TENSORS)), sync=PER_TENSOR)
    simulator = Simulator(HAND_LATENCY, LinearAllreduce(Link(0.001, 1e9)))
    row = forecast(simulator, job, make_config((A, 2, 1)))
    assert row.mean_s == pytest.approx(0.6 + (MANY_TENSORS) * (0.001 + 1e-6), rel=1e-12)


def test_a_gpu_without_a_latency_model_is_named():
    simulator = Simulator({"A": make_latency()}, LinearAllreduce())
    with pytest.raises(ModelError, match=r"no latency model for B \(b1\.x\); there are: A"):
        forecast(simulator, HAND_JOB, make_config((A, 1, 1), (B, 1, 1)))


# --- drawing instead of integrating ---------------------------------------------------------------


@pytest.mark.parametrize("law", IterationLaw)
@pytest.mark.parametrize("sync", [GradientSync(bucket_bytes=4_000_000), PAPER_SYNC])
def test_drawn_stragglers_come_close_to_the_integral(law, sync):
    job = replace(FEW, sync=sync)
    table = random_table(5, 20)
    integral = replace(SIMULATOR, law=law).predict(job, table)
    drawn = replace(SIMULATOR, law=law, noise=Noise.SAMPLED, draws=20_000).predict(job, table)
    assert drawn.mean_s == pytest.approx(integral.mean_s, rel=2e-3)
    assert drawn.step_std_s == pytest.approx(integral.step_std_s, rel=0.05, abs=1e-5)


def test_draws_repeat_themselves_for_one_seed():
    simulator = replace(SIMULATOR, noise=Noise.SAMPLED, draws=50)
    table = random_table(5, 4)
    first, second = (simulator.predict(FEW, table).mean_s for _ in range(2))
    assert (first == second).all()
    other = replace(simulator, seed=1).predict(FEW, table).mean_s
    assert (first != other).any()


# --- what must hold for any configuration ---------------------------------------------------------

SYNCS = [
    GradientSync(bucket_bytes=4_000_000),
    PER_TENSOR,
    PAPER_SYNC,
    replace(PER_TENSOR, slots=2),
    GradientSync(bucket_bytes=4_000_000, slots=None),
]
# The quadrature's error, as a fraction of the mean (see stragglers.py).
QUADRATURE = 3e-4

fraction = st.floats(0.0, 0.1)
groups = st.lists(
    st.tuples(st.sampled_from(OFFERS), st.integers(1, 8), st.integers(8, 64), st.integers(1, 2)),
    min_size=1,
    max_size=3,
)
configs = groups.map(
    lambda rows: make_config(*((o, c, s * o.instance_type.gpus // 2, a) for o, c, s, a in rows))
)
schedules = st.lists(
    st.tuples(st.integers(1000, 20_000_000), st.floats(0, 1)), min_size=1, max_size=8
).map(
    lambda rows: [
        (size, at) for (size, _), at in zip(rows, sorted(u for _, u in rows), strict=True)
    ]
)


def with_spread(step, spatial):
    return {
        gpu: replace(model, step_std_fraction=step, spatial_std_fraction=spatial)
        for gpu, model in LATENCY.items()
    }


@settings(deadline=None, max_examples=80)
@given(configs, schedules, st.sampled_from(SYNCS), st.sampled_from(list(IterationLaw)), fraction)
def test_the_parts_add_up(config, schedule, sync, law, step):
    simulator = replace(SIMULATOR, latency=with_spread(step, 0.01), law=law)
    job = make_job(make_profile("A", schedule), sync=sync)
    row = forecast(simulator, job, config)
    parts = row.forward_s + row.backward_s + row.exposed_exchange_s + row.optimizer_s
    assert parts == pytest.approx(row.mean_s, rel=1e-12)
    assert row.exposed_exchange_s >= 0
    assert row.exchange_s >= row.exposed_exchange_s - 1e-12 * row.mean_s
    for value in (row.step_std_s, row.gpu_std_s, row.model_std_s, row.allocation_std_s):
        assert value >= 0
        assert math.isfinite(value)
    if config.world_size == 1:
        assert row.exchange_s == 0
    elif law is IterationLaw.SUMS:
        # No sooner than the last gradient's transfer by itself, nor than the line allows.
        slowest_s = max(
            float(
                SIMULATOR.allreduce.time_s(
                    kind, *np.array([[config.world_size], [1]]), np.array([1.0 * schedule[-1][0]])
                )[0, 0]
            )
            for kind in {group.offer.instance_type for group in config.groups}
        )
        assert row.mean_s > slowest_s


@settings(deadline=None, max_examples=60)
@given(configs, schedules, st.sampled_from(SYNCS[:2]), fraction, fraction)
def test_more_spread_never_shortens_the_mean(config, schedule, sync, one, two):
    # E[max] of independent normals grows with each spread (Jensen); one slot is monotone in r.
    job = make_job(make_profile("A", schedule), sync=sync)
    means = [
        forecast(replace(SIMULATOR, latency=with_spread(step, 0.0)), job, config).mean_s
        for step in sorted((one, two))
    ]
    assert means[0] <= means[1] * (1 + QUADRATURE)


@settings(deadline=None, max_examples=60)
@given(configs, schedules, st.sampled_from(SYNCS[:2]), st.floats(1, 10), st.floats(1, 10))
def test_a_slower_allreduce_never_shortens_the_mean(config, schedule, sync, more_alpha, less_beta):
    job = make_job(make_profile("A", schedule), sync=sync)
    slower = {
        name: Link(link.alpha_s * more_alpha, link.beta / less_beta, link.per_rank_s)
        for name, link in LINKS.items()
    }
    before = forecast(SIMULATOR, job, config)
    after = forecast(replace(SIMULATOR, allreduce=LinearAllreduce(links=slower)), job, config)
    assert after.mean_s >= before.mean_s * (1 - 1e-12)
    assert after.forward_s == before.forward_s


@settings(deadline=None, max_examples=60)
@given(configs, schedules, st.sampled_from(SYNCS[:2]), st.floats(0.001, 0.1), st.integers(0, 2))
def test_another_vm_at_the_same_local_batch_never_shortens_the_mean(
    config, schedule, sync, step, which
):
    # One more worker to wait for, and an allreduce that does not get faster with more ranks.
    job = make_job(make_profile("A", schedule), sync=sync)
    simulator = replace(SIMULATOR, latency=with_spread(step, 0.0))
    index = which % len(config.groups)
    more = replace(
        config,
        groups=tuple(
            replace(group, count=group.count + (position == index))
            for position, group in enumerate(config.groups)
        ),
    )
    before, after = (forecast(simulator, job, c).mean_s for c in (config, more))
    assert after >= before * (1 - QUADRATURE)


@settings(deadline=None, max_examples=60)
@given(configs, schedules, st.sampled_from(SYNCS), fraction, st.floats(0.1, 10))
def test_twice_as_slow_everywhere_takes_twice_as_long(config, schedule, sync, step, factor):
    job = make_job(make_profile("A", schedule), sync=sync)
    scaled_latency = {
        gpu: replace(
            model,
            forward=model.forward.scaled(factor),
            backward=model.backward.scaled(factor),
            optimizer_s=model.optimizer_s * factor,
        )
        for gpu, model in with_spread(step, 0.0).items()
    }
    scaled_links = {
        name: Link(link.alpha_s * factor, link.beta / factor, link.per_rank_s * factor)
        for name, link in LINKS.items()
    }
    one = forecast(replace(SIMULATOR, latency=with_spread(step, 0.0)), job, config).mean_s
    other = forecast(Simulator(scaled_latency, LinearAllreduce(links=scaled_links)), job, config)
    assert other.mean_s == pytest.approx(factor * one, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(configs, schedules, st.sampled_from(SYNCS), st.floats(0, 0.1))
def test_the_order_of_the_groups_does_not_matter(config, schedule, sync, step):
    job = make_job(make_profile("A", schedule), sync=sync)
    simulator = replace(SIMULATOR, latency=with_spread(step, 0.0))
    turned = replace(config, groups=config.groups[::-1])
    one, other = (forecast(simulator, job, c).mean_s for c in (config, turned))
    assert one == pytest.approx(other, rel=1e-12)


def test_the_paper_s_law_is_never_the_shorter_one():
    # A maximum of sums is at most the sum of the maxima, for every transfer's ready time.
    job = replace(FEW, sync=GradientSync(bucket_bytes=4_000_000))
    table = random_table(8, 200)
    sums = SIMULATOR.predict(job, table).mean_s
    paper = replace(SIMULATOR, law=IterationLaw.PAPER).predict(job, table).mean_s
    assert (paper >= sums * (1 - QUADRATURE)).all()
    assert (paper > sums * 1.005).any()


def test_assumptions_are_sentences_about_what_is_used():
    simulator = Simulator(LATENCY, LinearAllreduce(links=LINKS))
    sentences = simulator.assumptions(FEW, OFFERS[:2])
    assert any("a1.x" in text for text in sentences)
    assert any("slowest type" in text for text in sentences)
    assert not any("c1.x" in text for text in sentences)
    assert any("Input is assumed free" in text for text in sentences)
    assert all(text.endswith((".", ").")) for text in sentences)


def test_the_sharing_rule_is_taken_from_the_job():
    # 12 tensors on a line where all share: one slot and the paper's rule must differ.
    table = random_table(9, 10)
    one = SIMULATOR.predict(replace(FEW, sync=PER_TENSOR), table).mean_s
    paper = SIMULATOR.predict(
        replace(FEW, sync=replace(PER_TENSOR, sharing=Sharing.PAPER)), table
    ).mean_s
    assert not np.allclose(one, paper, rtol=1e-6)
