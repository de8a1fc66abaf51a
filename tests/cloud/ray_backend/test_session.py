import pytest

from srifty.cloud.ray_backend import RaySession
from srifty.errors import CloudRefused

pytest.importorskip("ray", reason="ray is not installed (extra ray)")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no address", "ray://127.0.0.1:1"])
def test_where_no_cluster_answers_it_is_said_at_once(address):
    session = RaySession("run-1", address)
    assert not session.is_there()
    with pytest.raises(CloudRefused, match=r"no Ray cluster answers .* RAY_ADDRESS"):
        session.resources()
