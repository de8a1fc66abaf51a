import os
import socket
import subprocess
import sys
import textwrap

import pytest

from srifty.cloud.export import ExportFormat, export
from srifty.core.settings import RunSettings

from .plans import COMMAND, deployment, group
from .scripts import VARIABLES, option, run_script


@pytest.mark.parametrize(("node", "workers"), [(0, "3"), (1, "2"), (2, "2"), (3, "1")])
def test_each_vm_starts_its_workers_with_all_shares(tmp_path, node, workers):
    text = export(deployment(), ExportFormat.TORCHRUN).text
    done, (told,) = run_script(tmp_path, text, str(node), MASTER_ADDR="10.0.0.1", HF_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    assert option(told, "--node-rank") == str(node)
    assert option(told, "--nproc-per-node") == workers
    assert option(told, "--nnodes") == "4"
    assert option(told, "--master-addr") == "10.0.0.1"
    assert tuple(told["arguments"][-len(COMMAND) :]) == COMMAND
    assert told["variables"] == VARIABLES | {"SRIFTY_SHARES": "4,4,3,2,1,2,1,6/3"}


@pytest.mark.parametrize(
    ("arguments", "variables", "word"),
    [
        ((), {"MASTER_ADDR": "x"}, "the number of this VM"),
        (("4",), {"MASTER_ADDR": "x"}, "there are 4 VMs, 0 to 3, not 4"),
        (("-1",), {"MASTER_ADDR": "x"}, "no number: -1"),
        (("a[$(id)]",), {"MASTER_ADDR": "x"}, "no number"),
        (("0",), {}, "the address of VM 0"),
        (("0",), {"MASTER_ADDR": "x"}, "HF_TOKEN: is a secret of this job"),
    ],
)
def test_what_is_missing_or_wrong_is_said(tmp_path, arguments, variables, word):
    text = export(deployment(), ExportFormat.TORCHRUN).text
    done, told = run_script(tmp_path, text, *arguments, **variables)
    assert done.returncode != 0
    assert word in done.stderr
    assert told == []


def test_real_workers_have_their_places_and_shares(tmp_path):
    """Two VMs with 2 and 1 workers, played by this machine."""
    pytest.importorskip("torch")
    script = tmp_path / "report.py"
    script.write_text(
        textwrap.dedent("""\
            import os, pathlib
            rank = int(os.environ["RANK"])
            share = os.environ["SRIFTY_SHARES"].split(",")[rank]
            told = f"{os.environ['LOCAL_RANK']} of {os.environ['WORLD_SIZE']}: {share}"
            pathlib.Path(__file__).with_name(f"worker-{rank}").write_text(told)
        """)
    )
    two = deployment(
        group(local_batch=(5, 3)), group(local_batch=(2,)), command=(str(script),),
        settings=RunSettings(),
    )  # fmt: skip
    torchrun = f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n'
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "torchrun").write_text(torchrun)
    (tmp_path / "bin" / "torchrun").chmod(0o755)
    path = tmp_path / "train.sh"
    path.write_text(export(two, ExportFormat.TORCHRUN).text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    vms = [
        subprocess.Popen(
            ["bash", str(path), str(node)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(2)
    ]
    outputs = [vm.communicate(timeout=120) for vm in vms]
    assert [vm.returncode for vm in vms] == [0, 0], outputs
    told = [(tmp_path / f"worker-{rank}").read_text() for rank in range(3)]
    assert told == ["0 of 3: 5", "1 of 3: 3", "0 of 3: 2"]
