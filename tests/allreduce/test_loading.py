"""What a plan learns from, and what it keeps of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from srifty.allreduce import saved
from srifty.allreduce.blend import Blend
from srifty.allreduce.loading import (
    blend_of,
    builtin_recipe,
    fit_blend,
    load_samples,
    plan_source,
)
from srifty.allreduce.records import SourceFile
from srifty.allreduce.samples import builtin_samples, write_samples
from srifty.allreduce.store import SampleStore, store_path
from srifty.allreduce.table import SampleTable
from srifty.catalog import builtin_instance_types
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError

from .worlds import sweep

OWN = AllreduceSample("p4d.24xlarge", 2, 16, 1024, 1e-4, source="mine")
IN_PLACE = replace(OWN, in_place=True)
GATHER = replace(OWN, collective=Collective.ALL_GATHER)
UNNAMED = replace(OWN, instance_type="unnamed-8xA100")
TYPES = builtin_instance_types()


def stored(path, *samples, name="x.log"):
    with SampleStore.open(path) as store:
        store.add(samples, file=SourceFile(name, f"{len(name):064d}"))
    return path


class TestLoadSamples:
    def test_a_store_is_told_by_its_content(self, tmp_path):
        path = stored(tmp_path / "samples.csv", OWN, UNNAMED, GATHER)
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


class TestPlanSource:
    def test_without_a_store_the_built_in_ones(self):
        source = plan_source(None)
        assert source.read() == builtin_samples()
        assert source.recipe == builtin_recipe()
        assert (source.note, source.fit_path) == (None, None)
        assert not store_path().exists()

    def test_an_empty_store_or_one_that_teaches_nothing_changes_nothing(self):
        stored(store_path())
        assert plan_source(None).note is None
        stored(store_path(), UNNAMED, GATHER)
        assert plan_source(None).note is None

    def test_own_samples_of_a_type_take_the_place_of_the_built_in_ones(self):
        stored(store_path(), OWN)
        source = plan_source(None)
        samples = source.read()
        assert [s for s in samples if s.instance_type == OWN.instance_type] == [OWN]
        builtin = [s for s in builtin_samples() if s.instance_type != OWN.instance_type]
        assert set(builtin) < set(samples)
        assert "your own" in source.note
        assert "p4d.24xlarge" in source.note
        assert source.recipe is None

    def test_many_types_are_cut_short(self):
        stored(store_path(), *(replace(OWN, instance_type=f"a{n}.x") for n in range(11)))
        assert "a5.x and 4 more; built-in" in plan_source(None).note

    def test_a_file_that_the_job_names_stands_alone(self, tmp_path):
        stored(store_path(), replace(OWN, instance_type="a1.x"))
        path = stored(tmp_path / "named.db", OWN)
        source = plan_source(path)
        assert source.read() == (OWN,)
        assert str(path) in source.note

    def test_a_broken_store_is_no_reason_to_plan_without_it(self):
        store_path().parent.mkdir()
        store_path().write_text("not a database")
        with pytest.raises(InputError, match="is no database"):
            plan_source(None)


class TestKeptFits:
    def test_a_fit_is_kept_beside_the_store_and_used_until_the_samples_change(self, tmp_path):
        path = stored(tmp_path / "s.db", *sweep())
        fits = []

        def progress(done, total):
            fits.append((done, total))

        first = blend_of(plan_source(path), TYPES, progress=progress)
        assert (tmp_path / "s.db.fit").exists()
        assert fits
        fits.clear()
        again = blend_of(plan_source(path), TYPES, progress=progress)
        assert not fits
        questions = SampleTable.of(sweep(worlds=((24, 6), (256, 64)))).questions()
        assert np.allclose(
            first.predict(questions).log_time, again.predict(questions).log_time, rtol=1e-6
        )
        stored(path, *sweep(worlds=((128, 32),)), name="another.log")
        blend_of(plan_source(path), TYPES, progress=progress)
        assert fits

    def test_a_torn_or_foreign_fit_is_fitted_anew(self, tmp_path):
        path = stored(tmp_path / "s.db", *sweep())
        fit_path = tmp_path / "s.db.fit"
        fit_blend(plan_source(path), TYPES)
        whole = fit_path.read_bytes()
        for damaged in (b"", b"no archive", whole[: len(whole) // 2], whole[:-30] + bytes(30)):
            fit_path.write_bytes(damaged)
            blend_of(plan_source(path), TYPES)
            assert saved.load_blend(fit_path, fingerprint="other", types=TYPES) is None
            assert len(fit_path.read_bytes()) > len(damaged) / 2

    def test_a_folder_that_cannot_be_written_costs_no_more_than_a_fit(self, tmp_path, monkeypatch):
        path = stored(tmp_path / "s.db", *sweep())

        def refuse(*arguments, **more):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("srifty.allreduce.loading.save_blend", refuse)
        blend, kept = fit_blend(plan_source(path), TYPES)
        assert kept is None
        assert blend.atlas.sheets


def test_the_shipped_recipe_is_what_cross_validation_chooses_today():
    chosen = Blend(TYPES, trees=False).fit(SampleTable.of(builtin_samples())).recipe
    shipped = builtin_recipe()
    assert [(c.regime, c.large, c.weights) for c in chosen.choices] == [
        (c.regime, c.large, c.weights) for c in shipped.choices
    ]
    assert chosen.scales == pytest.approx(dict(shipped.scales), rel=1e-6)
