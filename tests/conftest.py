"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings


@pytest.fixture(autouse=True)
def _nothing_of_the_developers(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_CATALOG", str(tmp_path / "no-catalog" / "catalog.csv"))
    monkeypatch.setenv("SRIFTY_DB", str(tmp_path / "no-store" / "srifty.db"))


# No test fails on the clock: on a busy machine examples take long to draw and to run. Where nobody
# can look at a new example, they are always the same ones; elsewhere each run tries others.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", _PATIENT)
settings.register_profile("ci", _PATIENT, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "patient")
