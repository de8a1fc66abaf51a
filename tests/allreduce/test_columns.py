from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty.allreduce.columns import CATEGORIES, columns_of
from srifty.allreduce.records import SourceFile
from srifty.allreduce.store import SampleStore
from tests.allreduce.strategies import samples as any_samples


@given(st.lists(any_samples(), max_size=6))
def test_columns_say_what_samples_say(samples):
    columns = columns_of(samples)
    assert len(columns) == len(samples)
    for name in ("vms", "world_size", "size_bytes", "time_s", "in_place", "concurrent"):
        assert getattr(columns, name).tolist() == [getattr(sample, name) for sample in samples]
    for name in CATEGORIES:
        assert columns.texts(name) == [getattr(sample, name) for sample in samples]
    unknown = [sample.measured_at is None for sample in samples]
    assert np.isnan(columns.measured_at_s).tolist() == unknown
    placements = [{-1: None, 0: False, 1: True}[p] for p in columns.placement_group.tolist()]
    assert placements == [sample.placement_group for sample in samples]


@given(st.lists(any_samples(), max_size=12, unique=True))
@settings(max_examples=25)
def test_the_store_gives_the_columns_of_its_samples(samples):
    with TemporaryDirectory() as folder, SampleStore.open(Path(folder) / "s.db") as store:
        store.add(samples, file=SourceFile("x", "0"))
        expected, columns = columns_of(store.samples()), store.columns()
        kinds = {sample.instance_type for sample in samples[::2]}
        some = store.columns(instance_types=kinds)
    assert some.time_s.tolist() == [s.time_s for s in samples if s.instance_type in kinds]
    for name in ("vms", "world_size", "size_bytes", "time_s", "in_place", "concurrent",
                 "placement_group", "measured_at_s"):  # fmt: skip
        np.testing.assert_array_equal(getattr(columns, name), getattr(expected, name))
    for name in CATEGORIES:
        assert columns.texts(name) == expected.texts(name)
