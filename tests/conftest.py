"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings


@pytest.fixture(autouse=True)
def _nothing_of_the_developers(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_CATALOG", str(tmp_path / "no-catalog" / "catalog.csv"))
    monkeypatch.setenv("SRIFTY_DB", str(tmp_path / "no-store" / "srifty.db"))


# Where nobody can look at a new example, the examples are always the same ones; elsewhere each run
# tries others.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
