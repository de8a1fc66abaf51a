"""Through boto3 against moto: what moto has, and how real error classes map."""

from datetime import UTC, datetime

import pytest

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed (extra aws)")
moto = pytest.importorskip("moto", reason="moto is not installed (extra dev)")

from srifty.catalog import aws  # noqa: E402 - after the skips
from srifty.catalog.aws_calls import ApiCall, spot_calls  # noqa: E402
from srifty.catalog.builtin import builtin_instance_types  # noqa: E402
from srifty.errors import CloudRefused  # noqa: E402

# botocore and moto warn of Python's own changes, not of ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_account(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def refresh(types):
    return aws.refresh("us-east-1", types, now=NOW, known=builtin_instance_types())


def test_facts_of_instance_types_are_read():
    with moto.mock_aws():
        answer = refresh(["g4dn.xlarge", "g5.12xlarge", "p4d.24xlarge", "g3.8xlarge"])
    found = {t.name: (t.gpu, t.gpus, t.vcpus, t.rated_gbit_per_s) for t in answer.types}
    assert found == {
        "g4dn.xlarge": ("T4", 1, 4, 5.0),
        "g5.12xlarge": ("A10G", 4, 48, 40.0),
        "p4d.24xlarge": ("A100-40GB", 8, 96, 400.0),
    }


def test_facts_agree_with_the_built_in_table():
    known = {n: k for n, k in builtin_instance_types().items() if k.cloud == "aws"}
    with moto.mock_aws():
        answer = refresh(list(known))
    assert answer.types
    for fact in answer.types:
        kind = known[fact.name]
        assert (fact.gpu, fact.gpus, fact.vcpus) == (kind.gpu, kind.gpus, kind.vcpus)


def test_moto_spot_prices_are_read_and_rejected_as_absurd():
    """Moto says 0.00001 USD for all: below what a GPU can cost."""
    with moto.mock_aws():
        answer = refresh(["g4dn.xlarge"])
    zones = [one for one in answer.rejected if "(spot, us-east-1" in one.what]
    assert len(zones) >= 3
    assert all("below 0.005 USD per GPU and hour: 0.00001" in one.reason for one in zones)
    assert answer.prices == ()


def test_what_moto_lacks_is_a_named_failure():
    with moto.mock_aws():
        answer = refresh(["g4dn.xlarge"])
    assert [failure.part for failure in answer.failures] == ["on-demand price of g4dn.xlarge"]


def test_pages_are_followed():
    with moto.mock_aws():
        call = ApiCall(
            "ec2",
            "describe_instance_types",
            "us-east-1",
            {"PaginationConfig": {"PageSize": 100}},
            "all types",
        )
        pages = list(aws.BotoAws().pages(call))
    assert sum(len(page["InstanceTypes"]) for page in pages) > 500


def test_no_credentials_are_a_refusal():
    with pytest.raises(CloudRefused, match=r"credentials.*aws configure"):
        list(aws.BotoAws().pages(spot_calls("us-east-1", ["g4dn.xlarge"], NOW)[0]))


def test_an_unknown_profile_is_a_refusal(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CloudRefused, match="nobody"):
        aws.BotoAws()


def test_an_unknown_region_is_a_refusal_before_any_call():
    with pytest.raises(CloudRefused, match="us-mars-1"):
        aws.quotas("us-mars-1", now=NOW)


@pytest.mark.parametrize(
    ("code", "denied"),
    [("UnauthorizedOperation", True), ("AuthFailure", True), ("InternalError", False)],
)
def test_errors_of_aws_keep_their_code_and_lose_their_secrets(monkeypatch, code, denied):
    from botocore.exceptions import ClientError

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    client = aws.BotoAws()
    call = spot_calls("us-east-1", ["g4dn.xlarge"], NOW)[0]
    error = ClientError(
        {"Error": {"Code": code, "Message": "key AKIAIOSFODNN7EXAMPLE may not"}}, "Describe"
    )

    class Refusing:
        def can_paginate(self, _operation):
            raise error

    monkeypatch.setattr(client, "_of", lambda _call: Refusing())
    with pytest.raises(aws.CallError) as caught:
        list(client.pages(call))
    assert (caught.value.code, caught.value.denied) == (code, denied)
    assert "AKIA" not in str(caught.value)


def test_timeouts_and_retries_are_set():
    client = aws.BotoAws()
    with moto.mock_aws():
        config = client._of(spot_calls("us-east-1", ["g4dn.xlarge"], NOW)[0]).meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 20)
    assert config.retries == {"mode": "adaptive", "total_max_attempts": 6}
