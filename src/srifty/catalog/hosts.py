"""What to mind about a plan that joins different hosts in one allreduce."""

from __future__ import annotations

from collections.abc import Sequence

from srifty.catalog.builtin import builtin_gpus
from srifty.core.offers import Offer


def mixed_host_warnings(offers: Sequence[Offer]) -> tuple[str, ...]:
    """Returns what differs between the hosts of a plan, in full sentences.

    Collectives over different hosts have hung: NCCL chooses algorithms by what each rank finds on
    its own host, the CPU's vendor and the GPU's architecture among it.

    Args:
        offers: the offers of the plan.
    """
    vendors = sorted({o.instance_type.cpu_vendor for o in offers if o.instance_type.cpu_vendor})
    gpus = sorted({offer.instance_type.gpu for offer in offers})
    sentences: list[str] = []
    if len(vendors) > 1:
        sentences.append(
            f"CPU vendors differ ({', '.join(vendors)}): some NCCL versions choose different "
            "algorithms there and hang. Try an allreduce over one VM of each type before renting "
            "the rest."
        )
    if len(gpus) > 1:
        architectures = {gpu: _architecture(gpu) for gpu in gpus}
        what = "GPU architectures" if len(set(architectures.values())) > 1 else "GPU models"
        names = ", ".join(f"{gpu}: {name}" if name else gpu for gpu, name in architectures.items())
        sentences.append(
            f"{what} differ ({names}): try an allreduce over one VM of each type before renting "
            "the rest."
        )
    return tuple(sentences)


def _architecture(gpu: str) -> str | None:
    known = builtin_gpus().get(gpu)
    return known.architecture if known else None
