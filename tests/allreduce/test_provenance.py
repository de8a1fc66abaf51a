from dataclasses import replace

from srifty.allreduce.provenance import mixture_warnings
from srifty.allreduce.records import SourceFile
from srifty.allreduce.store import SampleStore
from srifty.core.allreduce import AllreduceSample

SAMPLE = AllreduceSample("g5.48xlarge", 2, 16, 1024, 1e-4, "aws", "efa", "2.18.5")


def warnings(tmp_path, *samples):
    with SampleStore.open(tmp_path / "s.db") as store:
        store.add(samples, file=SourceFile("x", "1"))
        return mixture_warnings(store.curves())


def test_one_version_and_transport_or_unknown_ones_are_no_mixture(tmp_path):
    other = replace(SAMPLE, instance_type="p4d.24xlarge", library_version="2.20.5", transport="tcp")
    unknown = replace(SAMPLE, library_version="", transport="")
    assert warnings(tmp_path, SAMPLE, other, unknown) == ()


def test_versions(tmp_path):
    (warning,) = warnings(tmp_path, SAMPLE, replace(SAMPLE, library_version="2.20.5"))
    assert "library versions: g5.48xlarge (2.18.5, 2.20.5)" in warning


def test_transports_between_vms(tmp_path):
    inside = replace(SAMPLE, vms=1, world_size=8, transport="nvlink")
    assert warnings(tmp_path, SAMPLE, inside) == ()
    (warning,) = warnings(tmp_path, replace(SAMPLE, transport="tcp-socket"))
    assert "transports: g5.48xlarge (efa, tcp-socket)" in warning
