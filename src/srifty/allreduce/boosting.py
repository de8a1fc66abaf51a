"""How boosted trees are grown; apart from the trees, so that nobody imports XGBoost for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class BoostingOptions:
    """How the trees are grown; the defaults do well on public logs, `srifty allreduce fit` tunes.

    Attributes:
        rounds: number of trees.
        learning_rate: shrinkage of each tree.
        max_depth: depth of each tree.
        min_child_weight: least weight of the samples in a leaf.
        subsample: share of the samples that each tree sees.
        reg_lambda: L2 penalty of the leaf values.
        objective: XGBoost's loss, `reg:squarederror` or `reg:pseudohubererror`.
        seed: seed of the subsampling.
    """

    rounds: int = 300
    learning_rate: float = 0.08
    max_depth: int = 6
    min_child_weight: float = 2.0
    subsample: float = 0.8
    reg_lambda: float = 1.0
    objective: str = "reg:squarederror"
    seed: int = 0

    def parameters(self) -> dict[str, Any]:
        """Returns them as XGBoost names them."""
        return {k: v for k, v in asdict(self).items() if k != "rounds"} | {
            "tree_method": "hist",
            "max_cat_to_onehot": 4,
            "nthread": 1,  # thousands of rows: more threads wait for each other
        }
