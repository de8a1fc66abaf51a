"""Ray clusters of this machine, for tests in a namespace."""

import pytest
from ray.cluster_utils import Cluster

HEAD = {"num_cpus": 1, "include_dashboard": False}


def patiently(make):
    """Makes a node; on a busy machine Ray itself gives one up after 30 seconds."""
    for _ in range(4):
        try:
            return make()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    pytest.skip("this machine is too busy for Ray to start a node within 30 seconds")
    return None


def head_alone():
    """A cluster with a head that has no worker."""
    return patiently(lambda: Cluster(initialize_head=True, head_node_args=HEAD))


def add_node(cluster, kind, gpus):
    """Adds a node of a node type; returns it."""
    return patiently(
        lambda: cluster.add_node(num_cpus=1, num_gpus=gpus, resources={kind: 1, "an-offer": 1})
    )
