"""VMs of any cloud that Ray's cluster launcher knows, each with an agent that runs torchrun."""

from srifty.cloud.ray_backend.backend import RayBackend
from srifty.cloud.ray_backend.session import RaySession

__all__ = ["RayBackend", "RaySession"]
