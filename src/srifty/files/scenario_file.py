"""Scenario files: what the cloud that is played on this machine does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError

from srifty.core.offers import Market
from srifty.core.scenario import Act, Happening, PoolScript, Scenario, Supply
from srifty.errors import InputError, Problem
from srifty.files._fields import Duration, choice
from srifty.files._reading import Count, FileModel, Name, problems_of, raise_problems, shown
from srifty.files._yaml import load_yaml
from srifty.files.spot_trace_csv import TraceChoice, read_supply
from srifty.inputs import read_text

_KIND = "scenario file (YAML)"


def _act(value: Any) -> Act:
    return cast("Act", choice(Act, value))


def _market(value: Any) -> Market:
    return cast("Market", choice(Market, value))


def _least_zero(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be a whole number of at least 0, not {shown(value)}")
    return value


class _HappeningPart(FileModel):
    """What happens to the nth VM of a pool."""

    nth: Count
    act: Annotated[Act, PlainValidator(_act)]
    at: Duration | None = None
    after: Duration | None = None
    at_iteration: Annotated[int, PlainValidator(_least_zero)] | None = None
    notice: Duration = 0.0
    factor: float = 1.0
    lasts: Annotated[Duration | None, Field(alias="for")] = None
    by: Duration = 0.0

    def value(self) -> Happening:
        """Returns it as the core has it; raises `InputError` where it makes no sense."""
        return Happening(
            self.act,
            at_s=self.at,
            after_s=self.after,
            at_iteration=self.at_iteration,
            notice_s=self.notice,
            factor=self.factor,
            lasts_s=self.lasts,
            by_s=self.by,
        )


class _TracePart(FileModel):
    """A trace of spot VMs."""

    trace: Name
    rows: dict[str, str]
    start: Duration = 0.0
    inverted: bool = False
    times: Count = 1


class _StepPart(FileModel):
    """How many VMs there are from a time on."""

    at: Duration
    vms: Annotated[int, PlainValidator(_least_zero)]


def _supply(value: Any) -> Any:
    """Returns a bare number as a supply that never changes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [{"at": "0s", "vms": value}]
    return value


class _PoolPart(FileModel):
    """How one pool behaves."""

    type: Name | None = None
    zone: Name | None = None
    market: Annotated[Market, PlainValidator(_market)] | None = None
    boot: Duration = 0.0
    supply: Annotated[list[_StepPart] | _TracePart | None, BeforeValidator(_supply)] = None
    notice: Duration = 0.0
    answers: list[str | None] = Field(default_factory=list[str | None])
    vms: list[_HappeningPart] = Field(default_factory=list[_HappeningPart])
    link_mbit: float | None = None


class _ScenarioPart(FileModel):
    """The whole file."""

    clock_factor: float = 1.0
    pools: list[_PoolPart] = Field(default_factory=list[_PoolPart])


def read_scenario(path: Path) -> Scenario:
    """Returns what a scenario file says.

    Raises:
        InputError: the file, or a trace that it names, cannot be read or makes no sense; all that
            is wrong is reported together.
    """
    source = str(path)
    document = load_yaml(read_text(path, _KIND), source, _KIND)
    if not isinstance(document, Mapping):
        raise InputError(f"must be a mapping of keys to values; a {_KIND} was expected", source)
    try:
        part = _ScenarioPart.model_validate(document)
    except ValidationError as error:
        raise InputError(problems_of(error), source) from None
    problems: list[Problem] = []
    scripts: list[PoolScript] = []
    for place, pool in enumerate(part.pools):
        try:
            scripts.append(_script(pool, path.parent))
        except InputError as error:
            where = f"pools.{place}" if error.source is None else f"pools.{place}.supply.trace"
            problems.append(Problem(where, str(error)))
    raise_problems(problems, source)
    try:
        return Scenario(tuple(scripts), part.clock_factor)
    except InputError as error:
        raise InputError(error.problems, source) from None


def _script(pool: _PoolPart, folder: Path) -> PoolScript:
    return PoolScript(
        instance_type=pool.type,
        zone=pool.zone,
        market=pool.market,
        boot_s=pool.boot,
        supply=_steps(pool.supply, folder),
        notice_s=pool.notice,
        answers=tuple(pool.answers),
        happenings=tuple((what.nth, what.value()) for what in pool.vms),
        link_mbit=pool.link_mbit,
    )


def _steps(supply: list[_StepPart] | _TracePart | None, folder: Path) -> tuple[Supply, ...]:
    if supply is None:
        return ()
    if isinstance(supply, _TracePart):
        chosen = TraceChoice(supply.rows, supply.start, supply.inverted, supply.times)
        return read_supply(folder / supply.trace, chosen)
    return tuple(Supply(step.at, step.vms) for step in supply)
