import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from srifty.errors import InputError
from srifty.profiling.workload import Workload, batch_size_of, load_factory

MODULE = """
import torch
from srifty.profiling.workload import Workload

NUMBER = 3

def make():
    model = torch.nn.Linear(2, 1)
    return Workload("tiny", model, lambda m, x: m(x).mean(), lambda b: torch.ones(b, 2))

def broken():
    return {}["no such key"]

def wrong():
    return 5
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "their_training.py").write_text(MODULE)
    yield tmp_path / "their_training.py"
    sys.modules.pop("their_training", None)


def small(**changes) -> Workload:
    parts = {
        "name": "small",
        "model": torch.nn.Linear(2, 1),
        "loss": lambda model, x: model(x).mean(),
        "make_batch": lambda size: torch.ones(size, 2),
    }
    return Workload(**(parts | changes))


def test_a_factory_is_found_in_the_current_folder(user_module):
    workload = load_factory("their_training:make")()
    assert workload.name == "tiny"
    assert batch_size_of(workload.batch_of(7)) == 7


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("their_training", "must be MODULE:FACTORY"),
        ("their_training:", "must be MODULE:FACTORY"),
        ("their_training.py:make", "write the module: their_training:make"),
        ("no_such_module_of_theirs:make", "there is no module"),
        ("their_training:mak", "did you mean their_training:make?"),
        ("their_training:nofn", "has no 'nofn'; its functions are make, broken, wrong"),
        ("their_training:NUMBER", "is an int, not a function"),
    ],
)
def test_a_wrong_reference_is_explained(user_module, reference, words):
    with pytest.raises(InputError) as caught:
        load_factory(reference)
    assert words in str(caught.value)


def test_an_error_of_the_factory_is_told_as_theirs_with_file_and_line(user_module):
    with pytest.raises(InputError) as caught:
        load_factory("their_training:broken")()
    line = 1 + MODULE.splitlines().index('    return {}["no such key"]')
    assert f"{user_module}:{line} in broken" in str(caught.value)
    assert "KeyError" in str(caught.value)
    assert "profiling/workload.py" not in str(caught.value)


def test_an_error_at_import_is_told_as_theirs(user_module):
    user_module.write_text("import torch\n1 / 0\n")
    with pytest.raises(InputError) as caught:
        load_factory("their_training:make")
    assert f"{user_module}:2" in str(caught.value)
    assert "ZeroDivisionError" in str(caught.value)


def test_a_module_that_misses_one_of_its_own_is_told_as_theirs(user_module):
    user_module.write_text("import no_such_library_of_theirs\n")
    with pytest.raises(InputError) as caught:
        load_factory("their_training:make")
    assert "no_such_library_of_theirs" in str(caught.value)
    assert f"{user_module}:1" in str(caught.value)


def test_what_a_factory_returns_is_checked(user_module):
    with pytest.raises(InputError, match="returned an int"):
        load_factory("their_training:wrong")()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": 5}, "model must be a torch.nn.Module"),
        ({"loss": None}, "loss must be a function"),
        ({"model": torch.nn.Linear(2, 1).requires_grad_(False)}, "no trainable parameter"),
    ],
)
def test_the_parts_of_a_workload_are_checked(change, words):
    with pytest.raises(InputError, match=words):
        small(**change)


def test_an_optimizer_over_parameters_of_another_model_is_refused():
    model, other = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)
    both = [*model.parameters(), *other.parameters()]
    for parameters, words in ((other.parameters(), "2 of 2"), (both, "2 of 4")):
        with pytest.raises(InputError, match=rf"trains {words} parameters .*\(1, 3\)"):
            small(model=model, optimizer=torch.optim.SGD(parameters, lr=0.1))
    with pytest.raises(InputError, match=r"must be a torch\.optim\.Optimizer, not a type"):
        small(optimizer=torch.optim.SGD)


def test_what_is_trainable_and_not_optimised_is_known():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    assert small(model=model, optimizer=optimizer).not_stepped == ("bias",)
    assert small().not_stepped == ()


def test_a_short_batch_is_refused():
    workload = small(make_batch=lambda size: torch.ones(min(size, 1000), 2))
    assert batch_size_of(workload.batch_of(1000)) == 1000
    with pytest.raises(InputError, match=r"make_batch\(1001\) gave a batch of 1000"):
        workload.batch_of(1001)


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (torch.ones(3, 2), 3),
        ((torch.ones(3, 2), torch.ones(3)), 3),
        ({"x": [torch.ones(3, 2)], "weight": torch.tensor(1.0), "name": "a"}, 3),
        # Packed indices of an embedding bag, and where each sample's begin.
        ({"indices": torch.ones(17), "offsets": torch.ones(3), "labels": torch.ones(3)}, 3),
    ],
)
def test_the_size_of_nested_batches(batch, size):
    assert batch_size_of(batch) == size
    assert small(make_batch=lambda _: batch).batch_of(size) is batch


def test_a_batch_without_tensors_is_refused():
    with pytest.raises(InputError, match="first dimension"):
        batch_size_of(("a", 1))


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (None, "returned None; it must"),
        ([], "returned a list without tensors; it must"),
        (np.ones((2, 4)), "returned a numpy.ndarray; it must"),
        ((np.ones(2), 3), "returned a tuple without tensors; it must"),
        (torch.tensor(1.0), "returned a Tensor of no dimension; it must"),
        (2, "returned an int; it must"),
    ],
)
def test_what_make_batch_returned_instead_of_a_batch_is_named(batch, words):
    with pytest.raises(InputError) as caught:
        small(make_batch=lambda size: batch).batch_of(2)
    assert f"make_batch(2) {words} return a tensor whose first dimension" in str(caught.value)
