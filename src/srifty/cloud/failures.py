"""Why a cloud did not launch a VM, and what that means for the next attempt.

Codes are those of EC2 (API reference, "Error codes", and the reasons of spot requests) and of
Compute Engine (API errors, operation errors). The same code comes in several spellings: with
`Client.` or `Server.` before it, in capitals with underscores, with `_WITH_DETAILS` or `Exception`
behind it. A code that is not listed is unknown, and nothing is guessed from its words: retrying
what will never work costs as much as giving up what would have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from srifty.core.events import LaunchFailure

WHAT_TO_DO = {
    LaunchFailure.CAPACITY: "no VM is free there now; another zone or type, or later",
    LaunchFailure.UNSUPPORTED: "that type is not offered there, and is not asked for there again",
    LaunchFailure.QUOTA: "your quota is used up; nothing more is asked for under it",
    LaunchFailure.THROTTLED: "the cloud is busy; asked again later, ever more slowly",
    LaunchFailure.PERMISSION: "you may not launch this VM; the run stops",
    LaunchFailure.UNKNOWN: "nobody knows what this means; the run stops",
}

_CODES = {
    LaunchFailure.CAPACITY: (
        "InsufficientInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "UnfulfillableCapacity",
        "capacity-not-available",
        "capacity-oversubscribed",
        "price-too-low",
        "SpotMaxPriceTooLow",
        "ZONE_RESOURCE_POOL_EXHAUSTED",
        "REGION_RESOURCE_POOL_EXHAUSTED",
        "RESOURCE_POOL_EXHAUSTED",
        "STOCKOUT",
    ),
    LaunchFailure.UNSUPPORTED: (
        "Unsupported",
        "UnsupportedHostConfiguration",
        "InvalidAvailabilityZone",
    ),
    LaunchFailure.QUOTA: (
        "MaxSpotInstanceCountExceeded",
        "MaxSpotFleetRequestCountExceeded",
        "VcpuLimitExceeded",
        "InstanceLimitExceeded",
        "ResourceLimitExceeded",
        "QUOTA_EXCEEDED",
    ),
    LaunchFailure.THROTTLED: (
        "RequestLimitExceeded",
        "EC2ThrottledException",
        "Throttling",
        "ThrottlingException",
        "RequestThrottled",
        "TooManyRequests",
        "RATE_LIMIT_EXCEEDED",
        "userRateLimitExceeded",
        # The cloud's own trouble: the same answer, asking again later, is right.
        "InternalError",
        "InternalFailure",
        "Unavailable",
        "ServiceUnavailable",
        "backendError",
    ),
    LaunchFailure.PERMISSION: (
        "UnauthorizedOperation",
        "AuthFailure",
        "AccessDenied",
        "Blocked",
        "InvalidClientTokenId",
        "UnrecognizedClient",
        "ExpiredToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "OptInRequired",
        "PendingVerification",
        "PERMISSIONS_ERROR",
        "PERMISSION_DENIED",
        "forbidden",
        "accessNotConfigured",
    ),
}

_LINE = re.compile(r'([A-Za-z_]+)=("[^"]*"|\S+)')
_LIMIT = re.compile(r"\blimit(?: of)?\W{0,2}(\d+(?:\.\d+)?)", re.IGNORECASE)
_ZONE = re.compile(r"\b[a-z]{2,}(?:-[a-z]+)+-?\d+-?[a-z]\b")


def _spelling(code: str) -> str:
    """Returns a code as all its spellings have it."""
    bare = re.sub(r"^(Client|Server)\.", "", code.strip())
    letters = re.sub(r"[^a-z0-9]", "", bare.lower())
    return letters.removesuffix("withdetails").removesuffix("exception")


_KINDS = {_spelling(code): kind for kind, codes in _CODES.items() for code in codes}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cloud's answer to a launch that failed.

    Attributes:
        kind: what it means.
        code: the cloud's code; empty where it gave none.
        text: the answer, word for word.
        limit: the quota that it names, in the unit that the text says; None: it names none.
        zones: the zones that it names, such as those where the type could be had.
    """

    kind: LaunchFailure
    code: str
    text: str
    limit: float | None = None
    zones: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {WHAT_TO_DO[self.kind]} ({self.text})"


def refusal_of(code: str, text: str = "") -> Refusal:
    """Returns what a cloud's answer means.

    Args:
        code: the cloud's code, in any of its spellings.
        text: what came with it.
    """
    kind = _KINDS.get(_spelling(code), LaunchFailure.UNKNOWN)
    limit = _LIMIT.search(text) if kind is LaunchFailure.QUOTA else None
    whole = text if code in text else f"{code}: {text}" if text else code
    return Refusal(
        kind,
        code,
        whole,
        None if limit is None else float(limit[1]),
        tuple(dict.fromkeys(_ZONE.findall(text))),
    )


def read_refusal(line: str) -> Refusal:
    """Returns what a line such as `code=Unsupported op=RunInstances note="..."` means.

    Such lines are how scenarios state what a played cloud answers. A line without `code=` is a code
    alone. The zone that was asked (`az=`) is not among the zones that the answer names.
    """
    fields = {name: value.strip('"') for name, value in _LINE.findall(line)}
    code = fields.get("code")
    if code is None:
        return refusal_of(line.strip())
    found = refusal_of(code, line.strip())
    zones = tuple(zone for zone in found.zones if zone != fields.get("az"))
    return Refusal(found.kind, found.code, found.text, found.limit, zones)
