import resource

import pytest

from srifty.profiling.host_memory import allowed_bytes, available_bytes, kept_below, resident_bytes
from srifty.units import GIB, KIB, MIB


@pytest.fixture
def system(tmp_path):
    """A /proc that says 1,000 KiB, and an empty folder of control groups."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    proc.mkdir()
    (groups / "memory").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 2000 kB\nMemAvailable:    1000 kB\n")
    return proc, groups


def test_what_the_machine_has_left(system):
    assert available_bytes(*system) == 1000 * KIB


def test_a_container_with_less_counts_what_it_can_drop(system):
    _, groups = system
    (groups / "memory.max").write_text("500000\n")
    (groups / "memory.current").write_text("200000\n")
    (groups / "memory.stat").write_text("anon 1\ninactive_file 50000\n")
    assert available_bytes(*system) == 350_000


def test_a_container_of_the_older_kind(system):
    _, groups = system
    (groups / "memory/memory.limit_in_bytes").write_text("300000\n")
    (groups / "memory/memory.usage_in_bytes").write_text("400000\n")
    assert available_bytes(*system) == 0


def test_a_container_without_a_limit(system):
    _, groups = system
    (groups / "memory.max").write_text("max\n")
    (groups / "memory.current").write_text("200000\n")
    assert available_bytes(*system) == 1000 * KIB


def test_a_system_that_does_not_tell(tmp_path):
    assert available_bytes(tmp_path, tmp_path) is None


def test_a_fresh_process_has_nothing_yet():
    if resident_bytes() is None:
        pytest.skip("this system does not tell a process's memory")
    assert allowed_bytes() > resident_bytes()
    assert allowed_bytes(afresh=True) > 0


def test_allocations_beyond_the_limit_fail_and_those_after_it_do_not():
    if resident_bytes() is None:
        pytest.skip("this system does not tell a process's memory")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with kept_below(resident_bytes() + 128 * MIB):
        assert len(bytearray(32 * MIB)) == 32 * MIB
        with pytest.raises(MemoryError):
            bytearray(GIB)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytearray(256 * MIB)) == 256 * MIB
