"""The variables by which a back end tells workers about their run; `srifty.training` reads them."""

from __future__ import annotations

SHARES = "SRIFTY_SHARES"
CHECKPOINT = "SRIFTY_CHECKPOINT"
PROGRESS = "SRIFTY_PROGRESS"
STOP = "SRIFTY_STOP"
NOTICES = "SRIFTY_NOTICES"
PACE = "SRIFTY_PACE"
