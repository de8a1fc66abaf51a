"""Live prices, instance types and quotas of AWS. Needs the extra `aws`: `pip install srifty[aws]`.

Each part (instance types, spot prices, each type's on-demand price, each quota) may fail by itself:
the others are kept, the failed part is named, and the catalog keeps its last prices. Only where no
part answers, or there are no credentials, the whole is refused. Nothing here changes anything at
AWS.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from srifty.catalog.aws_calls import (
    QUOTA_CODES,
    ApiCall,
    Rejected,
    facts_calls,
    on_demand_calls,
    quota_call,
    read_facts,
    read_on_demand,
    read_quota,
    read_spot,
    spot_calls,
)
from srifty.catalog.price import Price
from srifty.catalog.store import QuotaRow, TypeRow
from srifty.errors import CloudRefused, InputError

if TYPE_CHECKING:
    from srifty.core.hardware import InstanceType

_CONNECT_S = 5
_READ_S = 20
_ATTEMPTS = 6
_MOST_WORDS = 240
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d{1,2}", re.ASCII)
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "Blocked",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "OptInRequired",
        "PendingVerification",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnauthorizedAccess",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_SECRETS = (
    re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"),
    re.compile(r"(?<=://)[^/@\s]+@"),
    re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+=]{40,}(?![A-Za-z0-9/+=])"),
)

Progress = Callable[[int, int], None]
_Pages = Iterator[Mapping[str, Any]]
_T = TypeVar("_T")


class AbstractAws(ABC):
    """Asks AWS; the only thing between us and the network."""

    @abstractmethod
    def check_region(self, region: str) -> None:
        """Raises `CloudRefused` where there is no such region."""

    @abstractmethod
    def pages(self, call: ApiCall) -> Iterator[Mapping[str, Any]]:
        """Yields the pages of an answer.

        Raises:
            CallError: the call failed, after the retries that make sense.
            CloudRefused: there are no credentials: no call can succeed.
        """


class CallError(Exception):
    """One call failed.

    Args:
        code: AWS's code, or the name of what happened.
        message: what AWS said, without secrets.
        denied: whether the account may not do it (else it may work another time).
    """

    def __init__(self, code: str, message: str, *, denied: bool) -> None:
        self.code = code
        self.message = message
        self.denied = denied
        super().__init__(f"{code}: {message}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A part that got no answer; the catalog keeps what it had.

    Attributes:
        part: what was asked for.
        reason: what AWS said.
        denied: whether the account may not ask it.
    """

    part: str
    reason: str
    denied: bool


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What AWS answered.

    Attributes:
        prices: prices that can be believed.
        types: the facts of the instance types.
        rejected: answers that were not taken, with reasons.
        failures: parts without an answer.
    """

    prices: tuple[Price, ...]
    types: tuple[TypeRow, ...]
    rejected: tuple[Rejected, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    """The quotas of an account.

    Attributes:
        quotas: what AWS answered.
        failures: parts without an answer.
    """

    quotas: tuple[QuotaRow, ...]
    failures: tuple[Failure, ...]


def refresh_calls(region: str, types: Sequence[str], now: datetime) -> tuple[ApiCall, ...]:
    """Returns the calls that `refresh` makes, without making them."""
    return (
        *facts_calls(region, types),
        *spot_calls(region, types, now),
        *on_demand_calls(region, types),
    )


def quota_calls(region: str) -> tuple[ApiCall, ...]:
    """Returns the calls that `quotas` makes first; where the account has none, the default's."""
    return tuple(quota_call(region, quota) for quota in QUOTA_CODES)


def refresh(
    region: str,
    types: Sequence[str],
    *,
    now: datetime,
    known: Mapping[str, InstanceType],
    client: AbstractAws | None = None,
    progress: Progress | None = None,
) -> Refreshed:
    """Returns the prices that hold now, on demand and spot, of instance types in a region.

    Args:
        region: the region, `us-east-1`.
        types: names of instance types.
        now: the time, with its zone; it becomes the prices' date.
        known: instance types by name, for their number of GPUs where AWS does not answer.
        client: what asks AWS; boto3 by default.
        progress: called with (parts done, all parts).

    Raises:
        InputError: no types, a region that is no name, or boto3 is not installed.
        CloudRefused: no credentials, an unknown region, or no part was answered.
    """
    if not types:
        raise InputError("name at least one instance type", "--type")
    types = tuple(dict.fromkeys(types))
    asked = _Asked(_client(client, region), progress)
    asked.total = len(refresh_calls(region, types, now))
    date = now.isoformat(timespec="seconds")
    facts: list[TypeRow] = []
    prices: list[Price] = []
    rejected: list[Rejected] = []
    for call in facts_calls(region, types):
        facts += asked.ask(call, lambda pages: read_facts(pages, date), ())
    gpus = {name: kind.gpus for name, kind in known.items()} | {f.name: f.gpus for f in facts}
    empty: tuple[tuple[Price, ...], tuple[Rejected, ...]] = ((), ())
    for call in spot_calls(region, types, now):
        some = asked.ask(call, lambda pages: read_spot(pages, region, gpus, date), empty)
        prices += some[0]
        rejected += some[1]
    for name, call in zip(types, on_demand_calls(region, types), strict=True):
        some = asked.ask(
            call, lambda pages, name=name: read_on_demand(pages, name, region, gpus, date), empty
        )
        prices += some[0]
        rejected += some[1]
    asked.raise_if_none_answered()
    return Refreshed(tuple(prices), tuple(facts), tuple(rejected), tuple(asked.failures))


def quotas(
    region: str,
    *,
    now: datetime,
    client: AbstractAws | None = None,
    progress: Progress | None = None,
) -> QuotaAnswer:
    """Returns how many vCPUs of each GPU pool the account may run, on demand and spot.

    Raises:
        InputError: a region that is no name, or boto3 is not installed.
        CloudRefused: no credentials, an unknown region, or no part was answered.
    """
    asked = _Asked(_client(client, region), progress)
    asked.total = len(QUOTA_CODES)
    date = now.isoformat(timespec="seconds")
    found: list[QuotaRow] = []
    for quota in QUOTA_CODES:
        row = asked.ask(
            quota_call(region, quota),
            lambda pages, quota=quota: read_quota(pages, region, quota, date, default=False),
            None,
            otherwise=(
                quota_call(region, quota, default=True),
                lambda pages, quota=quota: read_quota(pages, region, quota, date, default=True),
            ),
        )
        if row is not None:
            found.append(row)
    asked.raise_if_none_answered()
    return QuotaAnswer(tuple(found), tuple(asked.failures))


class _Asked:
    """Asks part by part and keeps what failed."""

    def __init__(self, client: AbstractAws, progress: Progress | None) -> None:
        self.failures: list[Failure] = []
        self.total = 0
        self._client = client
        self._progress = progress
        self._done = 0

    def ask(
        self,
        call: ApiCall,
        read: Callable[[_Pages], _T],
        nothing: _T,
        otherwise: tuple[ApiCall, Callable[[_Pages], _T]] | None = None,
    ) -> _T:
        """Returns what an answer reads as; `nothing`, and a failure, where there is none.

        Args:
            call: what to ask.
            read: how to read the pages.
            nothing: what stands for no answer.
            otherwise: what to ask where AWS has no such thing.
        """
        try:
            try:
                return read(self._client.pages(call))
            except CallError as error:
                if otherwise is None or error.code != "NoSuchResourceException":
                    raise
            return otherwise[1](self._client.pages(otherwise[0]))
        except CallError as error:
            self.failures.append(Failure(call.purpose, str(error), error.denied))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"the answer does not read ({type(error).__name__})"
            self.failures.append(Failure(call.purpose, reason, denied=False))
        finally:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, max(self.total, self._done))
        return nothing

    def raise_if_none_answered(self) -> None:
        if self._done and len(self.failures) == self._done:
            reasons = dict.fromkeys(failure.reason for failure in self.failures)
            parts = ", ".join(failure.part for failure in self.failures[:4])
            more = f" and {len(self.failures) - 4} more" if len(self.failures) > 4 else ""
            said = "; ".join(list(reasons)[:3])
            raise CloudRefused(
                f"AWS answered nothing that was asked ({parts}{more}): {said}. The catalog is as "
                "it was. docs/catalog-live.md lists the permissions that are needed"
            )


def scrub(text: str) -> str:
    """Returns a message without keys, tokens and passwords in addresses, cut to a few lines."""
    for secret in _SECRETS:
        text = secret.sub("***", text)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_WORDS else text[: _MOST_WORDS - 3] + "..."


def _client(client: AbstractAws | None, region: str) -> AbstractAws:
    if not _REGION.fullmatch(region):
        raise InputError(f"{region!r} is no region; write one such as us-east-1", "--region")
    client = client or BotoAws()
    client.check_region(region)
    return client


class BotoAws(AbstractAws):
    """Asks AWS through boto3, with the credentials that boto3 finds.

    Raises:
        InputError: boto3 is not installed.
        CloudRefused: the profile that the environment names does not exist.
    """

    def __init__(self) -> None:
        try:
            import boto3.session
            import botocore.config
            import botocore.exceptions
        except ImportError:
            raise InputError(
                "asking AWS needs boto3; install srifty[aws] (pip install 'srifty[aws]'). Prices "
                "can be imported from a file without it: srifty catalog import FILE.csv --cloud aws"
            ) from None
        self._errors: Any = botocore.exceptions
        self._config: Any = botocore.config.Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"mode": "adaptive", "total_max_attempts": _ATTEMPTS},
            user_agent_extra="srifty",
        )
        try:
            self._session: Any = boto3.session.Session()
        except botocore.exceptions.BotoCoreError as error:
            raise CloudRefused(f"AWS: {scrub(str(error))}") from None
        self._clients: dict[tuple[str, str], Any] = {}

    def check_region(self, region: str) -> None:
        """Raises `CloudRefused` where boto3 knows no such region."""
        known: list[str] = self._session.get_available_regions("ec2")
        if region not in known:
            near = [name for name in known if name.split("-")[0] == region.split("-")[0]]
            raise CloudRefused(
                f"AWS has no region {region!r} that this boto3 knows; there are "
                f"{', '.join(sorted(near or known))}"
            )

    def pages(self, call: ApiCall) -> Iterator[Mapping[str, Any]]:
        """Yields the pages of an answer; see `AbstractAws.pages`."""
        errors = self._errors
        try:
            client = self._of(call)
            if client.can_paginate(call.operation):
                yield from client.get_paginator(call.operation).paginate(**call.request)
            else:
                yield getattr(client, call.operation)(**call.request)
        except (
            errors.NoCredentialsError,
            errors.PartialCredentialsError,
            errors.CredentialRetrievalError,
            errors.TokenRetrievalError,
            errors.SSOError,
            errors.ProfileNotFound,
        ) as error:
            raise CloudRefused(
                f"AWS: {scrub(str(error))}. Give credentials as for the AWS command line: `aws "
                "configure`, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from None
        except errors.ClientError as error:
            said: Mapping[str, Any] = error.response.get("Error", {})
            code = scrub(str(said.get("Code", "unknown")))
            message = scrub(str(said.get("Message", "")))
            raise CallError(code, message, denied=code in _DENIED) from None
        except errors.BotoCoreError as error:
            raise CallError(type(error).__name__, scrub(str(error)), denied=False) from None

    def _of(self, call: ApiCall) -> Any:
        key = (call.service, call.region)
        if key not in self._clients:
            self._clients[key] = self._session.client(
                call.service, region_name=call.region, config=self._config
            )
        return self._clients[key]
