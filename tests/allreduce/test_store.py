import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srifty import database
from srifty.allreduce import store as store_module
from srifty.allreduce._database import STORE
from srifty.allreduce.records import Added, SourceFile
from srifty.allreduce.store import SampleStore, store_path
from srifty.core.allreduce import AllreduceSample, Collective
from srifty.errors import InputError
from tests.allreduce import store_writers
from tests.allreduce.strategies import samples as any_samples

MONDAY = datetime(2026, 7, 20, tzinfo=UTC)
SMALL = AllreduceSample("a1.x", 2, 16, 1024, 1e-4, library_version="2.18", source="log 1")
LARGE = replace(SMALL, size_bytes=1 << 20, time_s=1e-3)
OTHER = replace(SMALL, instance_type="b2.y", transport="efa", source="log 2", measured_at=MONDAY)
LOG = SourceFile("run/one.log", "1" * 64)


@pytest.fixture(name="path")
def _path(tmp_path):
    return tmp_path / "data" / "srifty.db"


@pytest.fixture(name="store")
def _store(path):
    with SampleStore.open(path) as store:
        yield store


@given(st.lists(any_samples(), unique=True, max_size=10))
@settings(max_examples=30, deadline=None)
def test_what_is_added_comes_back_equal_and_in_order(samples):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with SampleStore.open(path) as store:
            assert store.add(samples, file=LOG) == Added(len(samples), 0)
        with SampleStore.open(path, create=False) as store:
            assert store.samples() == tuple(samples)
            for kind in Collective:
                assert store.samples(collective=kind) == tuple(
                    sample for sample in samples if sample.collective is kind
                )


def test_samples_of_some_types(store):
    store.add([SMALL, OTHER, LARGE], file=LOG)
    assert store.samples(instance_types={"a1.x"}) == (SMALL, LARGE)
    assert store.samples(instance_types={"c3.z"}) == ()


def test_adding_again_adds_nothing_and_says_so(store):
    store.add([SMALL, LARGE], file=LOG)
    before = store.fingerprint()
    assert store.add([SMALL, LARGE], file=LOG) == Added(0, 2, known=True)
    assert store.fingerprint() == before
    assert [file.rows_held for file in store.files()] == [2]
    # The same samples out of another file, such as an export.
    assert store.add([LARGE, OTHER], file=SourceFile("export.csv", "2" * 64)) == Added(1, 1)
    assert store.samples() == (SMALL, LARGE, OTHER)


def test_new_measurements_of_one_configuration_add_up(store):
    again = replace(SMALL, source="log 2")
    store.add([SMALL], file=LOG)
    store.add([again], file=SourceFile("two.log", "2" * 64))
    assert store.samples() == (SMALL, again)
    (curve,) = store.curves()
    assert (curve.rows, curve.allocations) == (2, 2)


def test_samples_that_come_from_no_file(store):
    probe = SourceFile.of_samples("srifty probe", [SMALL, LARGE])
    assert store.add([SMALL, LARGE], file=probe).new == 2
    again = SourceFile.of_samples("srifty probe", [SMALL, LARGE])
    assert store.add([SMALL, LARGE], file=again) == Added(0, 2, known=True)
    assert SourceFile.of_samples("srifty probe", [SMALL]).key != probe.key


def test_a_file_is_stored_whole_or_not_at_all(store):
    with pytest.raises(InputError, match="config must be one line"):
        store.add([SMALL, replace(LARGE, config="a\nb")], file=LOG)
    assert store.samples() == ()

    class Interrupted(list):
        def __iter__(self):
            yield SMALL
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add(Interrupted([SMALL]), file=LOG)
    assert (store.samples(), store.files()) == ((), ())


def test_an_interrupt_in_the_middle_of_writing_undoes_it(store, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    store.add([SMALL], file=LOG)
    monkeypatch.setattr(store, "_mark_changed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.add([OTHER], file=SourceFile("two.log", "2" * 64))
    assert store.samples() == (SMALL,)
    assert len(store.files()) == 1


def test_no_samples_are_no_import(store):
    assert store.add([], file=LOG) == Added(0, 0)
    assert store.files() == ()


def test_answers_are_a_part_of_what_makes_imports_the_same(store):
    store.add([SMALL], file=LOG)
    zoned = replace(LOG, answers={"zone": "z1"})
    added = store.add([replace(SMALL, zone="z1")], file=zoned)
    assert (added.new, added.known) == (1, False)
    assert added.also == (store.files()[0].id,)
    assert [dict(file.answers) for file in store.files()] == [{}, {"zone": "z1"}]


def test_a_named_type_takes_the_place_of_an_unnamed_one(store):
    store.add([replace(SMALL, instance_type="unnamed-8xA100"), OTHER], file=LOG)
    named = replace(LOG, answers={"instance_type": "a1.x"})
    added = store.add([SMALL], file=named)
    assert (added.new, added.replaced) == (1, 1)
    assert set(store.samples()) == {OTHER, SMALL}


def test_the_fingerprint_changes_with_the_content_alone(store, path):
    seen = [store.fingerprint()]
    store.add([SMALL], file=LOG)
    seen.append(store.fingerprint())
    store.add([LARGE], file=LOG)
    seen.append(store.fingerprint())
    store.forget(instance_type="a1.x", dry_run=True)
    store.forget(before=MONDAY)
    assert store.fingerprint() == seen[-1]
    with SampleStore.open(path, create=False) as again:
        assert again.fingerprint() == seen[-1]
    store.forget()
    seen.append(store.fingerprint())
    assert len(set(seen)) == 4


def test_curves(store):
    wide = replace(LARGE, vms=4, world_size=32, measured_at=MONDAY)
    store.add([SMALL, LARGE, wide, OTHER], file=LOG)
    first, second = store.curves()
    assert first.key == SMALL.curve
    assert (first.world_sizes, first.most_vms, first.rows) == ((16, 32), 4, 3)
    assert (first.least_bytes, first.most_bytes, first.newest) == (1024, 1 << 20, MONDAY)
    assert second.key == OTHER.curve


class TestForget:
    @pytest.fixture(autouse=True)
    def _filled(self, store):
        store.add([SMALL, LARGE], file=LOG)
        store.add([LARGE, OTHER], file=SourceFile("run/two.log", "2" * 64))

    @pytest.mark.parametrize("name", ["run/one.log", "one.log", "1" * 64, "id"])
    def test_a_file(self, store, name):
        given = store.files()[0].id if name == "id" else name
        gone = store.forget(file=given)
        assert (gone.samples, gone.files) == (1, ("run/one.log",))
        assert store.samples() == (LARGE, OTHER)  # the other import holds LARGE too

    def test_a_type(self, store):
        gone = store.forget(instance_type="a1.x")
        assert (gone.samples, gone.files) == (2, ("run/one.log",))
        assert store.samples() == (OTHER,)
        assert [file.rows_held for file in store.files()] == [1]
        assert store.add([SMALL, LARGE], file=LOG).new == 2

    def test_old_ones(self, store):
        store.add([replace(OTHER, measured_at=MONDAY + timedelta(microseconds=1))],
                  file=SourceFile("three.log", "3" * 64))  # fmt: skip
        gone = store.forget(before=MONDAY + timedelta(microseconds=1))
        assert (gone.samples, gone.files, gone.undated) == (1, (), 2)
        assert len(store.samples()) == 3
        assert store.forget(file="two.log", before=MONDAY).undated == 1
        assert store.forget(instance_type="b2.y", before=MONDAY).undated == 0

    def test_all_conditions_must_hold(self, store):
        assert store.forget(file="two.log", instance_type="b2.y").samples == 1
        assert store.forget(file="two.log").samples == 0
        assert store.samples() == (SMALL, LARGE)

    def test_everything(self, store):
        assert store.forget().samples == 3
        assert (store.samples(), store.files(), store.curves()) == ((), (), ())

    def test_a_rehearsal_changes_nothing(self, store):
        before = store.samples(), store.files(), store.fingerprint()
        assert store.forget(dry_run=True).samples == 3
        assert (store.samples(), store.files(), store.fingerprint()) == before

    @pytest.mark.parametrize(
        ("condition", "words"),
        [
            ({"file": "none.log"}, "holds no import 'none.log'"),
            ({"file": "1"}, "holds no import"),
            ({"instance_type": "a%"}, "holds no samples of 'a%'"),
        ],
    )
    def test_what_is_not_there(self, store, condition, words):
        with pytest.raises(InputError, match=words):
            store.forget(**condition)


class TestFilesOfOthers:
    @pytest.mark.parametrize(
        "content",
        [b"x", b"instance_type,nodes\n" * 90, b"SQLite format 3\x00", b"\x00" * 4096],
        ids=["short", "csv", "cut off", "zeros"],
    )
    @pytest.mark.parametrize("create", [True, False])
    def test_no_database(self, tmp_path, content, create):
        path = tmp_path / "s.db"
        path.write_bytes(content)
        with pytest.raises(InputError, match="is no database") as caught:
            SampleStore.open(path, create=create)
        assert caught.value.source == str(path)
        assert path.read_bytes() == content
        assert [*tmp_path.iterdir()] == [path]

    def test_a_database_of_another_program(self, tmp_path):
        path = tmp_path / "s.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE samples (id INTEGER)")
        before = path.read_bytes()
        with pytest.raises(InputError, match="database of another program"):
            SampleStore.open(path)
        assert path.read_bytes() == before

    def test_a_newer_srifty(self, store, path):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")
        before = path.read_bytes()
        with pytest.raises(InputError, match="written by a newer Srifty"):
            SampleStore.open(path)
        assert path.read_bytes() == before

    def test_damage(self, store, path):
        store.add([SMALL], file=LOG)
        data = bytearray(path.read_bytes())
        data[4096:] = os.urandom(len(data) - 4096)
        path.write_bytes(data)
        with (
            pytest.raises(InputError, match="is damaged"),
            SampleStore.open(path, create=False) as again,
        ):
            again.samples()

    def test_a_sample_that_makes_no_sense(self, store, path):
        store.add([SMALL], file=LOG)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE samples SET time_s = -1")
        with pytest.raises(InputError, match="makes no sense: time_s must be above 0"):
            store.samples()

    def test_nothing_there(self, path):
        with pytest.raises(InputError, match="there is no such file"):
            SampleStore.open(path, create=False)
        assert not path.parent.exists()

    def test_a_folder_in_its_place(self, tmp_path):
        with pytest.raises(InputError, match="cannot be opened"):
            SampleStore.open(tmp_path)

    def test_a_file_where_its_folder_should_be(self, tmp_path):
        (tmp_path / "a").write_text("")
        with pytest.raises(InputError, match="cannot be opened"):
            SampleStore.open(tmp_path / "a" / "s.db")


def test_an_empty_file_is_a_store_to_be(tmp_path):
    path = tmp_path / "a #?%20 b.db"  # what a kill while making the store leaves; and an odd name
    path.touch()
    with SampleStore.open(path) as store:
        store.add([SMALL], file=LOG)
    with SampleStore.open(path, create=False) as store:
        assert store.samples() == (SMALL,)
    assert [*tmp_path.iterdir()] == [path]


def test_through_a_link(store, path, tmp_path):
    store.add([SMALL], file=LOG)
    (tmp_path / "link.db").symlink_to(path)
    with SampleStore.open(tmp_path / "link.db") as again:
        assert again.add([OTHER], file=SourceFile("two.log", "2" * 64)).new == 1
    assert store.samples() == (SMALL, OTHER)
    assert not path.with_name(f"{path.name}-journal").exists()


def test_reading_where_nothing_can_be_written(store, path, monkeypatch):
    store.add([SMALL], file=LOG)
    # Root may write anywhere, so what the system says is replaced, not the folder's mode.
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with SampleStore.open(path, create=False) as reader:
        assert reader.samples() == (SMALL,)
        with pytest.raises(InputError, match="read-only"):
            reader.add([OTHER], file=LOG)
        with pytest.raises(InputError, match="read-only"):
            reader.forget()
    assert [*path.parent.iterdir()] == [path]


def test_an_older_store_is_brought_up_to_date(store, path, monkeypatch):
    store.add([SMALL], file=LOG)
    newer = (*STORE.migrations, ("ALTER TABLE files ADD COLUMN note TEXT",))
    monkeypatch.setattr(store_module, "STORE", replace(STORE, migrations=newer))
    for _ in range(2):
        with SampleStore.open(path) as again:
            assert again.samples() == (SMALL,)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT note FROM files").fetchall() == [(None,)]


def test_a_migration_that_fails_leaves_the_old_store(store, path, monkeypatch):
    store.add([SMALL], file=LOG)
    broken = (*STORE.migrations, ("DELETE FROM holdings", "DROP TABLE nonsense"))
    monkeypatch.setattr(store_module, "STORE", replace(STORE, migrations=broken))
    with pytest.raises(sqlite3.OperationalError):
        SampleStore.open(path)
    monkeypatch.undo()
    assert store.files()[0].rows_held == 1


def test_a_lock_that_is_never_given_back_is_an_error_with_words(store, path, monkeypatch):
    monkeypatch.setattr(database, "_PATIENCE_S", 0.05)
    with (
        SampleStore.open(path) as waiting,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another process has held it"):
            waiting.add([SMALL], file=LOG)
        other.execute("COMMIT")
        assert waiting.add([SMALL], file=LOG).new == 1


def test_two_writers_of_the_same_files_at_once(path):
    writers = [store_writers.start(path, 0, 12) for _ in range(2)]
    numbers = [store_writers.finish(writer) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert numbers == [set(range(12))] * 2
    assert store_writers.check(path, set(range(12)), set(range(12))) == set(range(12))


def test_many_make_one_store_at_once(path):
    def fill(number):
        with SampleStore.open(path) as store:
            samples = store_writers.samples_of(number)
            return store.add(samples, file=SourceFile(str(number), f"digest {number}")).new

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(fill, range(6))] == [store_writers.ROWS] * 6
    assert store_writers.check(path, set(range(6)), set(range(6))) == set(range(6))


def test_kill_9_at_any_moment_loses_nothing(tmp_path):
    tally = store_writers.kill_rounds(tmp_path / "srifty.db", 8, seed=1)
    assert tally.kills == 8
    assert tally.stored > 8


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SRIFTY_DB": "~/mine.db"}, "/home/me/mine.db"),
        ({"SRIFTY_DB": "", "XDG_DATA_HOME": "/data"}, "/data/srifty/srifty.db"),
        ({"SRIFTY_DB": "", "XDG_DATA_HOME": ""}, "/home/me/.local/share/srifty/srifty.db"),
    ],
)
def test_where_the_store_is(monkeypatch, environment, expected):
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert store_path() == Path(expected)
