"""Forecasts: what the simulator says of one configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IterationForecast:
    """One iteration of one cluster configuration; all in seconds.

    `exposed_exchange_s` is what the exchange adds after the slowest worker's backward pass, so that
    `forward_s + backward_s + exposed_exchange_s + optimizer_s` is the mean unless input is the
    bottleneck.

    Attributes:
        mean_s: mean iteration time.
        step_std_s: standard deviation from one iteration to the next.
        allocation_std_s: spread between allocations of VMs (network).
        gpu_std_s: spread between GPUs of one type.
        model_std_s: error of the latency and allreduce models.
        forward_s: forward part of the slowest worker, all passes.
        backward_s: backward part of the slowest worker, all passes.
        exchange_s: from backward start of the last pass to the end of the last allreduce.
        exposed_exchange_s: the part of the exchange that computation does not hide.
        optimizer_s: optimizer step.
        input_s: time the slowest VM needs to deliver its samples; 0 where unknown.
    """

    mean_s: float
    step_std_s: float
    allocation_std_s: float
    gpu_std_s: float
    model_std_s: float
    forward_s: float
    backward_s: float
    exchange_s: float
    exposed_exchange_s: float
    optimizer_s: float
    input_s: float

    @property
    def persistent_std_s(self) -> float:
        """Standard deviation of what does not average out over a job's iterations."""
        return (self.allocation_std_s**2 + self.gpu_std_s**2 + self.model_std_s**2) ** 0.5

    @property
    def is_input_bound(self) -> bool:
        """Whether the loader, not the GPUs or the network, sets the pace."""
        return self.input_s >= self.mean_s


@dataclass(frozen=True, slots=True)
class Distribution:
    """A forecast quantity.

    Attributes:
        mean: expectation.
        std: standard deviation.
        p50: median.
        p90: 90th percentile.
        p95: 95th percentile.
    """

    mean: float
    std: float
    p50: float
    p90: float
    p95: float


@dataclass(frozen=True, slots=True)
class Interruptions:
    """What is to be expected of VMs that the provider takes away.

    Attributes:
        expected: how many times one is taken away while the job lasts.
        none_probability: chance that none is.
        undisturbed_s: expected seconds of the job if none is.
        lost_s: expected seconds that they cost: work done twice, and waiting.
        checkpoint_every: iterations between two checkpoints; None: none is made.
        checkpoint_interval_s: seconds between two checkpoints; None: none is made.
    """

    expected: float
    none_probability: float
    undisturbed_s: float
    lost_s: float
    checkpoint_every: int | None
    checkpoint_interval_s: float | None


@dataclass(frozen=True, slots=True)
class JobForecast:
    """A whole job on one configuration.

    Attributes:
        iteration: the iteration it is made of.
        iteration_s: distribution of the iteration time.
        time_s: seconds from the command to the end, launch included.
        cost_usd: dollars of the whole run.
        traffic_usd: dollars of them for bytes that cross zones.
        interruptions: what spot VMs that are taken away do to it; None where none can be.
        success_probability: chance that deadline and budget both hold; 1 without limits.
    """

    iteration: IterationForecast
    iteration_s: Distribution
    time_s: Distribution
    cost_usd: Distribution
    success_probability: float
    traffic_usd: float = 0.0
    interruptions: Interruptions | None = None
