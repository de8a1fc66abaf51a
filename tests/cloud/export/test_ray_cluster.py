import json
import subprocess

import pytest
import yaml

from srifty.cloud.export import ExportFormat, export
from srifty.core import Location, Market
from srifty.core.settings import RunSettings
from srifty.errors import InputError

from .plans import deployment, group

GCP = {"cloud": "gcp", "gpu": "T4", "location": Location("us-central1", "us-central1-b")}
GCP_IMAGE = RunSettings(image="projects/lab/global/images/family/train")


def cluster(one):
    return yaml.safe_load(export(one, ExportFormat.RAY).text)


def settings(**fields):
    return RunSettings(**fields)


@pytest.mark.parametrize(
    "one",
    [
        deployment(),
        deployment(settings=settings(image="lab/train:3", instance_profile="trainer")),
        deployment(settings=settings(image="ami-1", subnet="subnet-1", security_groups=("sg-1",))),
        deployment(group("n1-standard-8+1xT4", **GCP), settings=GCP_IMAGE, project="lab"),
    ],
    ids=["plain", "container", "machine image", "gcp"],
)
def test_rays_own_schema_accepts_it(one):
    jsonschema = pytest.importorskip("jsonschema", reason="ray is not installed (extra ray)")
    ray = pytest.importorskip("ray", reason="ray is not installed (extra ray)")
    from importlib import resources

    schema = resources.files(ray).joinpath("autoscaler", "ray-schema.json").read_text()
    jsonschema.validate(cluster(one), json.loads(schema))


def test_one_node_type_for_each_offer_and_exactly_the_plans_vms():
    document = cluster(deployment(*deployment().plan.groups, group(count=2, local_batch=(3,))))
    types = document["available_node_types"]
    assert document["head_node_type"] == "head"
    assert document["max_workers"] == 6
    counts = {
        name: (kind["min_workers"], kind["max_workers"])
        for name, kind in types.items()
        if name != "head"
    }
    assert counts == {
        "p3.8xlarge-spot": (3, 3),
        "g3.8xlarge-spot": (2, 2),
        "g3.8xlarge-on-demand": (1, 1),
    }
    assert types["g3.8xlarge-spot"]["resources"] == {"CPU": 32, "GPU": 2, "g3.8xlarge-spot": 1}
    assert types["head"]["resources"] == {"CPU": 0}


def test_spot_and_zone_are_asked_of_ec2():
    types = cluster(deployment())["available_node_types"]
    options = types["p3.8xlarge-spot"]["node_config"]["InstanceMarketOptions"]
    assert options["MarketType"] == "spot"
    assert options["SpotOptions"]["InstanceInterruptionBehavior"] == "terminate"
    assert "InstanceMarketOptions" not in types["g3.8xlarge-on-demand"]["node_config"]
    assert "InstanceMarketOptions" not in types["head"]["node_config"]
    places = [kind["node_config"]["Placement"] for kind in types.values()]
    assert places == [{"AvailabilityZone": "us-east-1a"}] * 4


def test_zones_by_id_are_said_by_each_node():
    there = group(location=Location("us-east-1", "use1-az5"))
    document = cluster(deployment(there))
    assert "availability_zone" not in document["provider"]
    for kind in document["available_node_types"].values():
        assert kind["node_config"]["Placement"] == {"AvailabilityZoneId": "use1-az5"}
    named = cluster(deployment(there, zone_names=(("use1-az5", "us-east-1c"),)))
    assert named["provider"]["availability_zone"] == "us-east-1c"


def test_offers_in_two_zones_are_two_node_types():
    there = group(location=Location("us-east-1", "us-east-1b"))
    types = cluster(deployment(group(), there))["available_node_types"]
    assert types.keys() == {"head", "p3.8xlarge-spot-us-east-1a", "p3.8xlarge-spot-us-east-1b"}


def test_settings_are_the_nodes():
    own = settings(
        image="ami-1",
        subnet="subnet-1",
        security_groups=("sg-1", "sg-2"),
        instance_profile="arn:aws:iam::1:instance-profile/trainer",
        tags=(("team", "vision"),),
        ssh_user="ec2-user",
        workdir="code",
        setup=("pip install x",),
    )
    document = cluster(deployment(settings=own))
    for kind in document["available_node_types"].values():
        node = kind["node_config"]
        assert (node["ImageId"], node["SubnetIds"]) == ("ami-1", ["subnet-1"])
        assert node["SecurityGroupIds"] == ["sg-1", "sg-2"]
        assert node["IamInstanceProfile"] == {"Arn": own.instance_profile}
        (tags,) = node["TagSpecifications"]
        assert tags == {
            "ResourceType": "instance",
            "Tags": [{"Key": "team", "Value": "vision"}],
        }
    assert document["auth"]["ssh_user"] == "ec2-user"
    assert document["file_mounts"] == {"~/srifty_code": "code"}
    assert document["setup_commands"][0] == "cd ~/srifty_code && pip install x"


def test_files_reach_the_head_whole_through_rays_shell(tmp_path):
    """Ray wraps a command in brackets, inside an interactive login shell."""
    text = "it's $HOME; `id` !! EOF \\n"
    one = deployment(command=("train.py", text))
    for command in cluster(one)["head_setup_commands"]:
        subprocess.run(
            ["bash", "--login", "-c", f"export X=1 && ({command})"],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=True,
            timeout=60,
        )
    world = json.loads((tmp_path / "srifty_world.json").read_text())
    assert world["command"] == ["train.py", text]
    assert world["variables"]["SRIFTY_SHARES"] == one.plan.shares
    assert world["variables"]["GREETING"] == 'a "b" $c'
    assert world["secrets"] == ["HF_TOKEN"]
    assert [vm["workers"] for vm in world["vms"]] == [3, 2, 2, 1]
    compile((tmp_path / "srifty_on_ray.py").read_text(), "srifty_on_ray.py", "exec")


def test_google_clouds_nodes():
    two = deployment(
        group("n1-standard-8+1xT4", **GCP, gpus=1, local_batch=(4,)),
        group("a2-highgpu-1g", market=Market.ON_DEMAND, **GCP, gpus=1, local_batch=(4,)),
        settings=GCP_IMAGE,
        project="lab",
    )
    document = cluster(two)
    assert document["provider"] == {
        "type": "gcp",
        "region": "us-central1",
        "project_id": "lab",
        "availability_zone": "us-central1-b",
    }
    attached = document["available_node_types"]["n1-standard-8-1xT4-spot"]["node_config"]
    assert attached["machineType"] == "n1-standard-8"
    assert attached["guestAccelerators"] == [
        {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}
    ]
    assert attached["scheduling"]["provisioningModel"] == "SPOT"
    built_in = document["available_node_types"]["a2-highgpu-1g-on-demand"]["node_config"]
    assert "guestAccelerators" not in built_in
    assert "provisioningModel" not in built_in["scheduling"]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (deployment(group("lab", market=Market.OWNED, cloud="own")), "takes VMs of one cloud"),
        (deployment(group(), group(cloud="gcp")), "not of aws, gcp"),
        (deployment(group(cloud=None)), "does not say which cloud"),
        (
            deployment(group(), group(location=Location("eu-west-1"))),
            "one region, not in eu-west-1",
        ),
        (deployment(group(**GCP), settings=GCP_IMAGE), "--project"),
        (deployment(group(**GCP), project="lab"), "run.image: Ray on Google Cloud needs"),
        (deployment(settings=settings(subnet="mine")), "run.subnet: give the id"),
        (deployment(settings=settings(security_groups=("a", "b"))), "one security group by its"),
        (deployment(group("n1-standard-8+1xH9", **GCP), settings=GCP_IMAGE, project="lab"), "a H9"),
    ],
)
def test_what_ray_cannot_do_is_refused_with_the_reason(one, words):
    with pytest.raises(InputError, match=words):
        export(one, ExportFormat.RAY)


def test_notes_say_what_the_head_costs_and_where_secrets_are_set():
    notes = " ".join(export(deployment(), ExportFormat.RAY).notes)
    assert "m5.large on demand, is billed beside the plan" in notes
    assert "HF_TOKEN from the environment on the head" in notes
