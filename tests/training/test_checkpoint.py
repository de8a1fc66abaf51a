import json
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra")

from srifty.errors import InputError
from srifty.training import Checkpoints, checkpoint
from srifty.training.folder import LocalFolder, RemoteFolder, open_folder
from tests.training.folders import FullDisk
from tests.training.kill_saves import State, kill_rounds

SIZE_BYTES = 4_000_000


def save(folder, step, *, state=None, **options):
    state = state or State(4000)
    state.values.fill_(step)
    saves = Checkpoints(folder, {"state": state}, **options)
    saves.start(step, {"at": step})
    saves.wait()
    return saves


def newest_step(folder):
    found = checkpoint.newest(open_folder(folder, checkpoint.MANIFEST))
    return None if found is None else found.step


@pytest.fixture(params=["local", "memory"])
def where(request, tmp_path):
    if request.param == "local":
        yield tmp_path
        return
    fsspec = pytest.importorskip("fsspec", reason="fsspec is optional")
    url = f"memory://{tmp_path.name}"
    yield url
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def test_what_is_saved_comes_back(where):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saves = Checkpoints(where, {"model": model, "optimizer": optimizer})
    saves.start(7, {"seed": 1})
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        model.weight.zero_()  # what training does while the state is written
    saves.wait()
    other = torch.nn.Linear(3, 2)
    second = torch.optim.Adam(other.parameters())
    loads = Checkpoints(where, {"model": other, "optimizer": second})
    found = loads.newest()
    assert found is not None
    assert (found.step, found.facts) == (7, {"seed": 1})
    loads.load(found)
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
    assert second.state_dict()["state"][0]["exp_avg"].abs().sum() > 0
    assert saves.save_s > 0
    assert saves.stall_s < saves.save_s


def test_the_newest_two_are_kept(where):
    for step in (1, 2, 3):
        save(where, step)
    folder = open_folder(where, checkpoint.MANIFEST)
    assert checkpoint.steps_in(folder) == [3, 2]
    assert newest_step(where) == 3


def test_a_damaged_one_does_not_count_as_kept(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "step-000000000002" / "state.pt").write_bytes(b"short")
    save(tmp_path, 3)
    assert checkpoint.steps_in(LocalFolder(tmp_path)) == [3, 2, 1]


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [truncate, flip])
@pytest.mark.parametrize("name", ["state.pt", "manifest.json"])
def test_a_damaged_newest_is_passed_over(tmp_path, caplog, damage, name):
    save(tmp_path, 10)
    save(tmp_path, 20)
    damage(tmp_path / "step-000000000020" / name)
    assert newest_step(tmp_path) == 10
    assert f"step-000000000020: {name} is damaged" in caplog.text
    assert "the newest whole checkpoint is that of step 10" in caplog.text
    save(tmp_path, 20)  # made again, over the damaged one
    assert newest_step(tmp_path) == 20


@pytest.mark.parametrize(
    ("name", "message"), [("state.pt", "state.pt is missing"), ("manifest.json", "has no manifest")]
)
def test_one_with_a_file_missing_is_passed_over(where, caplog, name, message):
    save(where, 10)
    save(where, 20)
    folder = open_folder(where, checkpoint.MANIFEST)
    if isinstance(folder, RemoteFolder):
        folder._system.rm_file(folder._at("step-000000000020", name))
    else:
        (where / "step-000000000020" / name).unlink()
    assert newest_step(where) == 10
    assert message in caplog.text


def test_a_changed_manifest_is_noticed(tmp_path):
    save(tmp_path, 10)
    path = tmp_path / "step-000000000010" / "manifest.json"
    body = json.loads(path.read_text())
    body["facts"]["at"] = 11
    path.write_text(json.dumps(body))
    assert newest_step(tmp_path) is None


@pytest.mark.parametrize("left_bytes", [0, 1000, 17_000])
def test_a_full_disk_stops_nothing_and_harms_nothing(tmp_path, left_bytes):
    save(tmp_path, 1)
    save(tmp_path, 2)
    state = State(16_000)
    disk = FullDisk(tmp_path, left_bytes)
    saves = Checkpoints(disk, {"state": state})
    saves.start(3, {})
    with pytest.warns(UserWarning, match="could not be saved.*training goes on"):
        saves.wait()
    assert checkpoint.steps_in(disk) == [2, 1]
    assert newest_step(tmp_path) == 2
    disk.left_bytes = 10**9
    saves.start(4, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saves.wait()
    assert checkpoint.steps_in(disk) == [4, 2]


def test_a_folder_that_cannot_be_made_is_warned_about(tmp_path):
    (tmp_path / "file").write_text("")
    saves = Checkpoints(tmp_path / "file", {"state": State(8)})
    saves.start(1, {})
    with pytest.warns(UserWarning, match="could not be saved"):
        saves.wait()


def test_killed_savers_leave_what_can_be_resumed(tmp_path):
    tally = kill_rounds(tmp_path, 3, SIZE_BYTES)
    assert tally.kills == tally.resumed == tally.newest_said == 3


class Evil:
    def __reduce__(self):
        return (print, ("run",))


def test_nothing_else_than_plain_values_is_loaded(tmp_path, capsys):
    data = pickle.dumps({"state": Evil()})
    checkpoint.write(
        LocalFolder(tmp_path), 1, {}, {checkpoint.STATE: lambda file: file.write(data)}
    )
    saves = Checkpoints(tmp_path, {"state": State(8)})
    found = saves.newest()
    with pytest.raises(InputError, match=r"state\.pt cannot be read"):
        saves.load(found)
    assert capsys.readouterr().out == ""


def test_another_state_is_refused(tmp_path):
    first = Checkpoints(tmp_path, {"model": torch.nn.Linear(2, 2)})
    first.start(1, {})
    first.wait()
    other = Checkpoints(tmp_path, {"model": torch.nn.Linear(3, 2)})
    with pytest.raises(InputError, match="model does not fit the script's"):
        other.load(other.newest())
    more = Checkpoints(tmp_path, {"net": torch.nn.Linear(2, 2)})
    with pytest.raises(InputError, match="net was not saved; the checkpoint holds model"):
        more.load(more.newest())


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(InputError, match="keep must be 2 or more"):
        Checkpoints(tmp_path, {}, keep=1)
    with pytest.raises(InputError, match="step cannot be saved: a int has no state_dict"):
        Checkpoints(tmp_path, {"step": 3})
    with pytest.raises(InputError, match="fsspec"):
        Checkpoints("nosuchscheme://bucket", {})


def test_without_fsspec_a_url_is_refused(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(InputError, match="need fsspec"):
        open_folder("s3://bucket/run", checkpoint.MANIFEST)


def test_the_same_step_is_saved_once(tmp_path):
    saves = save(tmp_path, 5)
    inode = (tmp_path / "step-000000000005").stat().st_ino
    saves.start(5, {})
    saves.wait()
    assert (tmp_path / "step-000000000005").stat().st_ino == inode
