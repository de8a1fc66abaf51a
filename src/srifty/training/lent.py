"""Tensors that gloo's threads may still hold when the process ends.

A thread of gloo lets go of what it sent a moment after it has said that it is done. If that is the
last reference to a Python object, and the interpreter is already coming down, the thread cannot
give it back, and the process aborts after all its work is done. So the last tensors that were sent
are kept until the interpreter is about to end, and it waits until nobody else holds them.
"""

from __future__ import annotations

import atexit
import time
from collections import deque
from typing import Any

from srifty._torch import Tensor

# Each thread holds one at most; groups have two threads each, and there are a few groups.
_MOST = 16
_PATIENCE_S = 5.0
_LOOK_EVERY_S = 0.001

_lent: deque[Tensor] = deque(maxlen=_MOST)


def lend(tensor: Tensor) -> Tensor:
    """Returns a tensor that is about to be sent, once it is sure to outlive the sending."""
    if tensor.device.type == "cpu":
        _lent.append(tensor)
    return tensor


@atexit.register
def await_lent() -> None:
    """Waits until only this process's own code holds what was sent last, some seconds at most."""
    until_s = time.monotonic() + _PATIENCE_S
    while _lent and time.monotonic() < until_s:
        last: Any = _lent[-1]
        # Underscored, and absent in older versions: then all that helps is some time.
        if not hasattr(last, "_use_count"):
            time.sleep(10 * _LOOK_EVERY_S)
            return
        if last._use_count() > 1:
            time.sleep(_LOOK_EVERY_S)
        else:
            _lent.pop()
