"""What the lines around a table say about software, network and GPUs."""

import pytest

from srifty.allreduce.logs.evidence import Facts, read_rank, version_of_code


def facts(*lines: str) -> Facts:
    said = Facts()
    for line in lines:
        said.note(line)
    return said


@pytest.mark.parametrize(
    ("code", "version"), [(2408, "2.4.8"), (2804, "2.8.4"), (21003, "2.10.3"), (22907, "2.29.7")]
)
def test_version_codes(code, version):
    assert version_of_code(code) == version


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NCCL version 2.8.3+cuda11.2", "2.8.3"),
        ("vm-0:1:1 [0] NCCL INFO NCCL version 2.26.2+cuda.", "2.26.2"),
        ("RCCL version : 2.22.3-develop:f5b15f2", "2.22.3"),
        ("# nccl-tests version 2.17.6 nccl-headers=22501 nccl-library=22907", "2.29.7"),
    ],
)
def test_versions(line, version):
    assert facts(line).versions == [version]


@pytest.mark.parametrize(
    ("lines", "transport"),
    [
        (["NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)"], "efa"),
        (["NCCL INFO Using network AWS Libfabric"], "efa"),
        (
            ["NCCL INFO NET/OFI Selected provider is cxi", "NCCL INFO Using network OFI"],
            "slingshot",
        ),
        (["NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"], ""),
        (["NCCL INFO Using network Socket"], "tcp-socket"),
        (["NCCL INFO NET/IB : Using [0]mlx5_5:1/RoCE [RO]; OOB", "Using network IB"], "roce"),
        (["NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB", "NCCL INFO Using network IB"], "ib"),
        (["NCCL INFO Using network FasTrak"], "fastrak"),
        ([], ""),
    ],
)
def test_transports(lines, transport):
    assert facts(*lines).transport(2) == transport


def test_one_vm_uses_nvlink_where_that_is_sure():
    said = facts("NCCL INFO Using network AWS Libfabric")
    assert said.transport(1) == ""
    said.gpus["Tesla V100-SXM2-16GB"] += 8
    assert said.transport(1) == "nvlink"
    assert facts("NCCL INFO Connected NVLS tree").transport(1) == "nvlink"


def test_settings():
    said = facts(
        "vm-0:1:2 [0] NCCL INFO NCCL_TREE_THRESHOLD set by environment to 0.",
        "mpirun -np 16 -x NCCL_ALGO=Ring -x NCCL_DEBUG=INFO -x NCCL_IB_HCA=mlx5_0,mlx5_1 ./a",
        "export NCCL_API_KEY=hidden",
        "You may try NCCL_PROTO=LL some day",
    )
    assert said.settings == {
        "NCCL_TREE_THRESHOLD": "0",
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_HCA": "mlx5_0,mlx5_1",
    }
    assert said.tuning() == "NCCL_ALGO=Ring NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_TREE_THRESHOLD=0"


@pytest.mark.parametrize(
    "line",
    [
        "#   Rank  3 Pid   1002 on     node-b device  1 [0x1a] Tesla T4",
        "#  Rank  3 Group  0 Pid 1002 on node-b device  1 [0000:00:04] Tesla T4",
        "#   Rank  3 on     node-b device  1 [0x05] Tesla T4  ",
        "[1,0]: #  Rank  3 Group  0 Pid 1002 on node-b device  1 [0002:00:00.0] Tesla T4",
    ],
)
def test_rank_lines(line):
    rank = read_rank(9, line)
    assert (rank.line, rank.rank, rank.host, rank.device, rank.gpu) == (
        9,
        3,
        "node-b",
        1,
        "Tesla T4",
    )


def test_device_lines_of_the_first_nccl():
    rank = read_rank(2, "#   Device  2 ->  5 [0x06] GeForce GTX TITAN X\t\t")
    assert (rank.rank, rank.host, rank.device, rank.gpu) == (2, "", 5, "GeForce GTX TITAN X")


@pytest.mark.parametrize("line", ["NCCL INFO rank 3 nranks 16", "Using devices", "Rank on"])
def test_no_rank_lines(line):
    assert read_rank(1, line) is None
