import pytest
from hypothesis import given
from hypothesis import strategies as st

from srifty.cloud.export import Deployment, ExportFormat, export
from srifty.cloud.export.deployment import is_zone_id
from srifty.core import Market
from srifty.errors import InputError

from .plans import MIXED, deployment, group


def test_ranks_follow_the_groups_vm_by_vm():
    plan = deployment().plan
    assert (plan.vms, plan.world_size) == (4, 8)
    assert plan.shares == "4,4,3,2,1,2,1,6/3"
    assert [plan.first_vm(place) for place in range(3)] == [0, 1, 3]


@given(st.text(max_size=80))
def test_any_job_has_a_name_that_all_launchers_take(job):
    name = deployment(job=job).name
    assert 1 <= len(name) <= 30
    assert name.isascii()
    assert name == name.lower()
    assert name[0].isalpha()
    assert name[-1].isalnum()
    assert all(letter.isalnum() or letter == "-" for letter in name)


def test_spot_vms_of_a_cloud_are_asked_whether_they_are_taken_back():
    assert dict(deployment().variables())["SRIFTY_NOTICES"] == "ec2"
    on_demand = deployment(group(market=Market.ON_DEMAND))
    assert "SRIFTY_NOTICES" not in dict(on_demand.variables())
    assert "SRIFTY_NOTICES" not in dict(deployment().variables(notices=False))


def test_nothing_to_run_is_refused():
    with pytest.raises(InputError, match="name the training script"):
        Deployment(deployment().plan, ())


@pytest.mark.parametrize("kind", ExportFormat)
def test_values_of_secrets_are_in_no_export(kind, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "do-not-show")
    one = deployment(group(count=2))
    text = export(one, kind).text
    assert "do-not-show" not in text
    assert "HF_TOKEN" in text


@pytest.mark.parametrize("kind", ExportFormat)
def test_every_export_has_the_shares_and_the_places(kind):
    one = deployment(group(count=2), group(count=1, local_batch=(5, 5)))
    text = export(one, kind).text
    assert "4,4,3,4,4,3,5,5" in text
    assert "p3.8xlarge" in text
    assert "us-east-1a" in text


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("use1-az5", True), ("us-east-1a", False), ("us-central1-b", False), ("apse2-az1", True),
     ("usw2-lax1-az1", True)],
)  # fmt: skip
def test_ids_of_zones_are_told_from_names(zone, expected):
    assert is_zone_id(zone) is expected


def test_a_name_with_control_characters_stays_in_its_comment():
    one = deployment(*MIXED, job="toy\nrm -rf /")
    for kind in (ExportFormat.TORCHRUN, ExportFormat.SBATCH, ExportFormat.KUBERNETES):
        assert not any(line.startswith("rm") for line in export(one, kind).text.splitlines())
