"""What Ray's cluster launcher leaves on the head that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

_CLUSTER_FILE = "~/ray_bootstrap_config.yaml"


def is_head() -> bool:
    """Whether this machine is the head of a cluster that Ray's launcher made."""
    return Path(_CLUSTER_FILE).expanduser().exists()


def node_types() -> frozenset[str]:
    """Returns the node types that this head's autoscaler can make; none where it is no head."""
    try:
        text = Path(_CLUSTER_FILE).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        return frozenset()
    cluster = cast("dict[str, Any]", yaml.safe_load(text))
    return frozenset(cluster.get("available_node_types", {}))
