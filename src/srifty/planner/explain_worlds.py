"""Worlds that differ a little from the one that was planned for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from srifty.core.cluster import ClusterConfig
from srifty.core.interruptions import InterruptionRate
from srifty.core.job import Job
from srifty.core.offers import Market, Offer
from srifty.core.plan import Plan
from srifty.simulator.iteration import Simulator
from srifty.simulator.job_forecast import forecast_jobs
from srifty.simulator.perturbed import with_bandwidth, with_spread
from srifty.simulator.predictor import Predictor
from srifty.simulator.tables import ConfigTable


@dataclass(frozen=True)
class OtherWorld:
    """A world in which one thing is different.

    Attributes:
        subject: what is different, in short.
        words: the beginning of a sentence about it.
        before: what could be rented.
        offers: what can be rented there, in the same order.
        predictor: forecasts iterations there.
    """

    subject: str
    words: str
    before: tuple[Offer, ...]
    offers: tuple[Offer, ...]
    predictor: Predictor

    def forecast(self, plan: Plan, job: Job) -> Plan:
        """Returns a plan with what is to be expected of it there."""
        there = dict(zip(self.before, self.offers, strict=True))
        groups = (replace(g, offer=there.get(g.offer, g.offer)) for g in plan.config.groups)
        config = ClusterConfig(tuple(groups))
        table = ConfigTable.from_configs([config])
        iterations = self.predictor.predict(job, table)
        jobs = forecast_jobs(job, table, iterations)
        return Plan(config, jobs.forecast(0, iterations.row(0)))


def other_worlds(offers: tuple[Offer, ...], predictor: Predictor) -> tuple[OtherWorld, ...]:
    """Returns the worlds that a plan is tried in.

    Networks and GPUs can be changed in a simulator only; other predictors are taken as they are.
    """
    worlds: list[OtherWorld] = []
    if isinstance(predictor, Simulator):
        slow, varied = with_bandwidth(predictor, 0.8), with_spread(predictor, 2.0)
        worlds += [
            OtherWorld("bandwidth -20 %", "With 20 % less bandwidth", offers, offers, slow),
            OtherWorld("compute spread x2", "If GPUs vary twice as much", offers, offers, varied),
        ]
    if any(offer.market is Market.SPOT for offer in offers):
        dearer = tuple(
            replace(offer, usd_per_hour=1.2 * offer.usd_per_hour)
            if offer.market is Market.SPOT
            else offer
            for offer in offers
        )
        words = "With spot prices 20 % higher"
        worlds.append(OtherWorld("spot price +20 %", words, offers, dearer, predictor))
    if any(offer.interruptions.per_hour for offer in offers):
        lossy = tuple(replace(offer, interruptions=_tripled(offer)) for offer in offers)
        words = "If VMs are lost three times as often"
        worlds.append(OtherWorld("losses x3", words, offers, lossy, predictor))
    return tuple(worlds)


def _tripled(offer: Offer) -> InterruptionRate:
    return replace(offer.interruptions, per_hour=3 * offer.interruptions.per_hour)
