"""Training on unequal workers with exactly one worker's gradient (needs torch).

A script imports this as `st`, wraps its model with `distribute` and makes its loss with
`mean_loss`, `sum_loss` or `item_loss`; otherwise it stays an ordinary torchrun script. With a
`GlobalBatchSampler`, a `Run` and `steps` it can be stopped, killed, and gone on with on others.
"""

from srifty.training.batch_norm import SyncBatchNorm, combine_statistics, sync_batch_norm
from srifty.training.checkpoint import Checkpoint
from srifty.training.current import current_share
from srifty.training.distribute import distribute
from srifty.training.losses import ItemTotal, item_loss, item_total, mean_loss, sum_loss
from srifty.training.notices import Ec2Notices, GcpNotices, Notice
from srifty.training.order import seed_of
from srifty.training.passes import passes
from srifty.training.run import Run
from srifty.training.sampler import GlobalBatchSampler
from srifty.training.saver import Checkpoints
from srifty.training.share import Share
from srifty.training.steps import steps
from srifty.training.stream import GlobalBatchStream
from srifty.training.verify import Verification, verify

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Ec2Notices",
    "GcpNotices",
    "GlobalBatchSampler",
    "GlobalBatchStream",
    "ItemTotal",
    "Notice",
    "Run",
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
    "seed_of",
    "steps",
    "sum_loss",
    "sync_batch_norm",
    "verify",
]
