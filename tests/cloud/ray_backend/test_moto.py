"""What Ray asks of EC2, with moto for the cloud: the exact requests of its own node provider."""

import base64
import copy
import json
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed (extra ray)")
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed (extra aws)")
moto = pytest.importorskip("moto", reason="moto is not installed (extra dev)")

from botocore.client import BaseClient  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from moto.core import set_initial_no_auth_action_count  # noqa: E402
from ray.autoscaler._private.aws.config import bootstrap_aws  # noqa: E402
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider  # noqa: E402
from ray.autoscaler._private.node_provider_availability_tracker import (  # noqa: E402
    NodeProviderAvailabilityTracker,
)
from ray.autoscaler.node_launch_exception import NodeLaunchException  # noqa: E402

from srifty.cloud.ray_backend.cluster_file import cluster_file, node_type  # noqa: E402
from srifty.cloud.ray_backend.launch_failures import refusals  # noqa: E402
from srifty.core.events import LaunchFailure  # noqa: E402
from srifty.core.settings import RunSettings  # noqa: E402

from .test_cluster_file import ON_DEMAND, SPOT, request  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "run-1"
POLICY = Path(__file__).parents[3] / "docs" / "aws_policy.json"
SECRET = "hush-aws-5f3c"


@pytest.fixture
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_PROFILE", raising=False)


@pytest.fixture
def account(environment):
    with moto.mock_aws():
        yield boto3.resource("ec2", region_name="us-east-1")


def document_of(account, *pools, **settings):
    """Our cluster file for an account, with a subnet and an image that are there."""
    subnet = next(
        each.id for each in account.subnets.all() if each.availability_zone == "us-east-1a"
    )
    image = next(iter(account.images.all())).id
    chosen = {"image": image, "subnet": subnet, "tags": (("team", "vision"),)} | settings
    return cluster_file(request(*pools, settings=RunSettings(**chosen)), "aws", None)


def make_node(document, kind, name=NAME):
    """Has Ray make a VM of a node type; returns its provider and the VM's id."""
    provider = AWSNodeProvider(document["provider"], name)
    config = copy.deepcopy(document["available_node_types"][kind]["node_config"])
    (made,) = provider.create_node(config, {"ray-user-node-type": kind}, 1)
    return provider, made


def made_of(account, *pools):
    """The VMs that Ray makes from our cluster file, one of each pool."""
    document = document_of(account, *pools)
    found = {}
    for pool in pools:
        _, name = make_node(document, node_type(pool))
        found[pool] = account.Instance(name)
    return found


def test_vms_have_the_plans_type_zone_market_and_tags(account):
    found = made_of(account, SPOT, ON_DEMAND)
    for pool, vm in found.items():
        vm.load()
        assert vm.instance_type == pool.instance_type
        assert vm.placement["AvailabilityZone"] == "us-east-1a"
        tags = {tag["Key"]: tag["Value"] for tag in vm.tags}
        assert (tags["srifty-run"], tags["srifty-user"]) == ("run-1", "me")
        assert tags["team"] == "vision"
    assert found[SPOT].instance_lifecycle == "spot"
    assert found[ON_DEMAND].instance_lifecycle != "spot"


@pytest.mark.parametrize("pool", [SPOT, ON_DEMAND, "head"])
def test_vms_end_for_good_and_tell_of_interruptions_by_tokens_alone(account, pool):
    document = document_of(account, SPOT, ON_DEMAND)
    kind = pool if pool == "head" else node_type(pool)
    asked = []
    plain = BaseClient._make_api_call

    def noted(client, operation, parameters):
        if operation == "RunInstances":
            asked.append(parameters)
        return plain(client, operation, parameters)

    with mock.patch.object(BaseClient, "_make_api_call", noted):
        _, name = make_node(document, kind)
    (sent,) = asked
    tokens = {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 2}
    assert sent["MetadataOptions"] == tokens
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert {spec["ResourceType"] for spec in sent["TagSpecifications"]} == {"instance", "volume"}
    if pool == SPOT:
        spot = sent["InstanceMarketOptions"]["SpotOptions"]
        assert spot == {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
        }
    else:
        assert "InstanceMarketOptions" not in sent
    # What is there then, as EC2 tells it.
    vm = account.Instance(name)
    behaviour = vm.describe_attribute(Attribute="instanceInitiatedShutdownBehavior")
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    script = base64.b64decode(vm.describe_attribute(Attribute="userData")["UserData"]["Value"])
    assert script.startswith(b"#!/bin/sh")
    assert b"shutdown -h now" in script


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        ("InsufficientInstanceCapacity", "no sufficient p3.8xlarge", LaunchFailure.CAPACITY),
        ("Unsupported", "not offered in us-east-1a", LaunchFailure.UNSUPPORTED),
        ("MaxSpotInstanceCountExceeded", "Max spot instance count", LaunchFailure.QUOTA),
        ("VcpuLimitExceeded", "limit of 32 vCPU", LaunchFailure.QUOTA),
        ("RequestLimitExceeded", "Request limit exceeded.", LaunchFailure.THROTTLED),
        ("UnauthorizedOperation", "You are not authorized", LaunchFailure.PERMISSION),
        ("NeverHeardOfIt", "what is this", LaunchFailure.UNKNOWN),
        (
            "InvalidParameterValue",
            "Value (us-east-1a) for parameter availabilityZone is invalid. "
            "Subnet 'subnet-1' is in the availability zone us-east-1b",
            LaunchFailure.CAPACITY,
        ),
    ],
)
def test_what_ec2_refuses_is_told_apart(account, code, words, kind):
    document = document_of(account, SPOT)
    plain = BaseClient._make_api_call

    def refused(client, operation, parameters):
        if operation == "RunInstances":
            raise ClientError({"Error": {"Code": code, "Message": words}}, operation)
        return plain(client, operation, parameters)

    with (
        mock.patch.object(BaseClient, "_make_api_call", refused),
        pytest.raises(NodeLaunchException) as caught,
    ):
        make_node(document, node_type(SPOT))
    # As the autoscaler's launcher goes on with it, and as its report says it.
    tracker = NodeProviderAvailabilityTracker(timer=lambda: 100.0)
    tracker.update_node_availability(node_type(SPOT), 99.0, caught.value)
    summary = json.loads(json.dumps(asdict(tracker.summary())))
    told = refusals({"autoscaler_report": {"node_availability_summary": summary}}, 50.0)
    assert told[node_type(SPOT)].kind is kind
    assert words in told[node_type(SPOT)].text


@pytest.fixture
def granted(environment, monkeypatch):
    """An account in which the policy of the documentation is all that we may; and our keys."""
    before = moto.mock_aws()
    before.start()
    iam = boto3.client("iam", region_name="us-east-1")
    iam.create_user(UserName="us")
    iam.put_user_policy(
        UserName="us", PolicyName="srifty", PolicyDocument=POLICY.read_text(encoding="utf-8")
    )
    keys = iam.create_access_key(UserName="us")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
    yield iam
    before.stop()


@set_initial_no_auth_action_count(0)
def through_a_clusters_life():
    """What ray up, the autoscaler and ray down ask of the cloud."""
    document = cluster_file(request(SPOT, ON_DEMAND), "aws", None)
    document["provider"]["availability_zone"] = "us-east-1a"
    document = bootstrap_aws(copy.deepcopy(document))
    AWSNodeProvider.fillout_available_node_types_resources(document)
    provider, name = make_node(document, node_type(ON_DEMAND))
    assert provider.non_terminated_nodes({}) == [name]
    provider.set_node_tags(name, {"a": "b"})
    provider.non_terminated_nodes({})
    provider.terminate_node(name)


def test_the_policy_of_the_documentation_suffices(granted):
    through_a_clusters_life()


@pytest.mark.parametrize(
    "action",
    ["ec2:RunInstances", "ec2:DescribeInstanceTypes", "ec2:TerminateInstances", "ec2:CreateTags"],
)
def test_without_a_part_of_the_policy_it_does_not_go(granted, action):
    policy = json.loads(POLICY.read_text(encoding="utf-8"))
    for statement in policy["Statement"]:
        if action in statement["Action"]:
            statement["Action"].remove(action)
    granted.put_user_policy(
        UserName="us", PolicyName="srifty", PolicyDocument=json.dumps(policy)
    )
    with pytest.raises((ClientError, NodeLaunchException), match="Unauthorized|not authorized"):
        through_a_clusters_life()


def test_keys_of_the_account_are_in_no_request(account):
    assert SECRET not in json.dumps(document_of(account, SPOT, secrets=("AWS_SECRET_ACCESS_KEY",)))
