import re

import pytest
import yaml

from srifty.cloud.export import ExportFormat, export
from srifty.core import Location, Market
from srifty.core.settings import RunSettings

from .plans import COMMAND, deployment, group
from .scripts import option, run_script

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_KEY = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

# What the objects may hold (JobSet v1alpha2, batch/v1, core/v1), as far as we use it.
_SET = {"network", "replicatedJobs", "failurePolicy"}
_JOB = {"completionMode", "completions", "parallelism", "backoffLimit", "template"}
_POD = {"restartPolicy", "affinity", "tolerations", "containers", "volumes"}
_CONTAINER = {"name", "image", "command", "env", "resources", "volumeMounts"}


def manifest(one):
    return yaml.safe_load(export(one, ExportFormat.KUBERNETES).text)


def jobs(one):
    """The job and the pod specification of each group, once all objects are well formed."""
    document = manifest(one)
    assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert document["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    assert document["kind"] == "JobSet"
    metadata, spec = document["metadata"], document["spec"]
    assert _LABEL.fullmatch(metadata["name"])
    for key, value in (metadata["labels"] | metadata["annotations"]).items():
        assert _KEY.fullmatch(key)
        assert isinstance(value, str)
    assert spec.keys() <= _SET
    found = []
    for each in spec["replicatedJobs"]:
        assert each.keys() == {"name", "replicas", "template"}
        assert len(f"{metadata['name']}-{each['name']}-0-99999") <= 63
        job = each["template"]["spec"]
        assert job.keys() == _JOB
        assert job["completionMode"] == "Indexed"
        assert job["completions"] == job["parallelism"] >= 1
        pod = job["template"]["spec"]
        assert pod.keys() == _POD
        (container,) = pod["containers"]
        assert container.keys() == _CONTAINER
        assert all(isinstance(word, str) for word in container["command"])
        for entry in container["env"]:
            assert isinstance(entry.get("value", ""), str)
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        found.append((job, pod))
    return found


def labels(pod):
    """For each way to be a fitting node: what its labels must (and must not) be."""
    node = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        {(e["key"], e["operator"], *e["values"]) for e in term["matchExpressions"]}
        for term in node["nodeSelectorTerms"]
    ]


def test_one_indexed_job_for_each_group_with_a_pod_for_each_vm():
    found = jobs(deployment())
    assert [job["completions"] for job, _ in found] == [1, 2, 1]
    limits = [pod["containers"][0]["resources"]["limits"] for _, pod in found]
    assert [limit["nvidia.com/gpu"] for limit in limits] == [4, 2, 2]


def test_pods_start_their_workers_and_find_vm_0(tmp_path):
    nodes = []
    for place, (job, pod) in enumerate(jobs(deployment())):
        bash, flag, script = pod["containers"][0]["command"]
        assert (bash, flag) == ("bash", "-c")
        for index in range(job["completions"]):
            folder = tmp_path / f"{place}-{index}"
            folder.mkdir()
            done, (told,) = run_script(folder, script, JOB_COMPLETION_INDEX=str(index))
            assert done.returncode == 0, done.stderr
            assert option(told, "--master-addr") == "toy-job-g0-0-0.toy-job"
            assert tuple(told["arguments"][-len(COMMAND) :]) == COMMAND
            nodes.append((option(told, "--node-rank"), option(told, "--nproc-per-node")))
    assert nodes == [("0", "3"), ("1", "2"), ("2", "2"), ("3", "1")]


def test_variables_are_plain_and_secrets_come_from_an_object_of_the_users():
    one = deployment()
    env = {entry["name"]: entry for entry in jobs(one)[0][1]["containers"][0]["env"]}
    assert env["SRIFTY_SHARES"]["value"] == one.plan.shares
    assert env["GREETING"]["value"] == 'a "b" $c'
    reference = {"name": "toy-job-secrets", "key": "HF_TOKEN"}
    assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": reference}
    start = export(one, ExportFormat.KUBERNETES).start
    assert start[0] == (
        'kubectl create secret generic toy-job-secrets --from-literal=HF_TOKEN="$HF_TOKEN"'
    )


def test_pods_go_to_nodes_of_the_plan_alone():
    spot, _, on_demand = (pod for _, pod in jobs(deployment()))
    place = {
        ("node.kubernetes.io/instance-type", "In", "p3.8xlarge"),
        ("topology.kubernetes.io/zone", "In", "us-east-1a"),
    }
    assert labels(spot) == [
        place | {("karpenter.sh/capacity-type", "In", "spot")},
        place | {("eks.amazonaws.com/capacityType", "In", "SPOT")},
    ]
    (term,) = labels(on_demand)
    assert ("karpenter.sh/capacity-type", "NotIn", "spot") in term
    assert ("eks.amazonaws.com/capacityType", "NotIn", "SPOT") in term
    (alone,) = spot["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert alone["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"location": Location("us-east-1", "use1-az5")},
         ("topology.k8s.aws/zone-id", "In", "use1-az5")),
        ({"cloud": "gcp", "instance_type": "n1-standard-8+1xT4"},
         ("node.kubernetes.io/instance-type", "In", "n1-standard-8")),
        ({"cloud": "gcp"}, ("cloud.google.com/gke-spot", "In", "true")),
    ],
)  # fmt: skip
def test_labels_are_those_of_the_cloud(fields, label):
    ((_, pod),) = jobs(deployment(group(**fields)))
    assert label in labels(pod)[0]


def test_machines_of_the_users_own_are_chosen_by_their_gpus():
    ((_, pod),) = jobs(deployment(group("lab", market=Market.OWNED, location=Location(""))))
    assert "nodeAffinity" not in pod["affinity"]


def test_a_set_starts_again_where_there_is_a_checkpoint():
    assert manifest(deployment())["spec"]["failurePolicy"]["maxRestarts"] > 0
    without = deployment(settings=RunSettings())
    assert "failurePolicy" not in manifest(without)["spec"]
    assert any("run.checkpoint" in note for note in export(without, "kubernetes").notes)


def test_the_image_is_the_jobs_own_or_said():
    own = deployment(settings=RunSettings(image="lab/train:3"))
    assert jobs(own)[0][1]["containers"][0]["image"] == "lab/train:3"
    assert any("No image is named" in n for n in export(deployment(), "kubernetes").notes)
