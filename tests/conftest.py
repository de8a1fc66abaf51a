"""What holds for all tests."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A shell that starts the tests in the background has them ignore Ctrl-C; commands under test, which
# inherit that, must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Never two at once: those that use the machine's network namespaces and real-time priority, those
# that start Ray, and (two at once) runs that are played on a faster clock, to which a busy machine
# is a slow one.
_ALONE = {
    "machine": (
        "testbed/",
        "cloud/local/test_links.py",
        "control/test_chaos.py",
        "paper/test_cases_measured.py",
    ),
    "ray": ("cloud/ray_backend/test_backend.py", "cli/test_run_on_ray.py"),
    "played": ("cases/", "cli/test_run.py", "cloud/local/"),
    "controlled": ("control/",),
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Several workers (`-n`) share the tests file by file."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return next((name for name, these in _ALONE.items() if file.startswith(these)), file)

    return ByFile(config, log)


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
