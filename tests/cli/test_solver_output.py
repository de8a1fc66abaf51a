from __future__ import annotations

import os

import pytest

from srifty.cli._solver_output import solver_output_to_stderr


def test_native_output_goes_to_standard_error_and_comes_back(capfd):
    def solve() -> None:
        with solver_output_to_stderr():
            os.write(1, b"a solver's remark\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve()
    os.write(1, b"the answer\n")
    assert capfd.readouterr() == ("the answer\n", "a solver's remark\n")
