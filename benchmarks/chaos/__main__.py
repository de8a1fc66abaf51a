"""Runs that are disturbed at random: `python -m benchmarks.chaos --schedules 100`.

Each schedule is a small job on the local back end, through the public commands. Workers, agents
and controllers are killed (controllers also between a step's being written down and its being
done), agents and workers are stopped (SIGSTOP), VMs are taken back with and without a notice,
launches are refused, and links are cut (as root alone). After a controller that was killed comes
`srifty resume`, but for one in eleven, which never comes back: no VM may be left 15 minutes (of a
fast clock) later.

Of each other run is checked that the job ended; that every sample of every step was dealt to
exactly one worker, and that the parameters are those of an undisturbed run; that the ledger's bill
is that of the VMs' own journal to the cent; and that no process is left. The workers need no torch.

What came of each schedule is kept in `build/chaos.jsonl`; those that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from benchmarks.chaos.page import page
from benchmarks.chaos.schedule import KINDS, Deed, Verdict, can_cut_links, schedule

_KEPT = Path("build/chaos.jsonl")
_PAGE = Path("docs/results/chaos.md")


def main() -> None:
    """Runs schedules, prints what comes of them, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=2, help="schedules that run side by side")
    parser.add_argument("--fresh", action="store_true", help="forget the schedules that were run")
    parser.add_argument(
        "--trained", action="store_true", help="train a network with the real loop; writes no page"
    )
    chosen = parser.parse_args()
    if chosen.trained:
        sys.exit(_trained(chosen.schedules))
    if chosen.fresh:
        _KEPT.unlink(missing_ok=True)
    verdicts = _kept()
    seeds = [seed for seed in range(chosen.schedules) if seed not in verdicts]
    if not can_cut_links():
        seeds = [seed for seed in seeds if KINDS[seed % len(KINDS)] != "cut link"]
        print("links are not cut: that needs root")
    with ThreadPoolExecutor(chosen.at_once) as pool:
        for ended in as_completed([pool.submit(_run, seed) for seed in seeds]):
            verdict = ended.result()
            verdicts[verdict.seed] = verdict
            _keep(verdict)
            deeds = ", ".join(deed.kind for deed in verdict.deeds if deed.is_done)
            words = "; ".join(verdict.problems) or "well"
            done = len(verdicts)
            print(
                f"{done:3} of {chosen.schedules}: schedule {verdict.seed}, {verdict.seconds:.1f} s,"
                f" {deeds}: {words}",
                flush=True,
            )
    _PAGE.write_text(page(list(verdicts.values())), encoding="utf-8")
    bad = [verdict for verdict in verdicts.values() if verdict.problems]
    print(f"{len(verdicts) - len(bad)} of {len(verdicts)} schedules ended as they must: {_PAGE}")
    sys.exit(bool(bad))


def _trained(schedules: int) -> bool:
    """Runs schedules whose workers train, one after another; returns whether one went wrong."""
    verdicts: list[Verdict] = []
    for seed in range(schedules):
        if KINDS[seed % len(KINDS)] in ("cut link", "deserted"):
            continue
        verdicts.append(_run(seed, trained=True))
        deeds = ", ".join(deed.kind for deed in verdicts[-1].deeds if deed.is_done)
        words = "; ".join(verdicts[-1].problems) or "well"
        print(f"schedule {seed}, {verdicts[-1].seconds:.1f} s, {deeds}: {words}", flush=True)
    well = sum(not verdict.problems for verdict in verdicts)
    print(f"{well} of {len(verdicts)} schedules of trained networks ended as they must")
    return well < len(verdicts)


def _run(seed: int, *, trained: bool = False) -> Verdict:
    """Runs one schedule; what one that went wrong leaves is kept, to be looked at."""
    folder = Path(tempfile.mkdtemp(prefix=f"srifty-chaos-{seed}-"))
    verdict = schedule(folder, seed, trained=trained)
    if verdict.problems:
        verdict.problems.append(f"see {folder}")
    else:
        shutil.rmtree(folder)
    return verdict


def _keep(verdict: Verdict) -> None:
    _KEPT.parent.mkdir(exist_ok=True)
    with _KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(verdict)) + "\n")


def _kept() -> dict[int, Verdict]:
    if not _KEPT.exists():
        return {}
    found: dict[int, Verdict] = {}
    for line in _KEPT.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        deeds = [Deed(**deed) for deed in fields.pop("deeds")]
        found[fields["seed"]] = Verdict(deeds=deeds, **fields)
    return found


if __name__ == "__main__":
    main()
