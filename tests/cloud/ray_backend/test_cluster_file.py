import json
from importlib import resources

import pytest

from srifty.cloud.backend import LaunchRequest, VmRequest
from srifty.cloud.ray_backend.cluster_file import cluster_file, node_type
from srifty.core import Location, Market
from srifty.core.events import Pool
from srifty.core.settings import RunSettings
from srifty.errors import InputError

HERE = Location("us-east-1", "us-east-1a")
SPOT = Pool("g3.8xlarge", HERE, Market.SPOT)
ON_DEMAND = Pool("p3.8xlarge", HERE, Market.ON_DEMAND)


def request(*pools, **changes):
    vms = tuple(VmRequest(f"vm-{at}", pool, 2, 0.5) for at, pool in enumerate(pools))
    fields = {"settings": RunSettings(tags=(("team", "vision"),))} | changes
    return LaunchRequest("run-1", "me", vms, 3600.0, **fields)


def test_one_node_type_for_each_pool_and_none_without_an_agent():
    document = cluster_file(request(SPOT, ON_DEMAND, SPOT), "aws", None)
    types = document["available_node_types"]
    workers = {name: kind for name, kind in types.items() if name != "head"}
    assert {name: kind["max_workers"] for name, kind in workers.items()} == {
        "g3.8xlarge-spot-us-east-1a": 2,
        "p3.8xlarge-on-demand-us-east-1a": 1,
    }
    assert all(kind["min_workers"] == 0 for kind in workers.values())
    assert workers[node_type(SPOT)]["resources"] == {"GPU": 2, node_type(SPOT): 1}
    assert document["max_workers"] == 3
    assert document["idle_timeout_minutes"] == 1


def test_every_vm_has_the_tags_by_which_it_is_found_and_ends_for_good():
    types = cluster_file(request(SPOT, ON_DEMAND), "aws", None)["available_node_types"]
    for kind in types.values():
        node = kind["node_config"]
        assert [spec["ResourceType"] for spec in node["TagSpecifications"]] == [
            "instance",
            "volume",
        ]
        for tags in node["TagSpecifications"]:
            found = {tag["Key"]: tag["Value"] for tag in tags["Tags"]}
            assert found == {"team": "vision", "srifty-run": "run-1", "srifty-user": "me"}
        assert node["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert node["UserData"].startswith("#!/bin/sh\n")


def test_the_head_runs_the_autoscaler_that_tells_why_a_node_was_refused():
    document = cluster_file(request(SPOT), "aws", None)
    (start,) = [each for each in document["head_start_ray_commands"] if "--head" in each]
    assert "RAY_enable_autoscaler_v2=0 ray start --head" in start


def test_a_container_can_leave_the_signs_that_keep_its_vm_alive():
    settings = RunSettings(image="registry/train:1")
    docker = cluster_file(request(SPOT, settings=settings), "aws", None)["docker"]
    assert "--volume=/run/srifty:/run/srifty" in docker["run_options"]


def test_vms_of_google_boot_with_the_same_script_and_labels():
    image = "projects/p/global/images/family/f"
    place = Location("us-central1", "us-central1-a")
    pool = Pool("n1-standard-8+1xT4", place, Market.SPOT)
    document = cluster_file(request(pool, settings=RunSettings(image=image)), "gcp", "p")
    for kind in document["available_node_types"].values():
        (item,) = kind["node_config"]["metadata"]["items"]
        assert item["key"] == "startup-script"
        assert "shutdown -h now" in item["value"]
        assert kind["node_config"]["labels"]["srifty-run"] == "run-1"


def test_rays_own_schema_accepts_it():
    ray = pytest.importorskip("ray", reason="ray is not installed (extra ray)")
    jsonschema = pytest.importorskip("jsonschema", reason="ray is not installed (extra ray)")
    schema = resources.files(ray).joinpath("autoscaler", "ray-schema.json").read_text()
    jsonschema.validate(cluster_file(request(SPOT, ON_DEMAND), "aws", None), json.loads(schema))


@pytest.mark.parametrize(
    ("pools", "cloud", "words"),
    [
        ((SPOT,), "azure", "rents from aws or gcp, not from azure"),
        ((SPOT, Pool("g3.8xlarge", Location("eu-west-1"), Market.SPOT)), "aws", "one region"),
        ((SPOT,), "gcp", "project of Google Cloud|machine image"),
    ],
)
def test_what_ray_cannot_do_is_refused(pools, cloud, words):
    with pytest.raises(InputError, match=words):
        cluster_file(request(*pools), cloud, None)
