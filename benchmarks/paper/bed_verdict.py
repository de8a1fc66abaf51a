"""What the measurements say of the choices: gaps, limits, noise. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.paper.bed_jobs import BedCase, Config
from benchmarks.paper.bed_plans import OURS, OURS_ANY, OURS_POWERS, Chosen
from benchmarks.paper.bed_runs import Measurement


@dataclass(frozen=True)
class Found:
    """A case with all that is known of it.

    Attributes:
        case: the case.
        configs: all of its configurations.
        measured: what was measured, by configuration; choices outside `configs` among them.
        forecast_s: Srifty's forecasts of an iteration, by configuration.
        chosen: what each method chose, ours first.
        oracle_values: the objective that Oracle BO ends with from other starts.
    """

    case: BedCase
    configs: tuple[Config, ...]
    measured: Mapping[Config, Measurement]
    forecast_s: Mapping[Config, float]
    chosen: tuple[Chosen, ...]
    oracle_values: tuple[float, ...] = ()

    def counts(self, config: Config | None) -> bool:
        """Whether a configuration was measured and its runs are not void."""
        return config in self.measured and not self.measured[config].void

    def value(self, config: Config) -> float:
        """Returns the objective as measured: seconds or dollars of the job."""
        return self.case.value(self.measured[config].mean_s, config.usd_per_hour)

    def keeps(self, config: Config) -> bool:
        """Whether the limits were kept, as measured."""
        return self.case.meets_limits(self.measured[config].mean_s, config.usd_per_hour)

    @property
    def best(self) -> Config | None:
        """The best configuration of the case's rule that was measured and keeps the limits."""
        kept = [c for c in self.configs if self.counts(c) and self.keeps(c)]
        return min(kept, key=self.value, default=None)

    def gap(self, config: Config | None) -> float | None:
        """Returns how far a configuration lies above the best, a fraction; None: no answer."""
        best = self.best
        if best is None or config is None or not self.counts(config):
            return None
        return self.value(config) / self.value(best) - 1

    @property
    def ours(self) -> Chosen:
        """Srifty's choice."""
        return next(one for one in self.chosen if one.method == OURS)

    @property
    def rivals(self) -> tuple[Chosen, ...]:
        """The others' choices."""
        own = (OURS, OURS_ANY, OURS_POWERS)
        return tuple(one for one in self.chosen if one.method not in own)

    def inside(self, config: Config) -> bool:
        """Whether a configuration is one of the case's rule."""
        return config in self.configs

    @property
    def noise(self) -> tuple[float, float]:
        """Median and largest difference between the repeats of a configuration, fractions."""
        found = [m.noise for m in self.measured.values() if not m.void and m.repeats > 1]
        return (statistics.median(found), max(found)) if found else (0.0, 0.0)

    @property
    def void(self) -> tuple[Config, ...]:
        """Configurations whose runs are void."""
        return tuple(c for c, m in self.measured.items() if m.void)

    @property
    def whole(self) -> bool:
        """Whether every configuration and every choice was run."""
        wanted = {*self.configs, *(one.config for one in self.chosen if one.config)}
        return wanted <= set(self.measured)

    @property
    def errors(self) -> list[float]:
        """Srifty's forecasts over measurements, minus 1, of all that counts."""
        return [
            self.forecast_s[c] / m.mean_s - 1
            for c, m in self.measured.items()
            if c in self.forecast_s and not m.void
        ]


def wanted(configs: Sequence[Config], chosen: Sequence[Chosen]) -> tuple[Config, ...]:
    """Returns what is measured: all configurations, and the choices that are none of them."""
    others = [one.config for one in chosen if one.config is not None]
    return tuple(dict.fromkeys((*configs, *others)))


def mape(errors: Sequence[float]) -> float:
    """Returns the mean of absolute errors."""
    return statistics.fmean(abs(error) for error in errors)
