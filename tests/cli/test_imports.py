"""What a command loads: `--help` nothing heavy, and `plan` no torch."""

import json
import subprocess
import sys

import pytest

from tests.command import write_job

_REPORT = """
import json, sys
sys.argv = ["srifty", *{arguments!r}]
from srifty.cli.main import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def modules(*arguments):
    """Names of the modules that a fresh process has loaded once the command is done."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT.format(arguments=[*map(str, arguments)])],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_help_loads_nothing_heavy():
    loaded = modules("--help")
    heavy = {"numpy", "scipy", "pydantic", "yaml", "torch", "ray", "boto3", "matplotlib"}
    assert not heavy & loaded
    ours = {name for name in loaded if name.startswith("srifty")}
    assert ours == {
        "srifty",
        "srifty.cli",
        "srifty.cli.main",
        "srifty.cli.start",
        "srifty.errors",
    }


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_planning_loads_no_torch(tmp_path, command):
    config = ["--config", "4g4dn.xlarge@16"] if command == "simulate" else []
    loaded = modules(command, write_job(tmp_path), *config)
    assert "srifty.simulator" in loaded
    assert not {"torch", "ray", "boto3", "matplotlib", "optuna"} & loaded
