from __future__ import annotations

import os
from pathlib import Path

import pytest

from srifty.cloud.failures import WHAT_TO_DO, read_refusal, refusal_of
from srifty.core.events import LaunchFailure

CASES = Path(os.environ.get("SRIFTY_SHARED", "../shared")) / "cases"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", LaunchFailure.CAPACITY),
        ("Server.InsufficientInstanceCapacity", LaunchFailure.CAPACITY),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", LaunchFailure.CAPACITY),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", LaunchFailure.CAPACITY),
        ("zone_resource_pool_exhausted_with_details", LaunchFailure.CAPACITY),
        ("Unsupported", LaunchFailure.UNSUPPORTED),
        ("MaxSpotInstanceCountExceeded", LaunchFailure.QUOTA),
        ("VcpuLimitExceeded", LaunchFailure.QUOTA),
        ("QUOTA_EXCEEDED", LaunchFailure.QUOTA),
        ("RequestLimitExceeded", LaunchFailure.THROTTLED),
        ("ThrottlingException", LaunchFailure.THROTTLED),
        ("Client.UnauthorizedOperation", LaunchFailure.PERMISSION),
        ("AccessDeniedException", LaunchFailure.PERMISSION),
        ("InsufficientPatience", LaunchFailure.UNKNOWN),
        ("", LaunchFailure.UNKNOWN),
    ],
)
def test_codes_are_told_apart_in_every_spelling(code, kind):
    assert refusal_of(code).kind is kind


def test_an_unknown_code_keeps_the_raw_text():
    refusal = read_refusal('code=NoSuchThing op=RunInstances note="try a capacity quota"')
    assert refusal.kind is LaunchFailure.UNKNOWN
    assert refusal.text == 'code=NoSuchThing op=RunInstances note="try a capacity quota"'
    assert refusal.text in str(refusal)
    assert "stops" in str(refusal)


def test_a_code_comes_with_its_text():
    refusal = refusal_of("VcpuLimitExceeded", "you have a limit of 64 vCPU in this bucket")
    assert (refusal.limit, refusal.code) == (64.0, "VcpuLimitExceeded")
    assert refusal.text == "VcpuLimitExceeded: you have a limit of 64 vCPU in this bucket"
    assert refusal_of("Unsupported", "a limit of 3").limit is None


def test_all_kinds_say_what_is_done():
    assert set(WHAT_TO_DO) == set(LaunchFailure)


@pytest.mark.skipif(not CASES.exists(), reason="the cases are not at hand")
def test_the_collected_answers():
    found = [read_refusal(line) for line in (CASES / "E10.txt").read_text().splitlines()]
    capacity, unsupported, quota = (
        LaunchFailure.CAPACITY,
        LaunchFailure.UNSUPPORTED,
        LaunchFailure.QUOTA,
    )
    assert [refusal.kind for refusal in found] == [
        *(capacity, capacity, unsupported, quota, quota),
        *(LaunchFailure.THROTTLED, LaunchFailure.PERMISSION, capacity, capacity),
    ]
    assert found[0].zones == ("us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f")
    assert found[2].zones == ("us-east-2a", "us-east-2b")
    assert [refusal.limit for refusal in found[3:5]] == [None, 32.0]
