"""What the tests that build a bed share."""

from __future__ import annotations

import pytest
from benchmarks.testbed.preflight import preflight

_MISSING = preflight()
needs_bed = pytest.mark.skipif(bool(_MISSING), reason=" ".join(_MISSING) or "all is there")
