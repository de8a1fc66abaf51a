import numpy as np
import pytest
from benchmarks.testbed.variance import (
    STATED,
    Variation,
    allocate,
    log_normal_quantiles,
    relative,
    robust_log_sd,
    step_factors,
)
from benchmarks.testbed.variance_data import DATA, load_variation
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(0, 20))
def test_a_seed_gives_the_same_vms(seed, hosts):
    drawn = [allocate(STATED, hosts, np.random.default_rng(seed)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == hosts


def test_draws_are_the_measured_values():
    variation = Variation((1.0, 1.5), (0.1,), (0.5,), (0.0, 0.2), ("made up",) * 4)
    drawn = allocate(variation, 200, np.random.default_rng(0))
    assert {pace.compute_factor for pace in drawn} == {1.0, 1.5}
    assert {pace.compute_sd for pace in drawn} == {0.1}
    assert {pace.link_factor for pace in drawn} == {0.5}
    assert {pace.link_sd for pace in drawn} == {0.0, 0.2}


@settings(max_examples=30)
@given(st.floats(0, 0.3))
def test_steps_take_what_they_take_on_average(log_sd):
    factors = step_factors(log_sd, 20_000, np.random.default_rng(1))
    assert factors.mean() == pytest.approx(1, abs=0.02)
    assert np.log(factors).std() == pytest.approx(log_sd, rel=0.05, abs=1e-12)


def test_values_are_compared_within_their_group():
    assert relative([[1.0, 2.0, 4.0], [10.0]]) == (0.5, 1.0, 2.0, 1.0)


def test_a_hiccup_is_no_noise():
    draws = np.exp(0.05 * np.random.default_rng(2).standard_normal(2001))
    assert robust_log_sd(draws) == pytest.approx(0.05, rel=0.1)
    assert robust_log_sd([1.0, 1.0, 1.0, 50.0]) == 0


def test_quantiles_of_a_log_normal():
    values = np.array(log_normal_quantiles(0.2, median=3.0))
    assert np.median(values) == pytest.approx(3.0)
    assert np.log(values).std() == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (((), (0.1,), (1.0,), (0.1,)), "compute_between"),
        (((1.0,), (-0.1,), (1.0,), (0.1,)), "compute_within"),
        (((1.0,), (0.1,), (0.0,), (0.1,)), "link_between"),
        (((1.0,), (0.1,), (1.0,), ()), "link_within"),
    ],
)
def test_spreads_that_nothing_can_be_drawn_from(lists, message):
    with pytest.raises(ValueError, match=message):
        Variation(*lists, sources=())


def test_without_public_data_the_stated_spreads_are_drawn(tmp_path):
    assert load_variation(tmp_path / "absent") is STATED


GPUS = """\
dataset,gpu_idx,workload,rep,cabinet,perf
x-V100-resnet,0,resnet,0,,100
x-V100-resnet,0,resnet,1,,104
x-V100-resnet,0,resnet,2,,102
x-V100-resnet,1,resnet,0,,204
x-V100-resnet,2,resnet,0,,51
x-V100-pagerank,0,pagerank,0,,7
ls6-A100-resnet,0,resnet,,,9
"""
ITERATIONS = """\
system,gpus,iter_ms_p50,iter_ms_p5,iter_ms_p95
one,1,100,98.355,101.645
many,8,100,50,150
"""
PAIRS = """\
metric,cloud,env,kind,instance_type,nodes,variant,run,size_bytes,value
osu_bw_mb_s,aws,e,gpu,p,4,,0,4194304,50
osu_bw_mb_s,aws,e,gpu,p,4,,1,4194304,100
osu_bw_mb_s,aws,e,gpu,p,4,,2,4194304,110
osu_bw_mb_s,aws,e,gpu,p,4,,3,8192,1
osu_bw_mb_s,aws,e,cpu,p,4,,3,4194304,1
osu_bw_mb_s,azure,e,gpu,p,4,,3,4194304,1
osu_latency_us,aws,e,gpu,p,4,,3,4194304,1
"""
REPEATS = """\
cloud,env,kind,instance_type,nodes,variant,size_bytes,avg_latency_us
aws,e,gpu,p,4,,1048576,100
aws,e,gpu,p,4,,1048576,100
aws,e,gpu,p,4,,1048576,100
aws,e,gpu,p,4,,1048576,900
aws,e,gpu,p,8,,1048576,100
aws,e,cpu,p,4,,1048576,1
"""


def test_what_is_read_from_public_data(tmp_path):
    for path, text in {
        "variance/gpu_variability.csv": GPUS,
        "lambda_gpu_benchmarks/resnet50_iteration_time_summary.csv": ITERATIONS,
        "variance/osu_p2p_cloud.csv": PAIRS,
        "other-allreduce/osu_allreduce_cloud.csv": REPEATS,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    variation = load_variation(tmp_path)
    assert variation.compute_between == (1.0, 2.0, 0.5)
    assert variation.compute_within == pytest.approx((0.01,))
    assert variation.link_between == (0.5, 1.0, 1.1)
    assert variation.link_within == (0.0,)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data are not at hand")
def test_what_is_stated_resembles_what_was_measured():
    measured = load_variation()
    for name in ("compute_between", "link_between"):
        ours = np.std(np.log(getattr(STATED, name)))
        assert ours == pytest.approx(np.std(np.log(getattr(measured, name))), rel=0.3)
    for name in ("compute_within", "link_within"):
        ours, theirs = np.median(getattr(STATED, name)), np.median(getattr(measured, name))
        assert ours == pytest.approx(theirs, rel=0.4)
