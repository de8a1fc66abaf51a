"""Experiments: each a script with one documented command, run from the repository root."""
