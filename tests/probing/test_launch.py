import pytest

from srifty.errors import InputError
from srifty.probing.launch import Launch, launch_from, library_settings

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def test_torchrun_says_where_a_process_stands():
    launch = launch_from(TORCHRUN)
    assert launch == Launch(rank=5, local_rank=1, world_size=8, local_world_size=4, vms=2)


@pytest.mark.parametrize("name", TORCHRUN)
def test_without_torchrun_the_error_says_what_to_type(name):
    environment = {key: value for key, value in TORCHRUN.items() if key != name}
    with pytest.raises(InputError, match="torchrun --nproc-per-node GPUS -m srifty probe"):
        launch_from(environment)


def test_one_process_is_refused():
    with pytest.raises(InputError, match="one process alone"):
        launch_from(TORCHRUN | {"WORLD_SIZE": "1"})


def test_words_for_numbers_are_refused():
    with pytest.raises(InputError, match="WORLD_SIZE='many'"):
        launch_from(TORCHRUN | {"WORLD_SIZE": "many"})


def test_only_the_settings_of_the_library_are_taken():
    environment = TORCHRUN | {
        "NCCL_PROTO": "Simple",
        "NCCL_ALGO": " Ring\n",
        "NCCL_DEBUG": "INFO",
        "NCCL_TOPO_DUMP_FILE": "topo.xml",
        "NCCL_COMM_ID": "127.0.0.1:1",
        "GLOO_SOCKET_IFNAME": "lo",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "MY_NCCL_TOKEN": "hidden",
    }
    assert library_settings(environment, "nccl") == "NCCL_ALGO=Ring NCCL_PROTO=Simple"
    assert library_settings(environment, "gloo") == "GLOO_SOCKET_IFNAME=lo"
    assert library_settings({"NCCL_NET": "a\tb\x00"}, "nccl") == "NCCL_NET=a?b?"
