"""What is run on the bed: the list that the page's bars are about."""

from collections import Counter
from itertools import pairwise

import pytest
from benchmarks.testbed.cases import MIX, PROBED, RATE, WORLD, all_cases, short_cases
from benchmarks.testbed.kinds import KINDS, PROBED_WORLDS
from benchmarks.testbed.layers import MODELS, SCALE, layers_of
from benchmarks.testbed.pace import GPUS, pace_of

CASES = all_cases()


def test_there_are_enough_of_each_kind():
    assert len(CASES) >= 120
    assert sum(KINDS[case.groups[0][0]].delay_ms > 0 for case in CASES) >= len(CASES) / 3
    assert sum(case.part == MIX for case in CASES) >= 20
    ways = Counter((case.per_layer, case.slots) for case in CASES)
    assert set(ways) == {(mode, slots) for mode in (False, True) for slots in (1, 2, None)}
    assert min(ways.values()) >= 10
    assert {case.model for case in CASES} == set(MODELS)
    assert {case.world_size for case in CASES} >= {2, 3, 4, 6, 8}


def test_parts_are_what_they_are_called():
    for case in CASES:
        kinds = {name for name, _, _ in case.groups}
        if case.part == PROBED:
            assert all(KINDS[name].probed for name in kinds)
            assert case.world_size in PROBED_WORLDS
        elif case.part == WORLD:
            assert all(KINDS[name].probed for name in kinds)
            assert case.world_size not in PROBED_WORLDS
        elif case.part == RATE:
            assert not any(KINDS[name].probed for name in kinds)
        else:
            assert len(kinds) == 2


def test_each_run_is_listed_once_and_always_the_same():
    assert len({case.label for case in CASES}) == len(CASES)
    assert all_cases() == CASES
    assert len(short_cases(CASES, 7)) == 7


@pytest.mark.parametrize(
    ("model", "parameters"),
    # As published: ResNet-18 for CIFAR, ResNet-50, VGG-16 with batch norm, AlexNet, BERT-base.
    [
        ("resnet18", 11.17e6),
        ("resnet50", 25.56e6),
        ("vgg16", 138.37e6),
        ("alexnet", 61.10e6),
        ("bert-base", 108.9e6),
    ],
)
def test_models_are_as_large_as_published_after_scaling(model, parameters):
    elements = sum(layer.elements for layer in layers_of(model))
    assert elements * SCALE == pytest.approx(parameters, rel=0.005)
    assert sum(layer.share for layer in layers_of(model)) == pytest.approx(1)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("model", MODELS)
def test_more_samples_never_take_noticeably_less(model, gpu):
    pace = pace_of(model, gpu)
    seconds = [pace.passes_s(batch) for batch in (1, 8, 64, 512, 4096)]
    assert all(after > 0.97 * before for before, after in pairwise(seconds))
