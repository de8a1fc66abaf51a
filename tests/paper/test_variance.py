"""Spreads of repeated measurements."""

import numpy as np
import pytest
from benchmarks.paper.variance import Spread, allreduce_spreads, gpu_spreads


def test_ratios_by_hand():
    spread = Spread("made", np.array([1.0, 2.0, 1.5, 1.5]))
    assert spread.ratio == 2.0
    assert spread.central_ratio == pytest.approx(1.925 / 1.075)
    assert spread.deviation == pytest.approx(np.sqrt(0.5 / 3) / 1.5)


def write(path, head, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *rows]) + "\n")


@pytest.fixture
def data(tmp_path):
    write(
        tmp_path / "nccl-tests" / "allreduce.csv",
        "instance_type,nodes,inplace,size_bytes,time_us",
        *(f"n1-standard-4+1xV100,8,0,1024,{us}" for us in (100, 110, 120, 180)),
        "n1-standard-4+1xV100,8,1,1024,999",
        "other,8,0,1024,999",
    )
    write(
        tmp_path / "other-allreduce" / "osu_allreduce_cloud.csv",
        "cloud,env,kind,instance_type,nodes,variant,run,size_bytes,avg_latency_us",
    )
    write(
        tmp_path / "variance" / "aws_p3dn_2019_busbw_runs.csv",
        "network,nodes,busbw_256MiB_gbit_s",
        *(f"efa,2,{busbw}" for busbw in (50, 100, 100, 100)),
        "undef,2,1",
    )
    write(
        tmp_path / "variance" / "gpu_variability.csv",
        "dataset,gpu_idx,workload,perf",
        *(f"lab,{gpu},resnet,{ms}" for gpu in range(4) for ms in (10 + gpu, 11 + gpu, 99)),
        *(f"lab-pagerank,{gpu},pagerank,1" for gpu in range(4)),
    )
    write(
        tmp_path / "lambda_gpu_benchmarks" / "resnet50_amp_h100_per_iteration.csv",
        "vm,gpus,iter_ms",
    )
    return tmp_path


def test_repeats_of_one_allreduce(data):
    found = allreduce_spreads(data)
    (small,) = found[1024]
    assert "8 VMs" in small.name
    assert small.ratio == pytest.approx(1.8)
    (large,) = found[256 << 20]
    assert large.ratio == 2.0


def test_gpus_count_by_their_median(data):
    (lab,) = gpu_spreads(data)
    assert lab.values.tolist() == [11, 12, 13, 14]
