"""What can be rented, where, at what price: built-in tables and the job's own offers."""

from srifty.catalog.builtin import (
    builtin_billing_rules,
    builtin_gpus,
    builtin_instance_types,
    builtin_prices,
    builtin_sources,
)
from srifty.catalog.resolve import Resolved, resolve

__all__ = [
    "Resolved",
    "builtin_billing_rules",
    "builtin_gpus",
    "builtin_instance_types",
    "builtin_prices",
    "builtin_sources",
    "resolve",
]
