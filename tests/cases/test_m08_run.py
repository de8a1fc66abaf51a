"""M08 in a run: VMs of different hosts try real exchanges before the plan is paid for."""

import pytest

from .jobs import profile, write_case
from .runs import own_runs, run, status


def test_types_exchange_one_of_each_first_and_then_all(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is an extra")
    offers = {
        "quota": {"g5.xlarge": 1, "g4dn.xlarge": 2},
        "prices": {n: {"on-demand": 1.0} for n in ("g5.xlarge", "g4dn.xlarge")},
    }
    with own_runs(tmp_path, monkeypatch):
        path = write_case(
            tmp_path, offers, profile("A10G"), profile("T4"), iterations=5, budget_usd=5,
            minimize="time", confidence=0.5, overheads={"launch": "1s"},
        )  # fmt: skip
        ended = run(path, "--preflight", steps=5)
        assert ended.code == 0, ended.err
        lines = ended.err.splitlines()
        pair = next(i for i, line in enumerate(lines) if "tries an exchange between g4dn" in line)
        rest = next(i for i, line in enumerate(lines) if "asks for 1 x g4dn.xlarge" in line)
        assert "g4dn.xlarge and g5.xlarge exchange as they should" in ended.err
        assert "tries an exchange between vm-" in ended.err
        assert pair < len(lines)
        assert rest < len(lines)
        assert "+" in status()["worlds"][-1]["config"]
