"""What holds for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_catalog_of_the_developers(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_CATALOG", str(tmp_path / "no-catalog" / "catalog.csv"))
