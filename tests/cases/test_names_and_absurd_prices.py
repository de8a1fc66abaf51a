"""Names that nobody knows, and prices that cannot be right, through the command."""

import json

import pytest

from srifty.catalog.store import own_catalog_path
from tests.command import srifty, write_job


def plan(folder, **offers):
    document = {
        "name": "toy",
        "workload": "toy.json",
        "global_batch": 64,
        "iterations": 1000,
        "offers": {"region": "us-east-1", "quota": {"g4dn.xlarge": 4}, **offers},
    }
    return srifty("plan", str(write_job(folder, json.dumps(document))), "--json")


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ({"vcpu_quota": {"spot g": 0}}, "no such pool that Srifty knows (G, P)"),
        ({"vcpu_quota": {"spot Z": 10}}, "no such pool that Srifty knows (G, P)"),
        ({"zones": "use1-az9", "markets": ["spot"]}, "use1-az9: prices are known in use1-az"),
        (
            {
                "reserved": [
                    {
                        "type": "g4dn.xlarge",
                        "count": 1,
                        "start": "2030-01-02T00:00Z",
                        "end": "2030-01-01T00:00Z",
                    }
                ]
            },
            "before it starts",
        ),
    ],
)
def test_what_nobody_knows_is_an_error_that_says_what_there_is(tmp_path, offers, words):
    outcome = plan(tmp_path, **offers)
    assert outcome.code == 2
    assert words in outcome.err


def test_an_absurd_price_of_the_own_catalog_is_not_used(tmp_path):
    path = own_catalog_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "cloud,instance_type,market,region,zone,usd_per_hour,date,source\n"
        "aws,g4dn.xlarge,spot,us-east-1,use1-az5,0.0001,2026-11-30T08:00:00+00:00,test\n"
    )
    outcome = plan(tmp_path, markets=["spot", "on-demand"])
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert {group["market"] for group in document["plan"]["groups"]} == {"on-demand"}
    (warning,) = [w for w in document["warnings"] if "cannot be right" in w]
    assert "offers.prices" in warning


def test_a_plain_date_ends_a_reservation_and_its_end_is_among_the_limits(tmp_path):
    reserved = [{"type": "g4dn.xlarge", "count": 4, "end": "2999-01-01"}]
    document = {
        "name": "toy",
        "workload": "toy.json",
        "global_batch": 64,
        "iterations": 1000,
        "offers": {"region": "us-east-1", "reserved": reserved},
    }
    outcome = srifty("plan", str(write_job(tmp_path, json.dumps(document))))
    assert outcome.code == 0
    assert "the reservation's end" in outcome.out


def test_machines_priced_without_their_gpus_are_not_imported(tmp_path):
    header = (
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,"
        "Region,AvailabilityZone\n"
    )
    row = "a2-highgpu-1g,A100,1,12,85,,0.75,0.22,us-central1,us-central1-a\n"
    path = tmp_path / "vms.csv"
    path.write_text(header + row)
    outcome = srifty("catalog", "import", str(path), "--cloud", "gcp", "--json")
    assert "machine alone" in outcome.out + outcome.err


def test_a_pool_of_another_cloud_is_not_known(tmp_path):
    offers = {"cloud": "gcp", "region": "us-central1", "quota": {"g2-standard-4": 2}}
    outcome = plan(tmp_path, **offers, vcpu_quota={"spot G": 0})
    assert outcome.code == 2
    assert "gcp has no such pool that Srifty knows (none; give numbers of VMs)" in outcome.err
