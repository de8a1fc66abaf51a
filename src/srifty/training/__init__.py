"""Training on unequal workers with exactly one worker's gradient (needs torch).

A script imports this as `st`, wraps its model with `distribute` and makes its loss with
`mean_loss`, `sum_loss` or `item_loss`; otherwise it stays an ordinary torchrun script.
"""

from srifty.training.batch_norm import SyncBatchNorm, combine_statistics, sync_batch_norm
from srifty.training.current import current_share
from srifty.training.distribute import distribute
from srifty.training.losses import ItemTotal, item_loss, item_total, mean_loss, sum_loss
from srifty.training.passes import passes
from srifty.training.share import Share
from srifty.training.verify import Verification, verify

__all__ = [
    "ItemTotal",
    "Share",
    "SyncBatchNorm",
    "Verification",
    "combine_statistics",
    "current_share",
    "distribute",
    "item_loss",
    "item_total",
    "mean_loss",
    "passes",
    "sum_loss",
    "sync_batch_norm",
    "verify",
]
