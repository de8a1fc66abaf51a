"""Where `srifty measure` puts what it found: profiles and samples that plans read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import parse_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.control.errands import Measure
from srifty.control.measuring import Finding
from srifty.core.profile import WorkloadProfile
from srifty.files.profile_file import parse_profile
from srifty.files.profile_writer import write_profile

_PLAYED = "played by srifty measure: this machine's CPU stood in for a"


class Measured:
    """Keeps findings as they come.

    Args:
        folder: where they are put; is made if need be.
        is_played: whether this machine stood in for the VMs. Its samples then go to no store but
            the folder's, and profiles say what they are.
    """

    def __init__(self, folder: Path, *, is_played: bool) -> None:
        self._folder = folder
        self._is_played = is_played
        self._profiles: list[Path] = []
        self._samples = 0
        self._notes: list[str] = []

    @property
    def store(self) -> Path:
        """The store of this run's samples."""
        return self._folder / "samples.db"

    def keep(self, finding: Finding) -> None:
        """Writes one finding down.

        Raises:
            InputError: it cannot be read or written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if finding.measure is Measure.PROFILE:
            self._keep_profile(finding)
            return
        source = f"srifty measure, {finding.errand}"
        samples = parse_samples(finding.text, source).samples
        stores = [self.store] if self._is_played else [self.store, store_path()]
        for path in stores if samples else ():
            with SampleStore.open(path) as store:
                store.add(samples, file=SourceFile.of_samples(source, samples))
        self._samples += len(samples)

    def _keep_profile(self, finding: Finding) -> None:
        gpu = finding.offer.instance_type.gpu
        profile = parse_profile(finding.text, f"profile of {finding.errand}")
        if self._is_played:
            profile = _as_if(profile, gpu)
        elif profile.gpu != gpu:
            self._notes.append(
                f"{finding.offer.instance_type.name} has a {profile.gpu} by its own account, "
                f"the catalog says {gpu}: plans will not find the profile."
            )
        path = self._folder / f"{gpu}.json"
        write_profile(profile, path)
        self._profiles.append(path)

    def document(self) -> dict[str, Any]:
        """Returns what is kept and where, as JSON values."""
        return {
            "profiles": [str(path) for path in self._profiles],
            "samples": self._samples,
            "store": str(self.store) if self._samples else None,
            "is_played": self._is_played,
            "notes": list(self._notes),
        }

    def lines(self) -> list[str]:
        """Returns how to plan with what is kept, a line for each thing."""
        lines = [f"note: {note}" for note in self._notes]
        if self._is_played and (self._profiles or self._samples):
            lines.append("note: nothing real was measured: this machine stood in for the VMs.")
        if self._profiles:
            names = ", ".join(map(str, self._profiles))
            lines.append(f"In the job file, plan with: workload: [{names}]")
        if self._samples and self._is_played:
            lines.append(f"and: allreduce: {self.store}  ({self._samples} samples)")
        elif self._samples:
            lines.append(f"{self._samples} samples are kept in {store_path()} and {self.store}.")
        return lines


def _as_if(profile: WorkloadProfile, gpu: str) -> WorkloadProfile:
    """Returns a profile of this machine as one of a GPU that it stands in for."""
    return replace(profile, gpu=gpu, source=f"{_PLAYED} {gpu} ({profile.source})")
