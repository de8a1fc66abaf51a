"""Ray's cluster launcher: what `ray up` and `ray down` do."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from srifty.errors import CloudRefused


def bring_up(cluster: Mapping[str, Any]) -> None:
    """Makes a cluster's head, or gives a running one its new node types.

    Raises:
        CloudRefused: the cloud did not make it.
    """
    sdk: Any = importlib.import_module("ray.autoscaler.sdk")
    try:
        sdk.create_or_update_cluster(dict(cluster), no_restart=True)
    except Exception as error:  # Ray raises whatever the cloud's own library does
        raise CloudRefused(f"the cluster could not be made: {error}") from error


def take_down(cluster: Mapping[str, Any]) -> None:
    """Ends a cluster, its head included.

    Raises:
        CloudRefused: the cloud did not end it.
    """
    sdk: Any = importlib.import_module("ray.autoscaler.sdk")
    try:
        sdk.teardown_cluster(dict(cluster))
    except Exception as error:
        raise CloudRefused(f"the cluster could not be ended: {error}") from error
