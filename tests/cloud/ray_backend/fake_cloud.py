"""A cloud for Ray's autoscaler: nodes are processes of this machine, and one type is refused."""

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider
from ray.autoscaler.node_launch_exception import NodeLaunchException


class FakeCloud(FakeMultiNodeProvider):
    """Makes nodes of all types but those whose names begin with `p3`."""

    def create_node_with_resources_and_labels(self, node_config, tags, count, *more):
        if tags["ray-user-node-type"].startswith("p3"):
            raise NodeLaunchException("InsufficientInstanceCapacity", "none left in 1a", None)
        return super().create_node_with_resources_and_labels(node_config, tags, count, *more)
