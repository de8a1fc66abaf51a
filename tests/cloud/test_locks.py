from __future__ import annotations

import os

from srifty.cloud.locks import holder, take_lock


def test_a_lock_is_held_by_one_until_it_is_closed(tmp_path):
    path = tmp_path / "lock"
    assert holder(path) is None
    held = take_lock(path)
    assert held is not None
    assert take_lock(path) is None
    assert holder(path) == os.getpid()
    os.close(held)
    assert holder(path) is None
    again = take_lock(path)
    assert again is not None
    os.close(again)
