"""What Ray asks of EC2, with moto for the cloud: the exact requests of its own node provider."""

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed (extra ray)")
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed (extra aws)")
moto = pytest.importorskip("moto", reason="moto is not installed (extra dev)")

from srifty.cloud.ray_backend.cluster_file import cluster_file, node_type  # noqa: E402
from srifty.core.settings import RunSettings  # noqa: E402

from .test_cluster_file import ON_DEMAND, SPOT, request  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NAME = "run-1"


@pytest.fixture
def account(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with moto.mock_aws():
        yield boto3.resource("ec2", region_name="us-east-1")


def nodes_of(account, *pools):
    """The VMs that Ray makes from our cluster file, one of each pool."""
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

    subnet = next(
        each.id for each in account.subnets.all() if each.availability_zone == "us-east-1a"
    )
    image = next(iter(account.images.all())).id
    settings = RunSettings(image=image, subnet=subnet, tags=(("team", "vision"),))
    document = cluster_file(request(*pools, settings=settings), "aws", None)
    provider = AWSNodeProvider(document["provider"], NAME)
    found = {}
    for pool in pools:
        kind = node_type(pool)
        config = document["available_node_types"][kind]["node_config"]
        made = provider.create_node(config, {"ray-user-node-type": kind}, 1)
        (found[pool],) = [account.Instance(name) for name in made]
    return found


def test_vms_have_the_plans_type_zone_market_and_tags(account):
    found = nodes_of(account, SPOT, ON_DEMAND)
    for pool, vm in found.items():
        vm.load()
        assert vm.instance_type == pool.instance_type
        assert vm.placement["AvailabilityZone"] == "us-east-1a"
        tags = {tag["Key"]: tag["Value"] for tag in vm.tags}
        assert (tags["srifty-run"], tags["srifty-user"]) == ("run-1", "me")
        assert tags["team"] == "vision"
    assert found[SPOT].instance_lifecycle == "spot"
    assert found[ON_DEMAND].instance_lifecycle != "spot"
