"""What a run's ledger keeps: the run, its controller's steps, the VMs asked for, forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srifty.control.bill import PaidPrice
from srifty.core.events import Decision, Pool
from srifty.core.notation import format_config
from srifty.core.offers import Offer


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run is.

    Attributes:
        run_id: its name.
        user: whose it is.
        backend: name of the back end.
        began_unix_s: when the command was given, seconds since 1970.
        clock_factor: seconds of the run that pass in one real second.
        document: whatever a resuming controller needs (job, command, limits), as JSON values.
        ended_s: when it ended; None: it has not.
        outcome: how it ended, as JSON values; None: it has not.
    """

    run_id: str
    user: str
    backend: str
    began_unix_s: float
    clock_factor: float
    document: Mapping[str, Any]
    ended_s: float | None = None
    outcome: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AskedVm:
    """A VM that is going to be asked for, and what it will cost.

    Attributes:
        vm: its name.
        pool: where it is to come from.
        gpus: workers that it can have.
        provider: who bills it.
        rented_on: ISO date, which says the billing rule.
        price: the price that was agreed to.
    """

    vm: str
    pool: Pool
    gpus: int
    provider: str
    rented_on: str
    price: PaidPrice

    @classmethod
    def of(cls, vm: str, offer: Offer, *, at_s: float, rented_on: str) -> AskedVm:
        """Returns a VM of an offer, at its price."""
        source = offer.price_source
        if offer.price_date:
            source = f"{source}, {offer.price_date}"
        return cls(
            vm,
            Pool.of(offer),
            offer.instance_type.gpus,
            offer.instance_type.cloud,
            rented_on,
            PaidPrice(at_s, offer.usd_per_hour, source),
        )


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of the controller's.

    Attributes:
        number: by which it is done.
        kind: what it is.
        document: what it needs to be done, as JSON values.
        begun_s: when it was begun.
        done_s: when it was done; None: nobody knows whether it was.
        outcome: what came of it; None: nothing was said.
    """

    number: int
    kind: str
    document: Mapping[str, Any]
    begun_s: float
    done_s: float | None = None
    outcome: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """A forecast, and what came of it.

    Attributes:
        number: by which it is closed.
        made_s: when it was made.
        document: what it says, as JSON values.
        ended_s: when what it speaks of ended; None: it has not.
        outcome: what came, in the document's words; None: not known.
    """

    number: int
    made_s: float
    document: Mapping[str, Any]
    ended_s: float | None = None
    outcome: Mapping[str, Any] | None = None


def decision_document(decision: Decision) -> dict[str, Any]:
    """Returns a decision and its figures as JSON values."""
    return {
        "at_s": decision.at_s,
        "kind": decision.kind.value,
        "cause": decision.cause.name.lower(),
        "because": decision.cause.value,
        "config": None if decision.config is None else format_config(decision.config),
        "look_again_s": decision.look_again_s,
        "train_on": decision.train_on,
        "replace": list(decision.replace),
        "numbers": dict(decision.numbers),
    }
