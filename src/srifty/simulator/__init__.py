"""Compute models + allreduce model + cluster configurations → forecasts and timelines."""

from srifty.simulator.iteration import IterationLaw, Noise, Simulator
from srifty.simulator.job_forecast import JobTable, forecast_jobs
from srifty.simulator.paper import SIM
from srifty.simulator.predictor import Predictor
from srifty.simulator.tables import ConfigTable, ForecastTable
from srifty.simulator.timeline import Timeline, chrome_trace, timeline_of

__all__ = [
    "SIM",
    "ConfigTable",
    "ForecastTable",
    "IterationLaw",
    "JobTable",
    "Noise",
    "Predictor",
    "Simulator",
    "Timeline",
    "chrome_trace",
    "forecast_jobs",
    "timeline_of",
]
