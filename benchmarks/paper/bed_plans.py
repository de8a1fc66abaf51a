"""What Srifty and its rivals choose for a case, from the bed's probes and profiles alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.paper.bed_jobs import KINDS, BedCase, Config
from benchmarks.testbed.layers import SCALE
from benchmarks.testbed.learn import gpu_name, profile_path
from benchmarks.testbed.pace import DERIVED
from benchmarks.testbed.predict import type_document
from srifty.baselines import Choice, Rivals, oracle_bo
from srifty.catalog import builtin_gpus
from srifty.cli._workbench import Workbench, open_job
from srifty.core.cluster import ClusterConfig
from srifty.core.hardware import GpuModel
from srifty.core.notation import parse_config
from srifty.files.profile_file import builtin_profiles
from srifty.planner import one_type_configs
from srifty.simulator import ConfigTable

_EXIT_NO_PLAN = 3
OURS, ORACLE = "srifty", "oracle-bo"
# The same planner under the other rule for local batches.
OURS_POWERS, OURS_ANY = "srifty, powers of two", "srifty, any batches"


@dataclass(frozen=True)
class Chosen:
    """What a method chooses.

    Attributes:
        method: its name.
        config: its choice; None where it makes none.
        own_s: its own forecast of an iteration of that; None where it makes none.
        reason: why there is no choice, or none that can be run here.
    """

    method: str
    config: Config | None
    own_s: float | None = None
    reason: str = ""


def job_document(
    case: BedCase, profiles: Path, store: Path, *, any_batch: bool
) -> dict[str, object]:
    """Returns the job file of a case: what a user of the bed would write.

    Args:
        case: the case.
        profiles: folder of profiles.
        store: the probes' samples.
        any_batch: whether local batches may be any; else powers of two.
    """
    kinds = [KINDS[name] for name, _ in case.quota]
    limits: dict[str, object] = {}
    if case.deadline_s is not None:
        limits["deadline"] = f"{case.deadline_s:g}s"
    if case.budget_usd is not None:
        limits["budget_usd"] = case.budget_usd
    return {
        "name": f"case {case.number}, {case.title}",
        "workload": [str(profile_path(profiles, case.model, kind.gpu)) for kind in kinds],
        "global_batch": case.global_batch,
        "iterations": case.iterations,
        "minimize": case.minimize,
        "batches": "any" if any_batch else "power-of-two",
        **limits,
        # The paper's optimizer works with means, and its cases count no launch time.
        "confidence": 0.5,
        "overheads": {"launch": "0s", "restore": "0s"},
        "offers": {
            "quota": dict(case.quota),
            "prices": {kind.name: {"on-demand": kind.usd_per_hour} for kind in kinds},
            "types": [type_document(kind) for kind in kinds],
        },
        "gradient_sync": {
            "mode": "ddp",
            "bucket_mib": 25 / SCALE,
            "first_bucket_mib": 1 / SCALE,
            "slots": 1,
        },
        "allreduce": str(store),
    }


@dataclass(frozen=True)
class Planning:
    """A case as the planners see it.

    Attributes:
        case: the case.
        path: its job file.
        bench: all that is known of it.
    """

    case: BedCase
    path: Path
    bench: Workbench

    @classmethod
    def open(
        cls, case: BedCase, profiles: Path, store: Path, folder: Path, *, any_batch: bool
    ) -> Planning:
        """Writes the job file of a case and opens it."""
        rule = "any" if any_batch else "powers"
        path = folder / f"case-{case.number}-{rule}.yaml"
        document = job_document(case, profiles, store, any_batch=any_batch)
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
        return cls(case, path, open_job(path, ()))

    def ours(self, name: str = OURS) -> Chosen:
        """Returns what `srifty plan` says."""
        done = subprocess.run(
            [sys.executable, "-m", "srifty", "plan", str(self.path), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, _EXIT_NO_PLAN):
            raise RuntimeError(f"srifty plan {self.path}: {done.stderr.strip()}")
        answer = json.loads(done.stdout)
        if answer["plan"] is None:
            return Chosen(name, None, reason=answer["message"])
        config = config_of(parse_config(answer["plan"]["config"], self.bench.catalog.offers))
        return Chosen(name, config, answer["plan"]["iteration_s"]["mean"])

    def rivals(self) -> tuple[Chosen, ...]:
        """Returns what the others choose: all but Oracle BO, which asks the measurements."""
        job = self.bench.job
        # Paleo counts from layers, which no profile of emulated computation can show.
        layered = tuple(
            replace(profile, layers=_layers(self.case.model, profile.gpu))
            for profile in job.profiles
        )
        sheets = {gpu_name(name): gpu for name, gpu in _sheets().items()}
        rivals = Rivals(
            replace(job, profiles=layered),
            self.bench.catalog.offers,
            self.bench.simulator,
            self.bench.batch_ranges,
            sheets,
        )
        others = [c for c in rivals.line_up() if c.method not in (OURS, ORACLE)]
        return tuple(_chosen(choice) for choice in others)

    def oracle_bo(self, measured_s: Mapping[Config, float], seed: int) -> Chosen:
        """Returns what Bayesian optimisation ends with that may measure a third of all.

        Args:
            measured_s: seconds of an iteration by configuration.
            seed: of its first probes.
        """
        rivals = Rivals(
            self.bench.job,
            self.bench.catalog.offers,
            self.bench.simulator,
            self.bench.batch_ranges,
            {},
        )
        configs = one_type_configs(self.bench.job, rivals.places)
        known = [
            row
            for row in range(len(configs))
            if (config := config_of(configs.config(row))) and config in measured_s
        ]
        if not known:
            return Chosen(ORACLE, None, reason="no type alone holds the global batch")
        configs = configs.take(np.array(known))

        def truth(some: ConfigTable) -> np.ndarray:
            rows = [config_of(some.config(row)) for row in range(len(some))]
            return np.array([measured_s[config] for config in rows if config is not None])

        found = oracle_bo(self.bench.job, configs, truth, seed=seed)
        if found.row is None:
            return Chosen(ORACLE, None, reason="it finds no configuration within the limits")
        return Chosen(ORACLE, config_of(configs.config(found.row)), found.iteration_s)

    def forecast_s(self, configs: Sequence[Config]) -> list[float]:
        """Returns Srifty's forecast of an iteration of each configuration."""
        offers = self.bench.catalog.offers
        table = ConfigTable.from_configs([parse_config(c.notation, offers) for c in configs])
        return [float(s) for s in self.bench.simulator.predict(self.bench.job, table).mean_s]


def config_of(config: ClusterConfig) -> Config | None:
    """Returns a configuration in the bed's terms; None where it takes several passes."""
    if any(group.accumulation > 1 for group in config.groups):
        return None
    return Config.of(
        (group.offer.instance_type.name, group.count, group.samples_per_vm)
        for group in config.groups
    )


def _chosen(choice: Choice) -> Chosen:
    own_s = None if choice.own is None else choice.own.iteration_s.mean
    if choice.config is None:
        return Chosen(choice.method, None, reason=choice.reason)
    config = config_of(choice.config)
    reason = "" if config else "several passes per iteration, which the bed does not run"
    return Chosen(choice.method, config, own_s, reason)


def _layers(model: str, gpu: str) -> tuple:
    name = gpu.removeprefix(gpu_name(""))
    source, _ = DERIVED.get(name, (name, 1.0))
    return next(profile.layers for profile in builtin_profiles(model) if profile.gpu == source)


def _sheets() -> dict[str, GpuModel]:
    """Returns the data sheets of the bed's GPUs, slower ones too."""
    known = builtin_gpus()
    slower = {
        name: replace(
            sheet := known[source],
            memory_bytes_per_s=sheet.memory_bytes_per_s / factor,
            peak_flops={key: flops / factor for key, flops in sheet.peak_flops.items()},
        )
        for name, (source, factor) in DERIVED.items()
    }
    return known | slower
