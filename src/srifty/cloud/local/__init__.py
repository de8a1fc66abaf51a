"""The embedded back end: VMs that are processes of this machine, with fates as a scenario says."""

from srifty.cloud.local.backend import LocalBackend
from srifty.cloud.local.launcher import Launcher

__all__ = ["Launcher", "LocalBackend"]
