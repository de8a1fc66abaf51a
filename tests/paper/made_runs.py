"""Made-up runs with forecasts, for tests of what is done with them."""

import numpy as np
from benchmarks.paper.forecasts import Forecasts

from srifty.core.observation import Observation


def forecasts(rows, name="made", *, width=0.1):
    """Rows are (workload, GPUs per VM, batch, measured, ours, APM's, linear[, sync])."""
    ours = np.array([row[4] for row in rows], dtype=float)
    return Forecasts(
        name=name,
        runs=tuple(Observation(w, "T4", "g4dn.12xlarge", g, b, m) for w, g, b, m, *_ in rows),
        measured_s=np.array([row[3] for row in rows], dtype=float),
        mean_s=ours,
        p10_s=ours * (1 - width),
        p90_s=ours * (1 + width),
        apm_s=np.array([row[5] for row in rows], dtype=float),
        linear_s=np.array([row[6] for row in rows], dtype=float),
        exposed_s=ours - np.array([row[6] for row in rows], dtype=float),
        sync_s=np.array([row[7] if len(row) > 7 else np.nan for row in rows]),
        host=np.full(len(rows), np.nan),
        regime=np.array(["compute-bound"] * len(rows)),
    )
