"""VMs of any cloud that Ray's cluster launcher knows, each with an agent that runs torchrun."""

from srifty.cloud.ray_backend.backend import RayBackend
from srifty.cloud.ray_backend.cluster_file import cluster_file
from srifty.cloud.ray_backend.head import is_head
from srifty.cloud.ray_backend.requests import Nodes
from srifty.cloud.ray_backend.session import RaySession

__all__ = ["Nodes", "RayBackend", "RaySession", "cluster_file", "is_head"]
