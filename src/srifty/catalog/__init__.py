"""What can be rented, where, at what price: built-in tables and the job's own offers."""

from srifty.catalog.ages import PriceNote, price_notes, spot_cost_range_usd
from srifty.catalog.builtin import (
    builtin_billing_rules,
    builtin_gpus,
    builtin_instance_types,
    builtin_interruptions,
    builtin_prices,
    builtin_sources,
)
from srifty.catalog.hosts import mixed_host_warnings
from srifty.catalog.interruptions import interruption_notes
from srifty.catalog.network import network_notes
from srifty.catalog.resolve import Resolved, resolve

__all__ = [
    "PriceNote",
    "Resolved",
    "builtin_billing_rules",
    "builtin_gpus",
    "builtin_instance_types",
    "builtin_interruptions",
    "builtin_prices",
    "builtin_sources",
    "interruption_notes",
    "mixed_host_warnings",
    "network_notes",
    "price_notes",
    "resolve",
    "spot_cost_range_usd",
]
