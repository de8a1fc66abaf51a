import pytest

from srifty.cloud.export import ExportFormat, export

from .plans import COMMAND, deployment, group
from .scripts import VARIABLES, option, run_script

# Starts one task for each VM of a component, as srun does with --ntasks-per-node=1.
_SRUN = """\
#!/usr/bin/env bash
set -u
nodes=$NODES
while [[ "$1" == --* ]]; do
  case "$1" in --het-group=*) nodes=$(cut -d, -f$((${1#*=} + 1)) <<< "$NODES") ;; esac
  shift
done
for ((id = 0; id < nodes; id++)); do SLURM_NODEID=$id "$@" & pids+=($!); done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
"""
_SCONTROL = '#!/bin/sh\necho "${3%%,*}"\necho other\n'


def run(folder, one, nodes, **variables):
    return run_script(
        folder,
        export(one, ExportFormat.SBATCH).text,
        programs={"srun": _SRUN, "scontrol": _SCONTROL},
        NODES=nodes,
        SLURM_JOB_ID="7",
        SLURM_JOB_NODELIST="alone,x",
        SLURM_JOB_NODELIST_HET_GROUP_0="first,second",
        **variables,
    )


def directives(one):
    text = export(one, ExportFormat.SBATCH).text
    lines = text.splitlines()
    found = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    assert lines[1 : len(found) + 1] == [f"#SBATCH {line}" for line in found]  # before commands
    return found


def test_each_group_is_a_component_of_a_heterogeneous_job():
    found = directives(deployment())
    assert found[0] == "--job-name=toy-job"
    assert found.count("hetjob") == 2
    parts = " ".join(found).split(" hetjob ")
    for part, nodes, gpus, name in zip(
        parts, (1, 2, 1), (4, 2, 2), ("p3.8xlarge", "g3.8xlarge", "g3.8xlarge"), strict=True
    ):
        assert f"--nodes={nodes} " in part
        assert f"--gpus-per-node={gpus} " in part
        assert f"--constraint={name} " in part


def test_one_group_is_an_ordinary_job(tmp_path):
    one = deployment(group(count=2))
    assert "hetjob" not in directives(one)
    done, told = run(tmp_path, one, "2", HF_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    assert [option(each, "--node-rank") for each in told] == ["0", "1"]
    assert {option(each, "--master-addr") for each in told} == {"alone"}


def test_all_vms_of_all_groups_start_their_workers(tmp_path):
    done, told = run(tmp_path, deployment(), "1,2,1", HF_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    assert [option(each, "--node-rank") for each in told] == ["0", "1", "2", "3"]
    assert [option(each, "--nproc-per-node") for each in told] == ["3", "2", "2", "1"]
    assert {option(each, "--master-addr") for each in told} == {"first"}
    assert {option(each, "--master-port") for each in told} == {"20007"}
    for each in told:
        assert tuple(each["arguments"][-len(COMMAND) :]) == COMMAND
        assert each["variables"] == VARIABLES | {"SRIFTY_SHARES": "4,4,3,2,1,2,1,6/3"}


@pytest.mark.parametrize("code", [1, 3])
def test_a_worker_that_fails_fails_the_job(tmp_path, code):
    done, _ = run(tmp_path, deployment(), "1,2,1", HF_TOKEN="secret", TORCHRUN_EXIT=str(code))
    assert done.returncode == code


def test_a_secret_that_is_not_set_stops_the_job(tmp_path):
    done, told = run(tmp_path, deployment(), "1,2,1")
    assert done.returncode != 0
    assert "HF_TOKEN" in done.stderr
    assert told == []
