"""Hugging Face's Trainer on unequal workers: what it loads, its loss, and where it goes on.

Its own checkpoints, callbacks and arguments stay as they are. Train by steps (`max_steps`), with
`gradient_accumulation_steps=1`, `remove_unused_columns=False` where your dataset asks for it, and
`ignore_data_skip=True`: the sampler starts where it should, without reading over the samples before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback

import srifty.training as st


class StartWhereItStopped(TrainerCallback):
    """Has the sampler begin at the step that the Trainer begins with."""

    def __init__(self, sampler: st.GlobalBatchSampler) -> None:
        self.sampler = sampler

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Called once the Trainer has loaded its checkpoint, if any."""
        self.sampler.start_at(state.global_step)


class SriftyTrainer(Trainer):
    """A Trainer for causal language models; each token of the global batch counts equally."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Returns this worker's part of each global batch."""
        share = st.current_share()
        sampler = st.GlobalBatchSampler(
            self.train_dataset, share, seed=self.args.data_seed or 0, steps=self.args.max_steps
        )
        self.add_callback(StartWhereItStopped(sampler))
        # Not through the accelerator: it would deal the worker's part to the workers once more.
        return DataLoader(self.train_dataset, batch_sampler=sampler, collate_fn=self.data_collator)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any
    ) -> torch.Tensor | tuple[torch.Tensor, Any]:
        """Returns the worker's part of the mean over all tokens that have a label."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs)
        labels = inputs["labels"][:, 1:]
        outputs = model(**{name: one for name, one in inputs.items() if name != "labels"})
        sums = cross_entropy(outputs.logits[:, :-1].mT, labels, reduction="sum")
        loss = st.item_loss(sums, (labels != -100).sum())
        return (loss, outputs) if return_outputs else loss
