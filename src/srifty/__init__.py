"""Srifty plans, runs and watches data-parallel training jobs on mixed cloud GPU VMs."""

__version__ = "0.1.0"
