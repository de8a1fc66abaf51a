"""Torch modules that wait as long as a GPU would compute, and whose gradients are real.

A layer runs on a virtual stream: work is appended to its end, and the thread sleeps until that end.
So what Python takes between two layers does not add up, as it does not on a GPU whose queue is
never empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.testbed.clock import wait_until
from benchmarks.testbed.layers import layers_of
from benchmarks.testbed.pace import FORWARD_SHARE, Pace

Factor = Callable[[], float]


class Stream:
    """Work in order, each piece as long as it is said to take.

    Args:
        step_factor: gives the factor on all times of the step that begins.
    """

    def __init__(self, step_factor: Factor = lambda: 1.0) -> None:
        self._end_s = 0.0
        self._step_factor = step_factor
        self._factor = 1.0

    def begin_step(self) -> None:
        """Starts a step now; draws its factor."""
        self._factor = self._step_factor()
        self.catch_up()

    def catch_up(self) -> None:
        """Lets nothing appended from now on begin before now: the device was idle."""
        self._end_s = max(self._end_s, time.perf_counter())

    def run(self, seconds: float) -> None:
        """Appends work and waits for its end."""
        self._end_s += seconds * self._factor
        wait_until(self._end_s)


class _Layer(torch.autograd.Function):
    """One layer: the identity, with a weight whose gradient has one value everywhere."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: EmulatedModel, at: int):
        ctx.layer, ctx.at, ctx.shape, ctx.batch = layer, at, weight.shape, int(x.shape[0])
        layer.wait(at, ctx.batch, FORWARD_SHARE)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor):
        weight = torch.full(ctx.shape, ctx.layer.gradient)
        ctx.layer.wait(ctx.at, ctx.batch, 1 - FORWARD_SHARE)
        return gradients[0], weight, None, None


class EmulatedModel(torch.nn.Module):
    """A model of the layer tables at the pace of a GPU.

    Args:
        model: one of `layers.MODELS`.
        pace: how fast the GPU is.
        stream: what the work runs on.
        gradient: value of every element of every gradient.
    """

    def __init__(self, model: str, pace: Pace, stream: Stream, gradient: float = 1.0) -> None:
        super().__init__()
        self._layers = layers_of(model)
        self.pace, self.stream, self.gradient = pace, stream, gradient
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(layer.elements)) for layer in self._layers
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the batch as it came, after the forward pass's time.

        Args:
            x: (B, 1) samples.
        """
        self.stream.begin_step()
        for at, weight in enumerate(self.weights):
            x = _Layer.apply(x, weight, self, at)
        return x

    def wait(self, at: int, batch: int, share: float) -> None:
        """Waits for a layer's part of one of the passes.

        Args:
            at: the layer.
            batch: samples.
            share: the pass's part of forward and backward together.
        """
        self.stream.run(share * self._layers[at].share * self.pace.passes_s(batch))


class WaitingOptimizer(torch.optim.Optimizer):
    """Waits as long as an optimizer step takes, and changes nothing."""

    def __init__(self, model: EmulatedModel) -> None:
        super().__init__(model.parameters(), {})
        self._model = model

    def step(self, closure: Any = None) -> None:
        """Waits."""
        del closure
        self._model.stream.catch_up()
        self._model.stream.run(self._model.pace.optimizer_s)
