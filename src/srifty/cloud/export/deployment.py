"""What is exported, and what comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from srifty.core._checks import require
from srifty.core.offers import Location, Market
from srifty.core.written import WrittenGroup, WrittenPlan
from srifty.errors import InputError

SHARES = "SRIFTY_SHARES"
CHECKPOINT = "SRIFTY_CHECKPOINT"
NOTICES = "SRIFTY_NOTICES"
DATA = "SRIFTY_DATA"

# Which service tells a VM that it will be taken away, by cloud.
_NOTICES = {"aws": "ec2", "gcp": "gcp"}
_MOST_NAME = 30
_ZONE_ID = re.compile(r"[a-z]{2,5}[0-9]-[a-z0-9-]*az[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A plan with what it is to run.

    Attributes:
        plan: the VMs and who does what.
        command: the training script and its arguments; `-m` and a module will do as well.
        project: project of Google Cloud; None: not known.
        zone_names: what an account calls the zones of a plan that go by ids (`use1-az5`).
    """

    plan: WrittenPlan
    command: tuple[str, ...]
    project: str | None = None
    zone_names: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        require(
            bool(self.command) and bool(self.command[0]),
            "a plan needs something to run: name the training script",
        )

    @property
    def name(self) -> str:
        """The job's name as all launchers take it: letters, digits and hyphens, in lower case."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.plan.job.lower()).strip("-")[:_MOST_NAME].strip("-")
        if not slug:
            return "srifty"
        return slug if slug[0].isalpha() else f"job-{slug}"[:_MOST_NAME].strip("-")

    def variables(self, *, notices: bool = True) -> tuple[tuple[str, str], ...]:
        """Returns what the workers' environment holds beside torchrun's; secrets are not in it.

        Args:
            notices: whether workers may ask the cloud if their VM is being taken away.
        """
        settings = self.plan.settings
        ours = [(SHARES, self.plan.shares)]
        if settings.checkpoint is not None:
            ours.append((CHECKPOINT, settings.checkpoint))
        if settings.data is not None:
            ours.append((DATA, settings.data))
        spot = {group.cloud or "" for group in self.plan.groups if group.market is Market.SPOT}
        services = sorted({_NOTICES[cloud] for cloud in spot if cloud in _NOTICES})
        if notices and services:
            ours.append((NOTICES, ",".join(services)))
        return (*settings.env, *ours)

    def zone(self, location: Location) -> str | None:
        """Returns the zone as the account names it, where that is known; else as the plan does."""
        return dict(self.zone_names).get(location.zone or "", location.zone)

    def clouds(self) -> tuple[str, ...]:
        """Returns the clouds of the plan.

        Raises:
            InputError: the plan does not say.
        """
        clouds = [group.cloud for group in self.plan.groups]
        known = tuple(dict.fromkeys(cloud for cloud in clouds if cloud is not None))
        if None in clouds:
            raise InputError("the plan does not say which cloud its types are of; plan again")
        return known

    def describe(self) -> tuple[str, ...]:
        """Returns a line for each group: its VMs, where they are, and each worker's samples."""
        return tuple(
            f"{_span(self.plan.first_vm(place), group.count)}: {_line(group)}"
            for place, group in enumerate(self.plan.groups)
        )


@dataclass(frozen=True, slots=True)
class Exported:
    """A plan in a launcher's own words.

    Attributes:
        text: the file.
        file_name: what such files are called.
        start: the commands that start it; each a line.
        notes: what is to be known before; full sentences.
    """

    text: str
    file_name: str
    start: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())


def is_zone_id(zone: str) -> bool:
    """Whether a zone goes by an id that means the same in all accounts, unlike its name."""
    return _ZONE_ID.fullmatch(zone) is not None


def _span(first: int, count: int) -> str:
    return f"VM {first}" if count == 1 else f"VMs {first} to {first + count - 1}"


def _line(group: WrittenGroup) -> str:
    samples = ",".join(map(str, group.local_batch))
    passes = f" in {group.accumulation} passes" if group.accumulation > 1 else ""
    return (
        f"{group.instance_type} ({group.market}, {group.location}), "
        f"{group.workers} of {group.gpus} GPUs, samples {samples}{passes}"
    )
