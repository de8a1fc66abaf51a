"""What a run needs on its VMs: image, set-up, code, secrets, network, tags."""

from __future__ import annotations

import re
from dataclasses import dataclass

from srifty.core._checks import require

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the VMs of a run are set up.

    Attributes:
        image: machine or container image; None: the back end's own.
        setup: shell commands that are run once on each VM, in this order.
        workdir: folder that holds the code; workers start in it.
        data: where the data lie; None: the script knows.
        checkpoint: folder or URL of the checkpoints; None: the back end's own place.
        env: variables of the workers, name and value.
        secrets: names of variables whose values are taken from the controller's environment; the
            values are kept nowhere.
        ssh_user: the user on the VMs; None: the image's own.
        subnet: name of the subnet; None: the cloud's default.
        security_groups: names of the security groups.
        instance_profile: the identity that the VMs act as; None: none.
        tags: of each VM, name and value.
    """

    image: str | None = None
    setup: tuple[str, ...] = ()
    workdir: str = "."
    data: str | None = None
    checkpoint: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    ssh_user: str | None = None
    subnet: str | None = None
    security_groups: tuple[str, ...] = ()
    instance_profile: str | None = None
    tags: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.env]
        for name in (*names, *self.secrets):
            require(
                _VARIABLE.fullmatch(name) is not None,
                f"{name!r} is no name of a variable; use letters, digits and underscores",
            )
        both = sorted(set(names) & set(self.secrets))
        require(
            not both,
            f"{', '.join(both)}: named in both env and secrets; a secret is given by name alone",
        )
