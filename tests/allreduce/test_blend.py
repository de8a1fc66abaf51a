"""The blend: weights come from what was held out, intervals hold, nothing is ever negative."""

from __future__ import annotations

import numpy as np
import pytest

from srifty.allreduce.blend import Blend
from srifty.allreduce.boosted import Boosted, PaperBoosted
from srifty.allreduce.boosting import BoostingOptions
from srifty.allreduce.estimator import interpolated, kriging
from srifty.allreduce.recipe import KRIGING, Choice, Recipe
from srifty.allreduce.table import SampleTable
from srifty.errors import InputError

from .worlds import ring_time_s, sweep

WORLDS = ((4, 2), (8, 4), (16, 8), (32, 16), (64, 32))
FEW_TREES = BoostingOptions(rounds=40)


def rough(seed):
    """A law whose every size and world does something of its own, within 20 %."""
    rng = np.random.default_rng(seed)
    quirks = {}

    def law(n, vms, size):
        quirk = quirks.setdefault((n, size), rng.normal(0, 0.2))
        return ring_time_s(n, vms, size) * np.exp(quirk)

    return law


@pytest.fixture(scope="module")
def many():
    """Six instance types of four rough curves' worlds each."""
    samples = [
        sample
        for number in range(6)
        for sample in sweep(f"a{number}.x", worlds=WORLDS, law=rough(number))
    ]
    return SampleTable.of(samples)


@pytest.fixture(scope="module")
def blend(many):
    return Blend(boosting=FEW_TREES).fit(many)


def ask(kind, world_size, vms, sizes):
    sample = sweep(kind, worlds=((world_size, vms),), sizes=[int(s) for s in sizes])
    return SampleTable.of(sample).questions()


def test_every_regime_is_weighed_and_the_weights_sum_to_one(blend):
    assert {(c.regime, c.large) for c in blend.recipe.choices} == {
        (regime, large) for regime in ("probed", "inside", "outside") for large in (False, True)
    }
    for choice in blend.recipe.choices:
        assert sum(choice.weights.values()) == pytest.approx(1.0)
        assert choice.error <= min(choice.errors.values()) + 0.01


def test_a_member_that_errs_more_gets_less(blend):
    for choice in blend.recipe.choices:
        worst = max(choice.errors, key=choice.errors.get)
        assert choice.weights[worst] <= 0.5


def test_intervals_hold_nine_times_in_ten_on_worlds_never_seen(many, blend):
    inside = total = 0
    for number in range(6):
        held_out = (many.curve == number) & (many.world_size == 16)
        test = many.take(held_out)
        answer = (
            Blend(recipe=blend.recipe, boosting=FEW_TREES)
            .fit(many.take(~held_out))
            .predict(test.questions())
        )
        miss = np.abs(answer.log_time - np.log(test.time_s)) / answer.log_sd
        inside += int((miss < 1.6449).sum())
        total += len(test)
    assert 0.8 <= inside / total <= 0.98


def test_intervals_widen_outside(blend):
    near = blend.predict(ask("a0.x", 24, 12, [1e6])).log_sd
    far = blend.predict(ask("a0.x", 512, 256, [1e6])).log_sd
    assert far > near


def test_the_same_samples_give_the_same_blend(many, blend):
    assert Blend(boosting=FEW_TREES).fit(many).recipe == blend.recipe


def test_too_few_worlds_leave_kriging_alone():
    table = SampleTable.of(sweep(worlds=((8, 2),)))
    fitted = Blend().fit(table)
    assert fitted.recipe == Recipe()
    answer = fitted.predict(table.questions())
    alone = kriging().fit(table).predict(table.questions())
    assert answer.log_time.tolist() == alone.log_time.tolist()


def test_a_recipe_without_trees_never_imports_xgboost(many):
    recipe = Recipe((Choice("inside", True, {KRIGING: 1.0}, 0.1, {KRIGING: 0.1}, 5),))
    fitted = Blend(recipe=recipe, trees=False).fit(many)
    assert fitted.trees is None


def test_a_recipe_survives_a_file(blend):
    assert Recipe.of_document(blend.recipe.document()) == blend.recipe


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"choices": [{}], "scales": {}},
        {"choices": [], "scales": {"inside": float("nan")}},
        {"choices": [], "scales": []},
        {
            "choices": [
                {
                    "regime": "inside",
                    "large": True,
                    "weights": {"magic": 1.0},
                    "error": 0.1,
                    "errors": {},
                    "groups": 1,
                }
            ],
            "scales": {},
        },
    ],
)
def test_a_document_that_is_no_recipe(document):
    with pytest.raises(InputError, match="no recipe"):
        Recipe.of_document(document)


@pytest.mark.parametrize("make", [Blend, Boosted, PaperBoosted, kriging, interpolated])
def test_bandwidths_are_positive_even_where_nothing_was_seen(make):
    tiny = sweep(sizes=[4, 64, 4096, 2**20, 2**28], law=lambda n, v, s: 5e-5 + s / 1e10, noise=0.3)
    fitted = make().fit(SampleTable.of(tiny))
    for world in ((8, 2), (24, 6), (1024, 256)):
        answer = fitted.predict(ask("g4dn.12xlarge", *world, [4, 700, 2**20, 2**32]))
        assert np.isfinite(answer.log_time).all()


class TestBoosted:
    def test_it_learns_what_a_law_gives(self):
        table = SampleTable.of(sweep(worlds=WORLDS, sizes=[4 * 2**i for i in range(27)]))
        answer = Boosted().fit(table).predict(table.questions())
        assert np.mean(np.abs(np.exp(answer.log_time) / table.time_s - 1)) < 0.03

    def test_concurrent_transfers_are_a_feature(self):
        samples = sweep() + sweep(concurrent=4, law=lambda n, v, s: 3 * ring_time_s(n, v, s))
        table = SampleTable.of(samples)
        answer = np.exp(Boosted().fit(table).predict(table.questions()).log_time)
        alone, four = answer[table.concurrent == 1], answer[table.concurrent == 4]
        assert np.median(four / alone) == pytest.approx(3, rel=0.1)

    def test_it_survives_a_file(self, many):
        trees = Boosted(options=FEW_TREES).fit(many)
        again = Boosted.restored({}, trees.codes(), trees.raw())
        questions = many.questions()
        assert np.allclose(
            trees.predict(questions).log_time, again.predict(questions).log_time, rtol=1e-6
        )

    def test_bytes_that_are_no_trees(self):
        with pytest.raises(ValueError, match=r"\S"):
            Boosted.restored({}, {}, b"{}")

    def test_the_paper_s_form_counts_what_it_had_to_floor(self):
        steep = sweep(sizes=[4 * 2**i for i in range(12)], law=lambda n, v, s: 1e-3 / (1 + s))
        paper = PaperBoosted(options=FEW_TREES).fit(SampleTable.of(steep))
        answer = paper.predict(SampleTable.of(steep).questions())
        assert np.isfinite(answer.log_time).all()
        assert paper.floored >= 0
