import pytest
import yaml

from srifty.cloud.export import ExportFormat, export
from srifty.core import Location, Market
from srifty.core.settings import RunSettings
from srifty.errors import InputError

from .plans import COMMAND, deployment, group
from .scripts import option, run_script

# The keys of a task and of its resources that SkyPilot documents, as far as we use them.
_TASK = {"name", "workdir", "num_nodes", "resources", "envs", "secrets", "setup", "run"}
_RESOURCES = {
    "cloud", "region", "zone", "instance_type", "accelerators", "use_spot", "image_id", "labels",
}  # fmt: skip
ONE_SHAPE = (group(count=2), group(count=1, local_batch=(5, 5)))


def task(one):
    document = yaml.safe_load(export(one, ExportFormat.SKYPILOT).text)
    assert document.keys() <= _TASK
    assert document["resources"].keys() <= _RESOURCES
    assert all(isinstance(value, str) for value in document["envs"].values())
    return document


def test_a_plan_of_one_shape_is_a_task():
    document = task(deployment(*ONE_SHAPE))
    assert document["num_nodes"] == 3
    assert document["resources"] == {
        "cloud": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "p3.8xlarge",
        "use_spot": True,
        "labels": {"team": "vision"},
    }
    assert document["secrets"] == {"HF_TOKEN": None}
    assert document["setup"] == "pip install -r requirements.txt\n"
    assert export(deployment(*ONE_SHAPE), "skypilot").start == (
        "sky launch -c toy-job task.yaml --secret HF_TOKEN",
    )


@pytest.mark.parametrize(("node", "workers"), [(0, "3"), (1, "3"), (2, "2")])
def test_nodes_start_their_workers(tmp_path, node, workers):
    document = task(deployment(*ONE_SHAPE))
    done, (told,) = run_script(
        tmp_path,
        document["run"],
        SKYPILOT_NODE_RANK=str(node),
        SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2\n10.0.0.3\n",
        **document["envs"],
    )
    assert done.returncode == 0, done.stderr
    assert option(told, "--node-rank") == str(node)
    assert option(told, "--nproc-per-node") == workers
    assert option(told, "--master-addr") == "10.0.0.1"
    assert tuple(told["arguments"][-len(COMMAND) :]) == COMMAND
    assert told["variables"]["SRIFTY_SHARES"] == "4,4,3,4,4,3,5,5"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            (group(), group("g3.8xlarge", gpus=4)),
            "has one shape, and the plan has several: p3.8xla",
        ),
        ((group(), group(market=Market.ON_DEMAND)), r"p3.8xlarge \(on-demand, us-east-1a\)"),
        ((group(), group(location=Location("us-east-1", "us-east-1b"))), "us-east-1b"),
        ((group("lab", market=Market.OWNED, cloud="own"),), "cannot rent lab"),
        ((group(cloud=None),), "does not say which cloud"),
    ],
)
def test_what_skypilot_cannot_do_is_refused_with_the_reason(groups, words):
    with pytest.raises(InputError, match=words):
        export(deployment(*groups), ExportFormat.SKYPILOT)


def test_ids_of_zones_are_left_to_skypilot_unless_the_account_names_them():
    there = group(location=Location("us-east-1", "use1-az5"))
    one = deployment(there)
    assert "zone" not in task(one)["resources"]
    assert any("--zone use1-az5=NAME" in note for note in export(one, "skypilot").notes)
    named = deployment(there, zone_names=(("use1-az5", "us-east-1c"),))
    assert task(named)["resources"]["zone"] == "us-east-1c"


@pytest.mark.parametrize(
    ("image", "expected"),
    [("ami-1", "ami-1"), ("projects/a/b", "projects/a/b"), ("lab/train:3", "docker:lab/train:3")],
)
def test_images(image, expected):
    one = deployment(group(), settings=RunSettings(image=image))
    assert task(one)["resources"]["image_id"] == expected


def test_attached_gpus_are_named():
    one = deployment(group("n1-standard-8+1xT4", cloud="gcp", gpu="T4", gpus=3))
    resources = task(one)["resources"]
    assert (resources["instance_type"], resources["accelerators"]) == ("n1-standard-8", "T4:3")
