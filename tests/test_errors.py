import inspect

import pytest

from srifty import errors
from srifty.errors import (
    CloudRefused,
    InputError,
    ModelError,
    NotationError,
    ProbeFailed,
    Problem,
    ProfileFailed,
    SaveFailed,
    SriftyError,
    TrainingStalled,
)


def test_every_error_has_one_base_and_stands_in_the_tree():
    kinds = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    assert set(kinds) == {
        SriftyError,
        InputError,
        NotationError,
        ModelError,
        CloudRefused,
        ProbeFailed,
        ProfileFailed,
        SaveFailed,
        TrainingStalled,
    }
    for kind in kinds:
        assert issubclass(kind, SriftyError)
        assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize(
    ("problems", "source", "text"),
    [
        ("is wrong", None, "is wrong"),
        ("is wrong", "a.yaml", "a.yaml: is wrong"),
        ([Problem("x.y", "is wrong")], "a.yaml", "a.yaml: x.y: is wrong"),
        ([Problem("x", "a"), Problem("", "b")], None, "x: a\nb"),
        ([Problem("x", "a"), Problem("", "b")], "f", "f: x: a\nf: b"),
    ],
)
def test_messages(problems, source, text):
    error = InputError(problems, source)
    assert str(error) == text
    assert error.source == source
    assert all(isinstance(problem, Problem) for problem in error.problems)
