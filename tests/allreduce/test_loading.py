from dataclasses import replace

import pytest

from srifty.allreduce.loading import load_samples, plan_samples, teaching_samples
from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import builtin_samples, write_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError

OWN = AllreduceSample("p4d.24xlarge", 2, 16, 1024, 1e-4, source="mine")
IN_PLACE = replace(OWN, in_place=True)
GATHER = replace(OWN, collective=Collective.ALL_GATHER)
UNNAMED = replace(OWN, instance_type="unnamed-8xA100")


def stored(path, *samples):
    with SampleStore.open(path) as store:
        store.add(samples, file=SourceFile("x.log", "1" * 64))
    return path


class TestTeachingSamples:
    def test_what_cannot_teach_is_left_out(self):
        concurrent = replace(OWN, concurrent=2)
        assert teaching_samples([GATHER, OWN, concurrent, UNNAMED]) == (OWN,)

    def test_in_place_only_where_there_is_nothing_else(self):
        other_world = replace(IN_PLACE, world_size=32, vms=4)
        large = replace(IN_PLACE, size_bytes=1 << 20)
        assert teaching_samples([IN_PLACE, OWN, large, other_world]) == (OWN, other_world)


class TestLoadSamples:
    def test_a_store_is_told_by_its_content(self, tmp_path):
        path = stored(tmp_path / "samples.csv", OWN, IN_PLACE, GATHER)
        assert load_samples(path) == (OWN,)

    def test_a_csv_file_with_any_name(self, tmp_path):
        path = tmp_path / "samples.db"
        with path.open("w", newline="") as file:
            write_samples([GATHER, OWN], file)
        assert load_samples(path) == (OWN,)

    def test_a_file_that_teaches_nothing(self, tmp_path):
        for samples in ((), (GATHER,), (UNNAMED,)):
            path = stored(tmp_path / f"{len(samples)}.db", *samples)
            with pytest.raises(InputError, match="holds no all_reduce") as caught:
                load_samples(path)
            assert caught.value.source == str(path)

    def test_a_database_of_another_program(self, tmp_path):
        path = tmp_path / "x.db"
        path.write_bytes(b"SQLite format 3\x00" + bytes(84))
        with pytest.raises(InputError, match="of another program"):
            load_samples(path)


class TestPlanSamples:
    def test_without_a_store_the_built_in_ones(self):
        assert plan_samples(None) == (teaching_samples(builtin_samples()), None)
        assert not store_path().exists()

    def test_an_empty_store_or_one_that_teaches_nothing_changes_nothing(self):
        stored(store_path())
        assert plan_samples(None)[1] is None
        stored(store_path(), UNNAMED, GATHER)
        assert plan_samples(None)[1] is None

    def test_own_samples_of_a_type_take_the_place_of_the_built_in_ones(self):
        stored(store_path(), OWN, IN_PLACE)
        samples, note = plan_samples(None)
        assert [s for s in samples if s.instance_type == OWN.instance_type] == [OWN]
        builtin = [s for s in builtin_samples() if s.instance_type != OWN.instance_type]
        assert set(builtin) < set(samples)
        assert "your own" in note
        assert "p4d.24xlarge" in note

    def test_a_file_that_the_job_names_stands_alone(self, tmp_path):
        stored(store_path(), replace(OWN, instance_type="a1.x"))
        path = stored(tmp_path / "named.db", OWN)
        samples, note = plan_samples(path)
        assert samples == (OWN,)
        assert str(path) in note

    def test_a_broken_store_is_no_reason_to_plan_without_it(self):
        store_path().parent.mkdir()
        store_path().write_text("not a database")
        with pytest.raises(InputError, match="is no database"):
            plan_samples(None)
