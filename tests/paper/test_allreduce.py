"""The provider's rating as a forecast, by hand."""

import pytest
from benchmarks.paper.allreduce import rated_error

from srifty.allreduce.table import SampleTable
from srifty.core.allreduce import AllreduceSample
from srifty.units import MIB


def test_a_rating_twice_as_large_is_off_by_all_of_it(tmp_path):
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "gcp_machine_egress.csv").write_text(
        "machine_type,network_egress_gbps\nn1-standard-4,8\n"
    )
    kind = "n1-standard-4+1xV100"
    sizes = {MIB: 0.5e9, 1024: 0.1e9}  # bus bytes per second: on two VMs size / time
    samples = [AllreduceSample(kind, 2, 2, size, size / bus) for size, bus in sizes.items()]
    found = rated_error(tmp_path, SampleTable.of(samples))
    count, rated, everywhere, large = found[kind]
    assert (count, rated) == (2, 8)
    assert large == pytest.approx(1.0)
    assert everywhere == pytest.approx((1.0 + 9.0) / 2)
