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
from ray.autoscaler._private.aws import utils as aws_utils  # noqa: E402
from ray.autoscaler._private.aws.config import bootstrap_aws  # noqa: E402
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider  # noqa: E402
from ray.autoscaler._private.node_provider_availability_tracker import (  # noqa: E402
    NodeProviderAvailabilityTracker,
)
from ray.autoscaler.node_launch_exception import NodeLaunchException  # noqa: E402

from srifty.cloud.ray_backend.cluster_file import cluster_file, node_type  # noqa: E402
from srifty.cloud.ray_backend.launch_failures import refusals  # noqa: E402
from srifty.core import Location, Market  # noqa: E402
from srifty.core.events import LaunchFailure, Pool  # noqa: E402
from srifty.core.settings import RunSettings  # noqa: E402

from .test_cluster_file import ON_DEMAND, SPOT, request  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "run-1"
POLICY = Path(__file__).parents[3] / "docs" / "aws_policy.json"
SECRET = "hush-aws-5f3c"
TODAY = Pool("g4dn.xlarge", Location("us-east-1", "us-east-1a"), Market.SPOT)


@pytest.fixture
def environment(monkeypatch, tmp_path):
    # Clients are kept with the keys that they were made with.
    for cached in (aws_utils.resource_cache, aws_utils.client_cache):
        cached.cache_clear()
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
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


def test_vms_are_asked_for_as_planned_and_end_for_good(account):
    document = document_of(account, SPOT, ON_DEMAND)
    asked = []
    plain = BaseClient._make_api_call

    def noted(client, operation, parameters):
        if operation == "RunInstances":
            asked.append(parameters)
        return plain(client, operation, parameters)

    for pool in (SPOT, ON_DEMAND, None):
        asked.clear()
        with mock.patch.object(BaseClient, "_make_api_call", noted):
            _, name = make_node(document, "head" if pool is None else node_type(pool))
        (sent,) = asked
        assert sent["MetadataOptions"] == {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 2,
        }
        assert {spec["ResourceType"] for spec in sent["TagSpecifications"]} == {
            "instance",
            "volume",
        }
        spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        market = {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}}
        assert {key: sent[key] for key in sent if key == "InstanceMarketOptions"} == (
            market if pool == SPOT else {}
        )
        # What is there then, as EC2 tells it.
        vm = account.Instance(name)
        vm.load()
        if pool is not None:
            assert vm.instance_type == pool.instance_type
            assert vm.placement["AvailabilityZone"] == "us-east-1a"
        assert (vm.instance_lifecycle == "spot") is (pool == SPOT)
        tags = {tag["Key"]: tag["Value"] for tag in vm.tags}
        assert (tags["srifty-run"], tags["srifty-user"], tags["team"]) == ("run-1", "me", "vision")
        behaviour = vm.describe_attribute(Attribute="instanceInitiatedShutdownBehavior")
        assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
        script = vm.describe_attribute(Attribute="userData")["UserData"]["Value"]
        assert b"shutdown -h now" in base64.b64decode(script)


REFUSALS = [
    ("InsufficientInstanceCapacity", "no sufficient p3.8xlarge", LaunchFailure.CAPACITY),
    ("Unsupported", "not offered in us-east-1a", LaunchFailure.UNSUPPORTED),
    ("MaxSpotInstanceCountExceeded", "Max spot instance count", LaunchFailure.QUOTA),
    ("VcpuLimitExceeded", "limit of 32 vCPU", LaunchFailure.QUOTA),
    ("RequestLimitExceeded", "Request limit exceeded.", LaunchFailure.THROTTLED),
    ("UnauthorizedOperation", "You are not authorized", LaunchFailure.PERMISSION),
    ("NeverHeardOfIt", "what is this", LaunchFailure.UNKNOWN),
    (
        "InvalidParameterValue",
        "Subnet 'subnet-1' is in the availability zone us-east-1b",
        LaunchFailure.CAPACITY,
    ),
]


def test_what_ec2_refuses_is_told_apart(account):
    document = document_of(account, SPOT)
    plain = BaseClient._make_api_call
    for code, words, kind in REFUSALS:

        def refused(client, operation, parameters, code=code, words=words):
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
        assert told[node_type(SPOT)].kind is kind, code
        assert words in told[node_type(SPOT)].text


@pytest.fixture
def granted(environment, monkeypatch):
    """An account in which a policy that may be set is all that we may."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # Ray waits for what it makes to be known
    with moto.mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        iam = boto3.client("iam", region_name="us-east-1")
        iam.create_user(UserName="us")
        keys = iam.create_access_key(UserName="us")["AccessKey"]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)

        def grant(policy):
            text = json.dumps(policy)
            iam.put_user_policy(UserName="us", PolicyName="srifty", PolicyDocument=text)

        yield grant


@set_initial_no_auth_action_count(0)
def through_a_clusters_life():
    """What ray up, the autoscaler and ray down ask of the cloud."""
    document = bootstrap_aws(cluster_file(request(TODAY), "aws", None))
    AWSNodeProvider.fillout_available_node_types_resources(document)
    provider, name = make_node(document, node_type(TODAY))
    assert provider.non_terminated_nodes({}) == [name]
    provider.set_node_tags(name, {"a": "b"})
    provider.non_terminated_nodes({})
    provider.terminate_node(name)


def test_the_policy_of_the_documentation_suffices_and_is_needed(granted):
    whole = json.loads(POLICY.read_text(encoding="utf-8"))
    granted(whole)
    through_a_clusters_life()
    for action in ("ec2:DescribeInstanceTypes", "ec2:RunInstances", "ec2:TerminateInstances"):
        less = copy.deepcopy(whole)
        for statement in less["Statement"]:
            if action in statement["Action"]:
                statement["Action"].remove(action)
        granted(less)
        with pytest.raises(Exception, match=r"UnauthorizedOperation|not authorized|abort"):
            through_a_clusters_life()


def test_keys_of_the_account_are_in_no_request(account):
    assert SECRET not in json.dumps(document_of(account, SPOT, secrets=("AWS_SECRET_ACCESS_KEY",)))
