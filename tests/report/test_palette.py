import itertools

import pytest

pytest.importorskip("jinja2")

from srifty.report.palette import GROUNDS, INKS, contrast, stylesheet


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    assert contrast("#336699", "#336699") == 1.0
    assert contrast("#ffffff", "#0000ff") == contrast("#0000ff", "#ffffff")


@pytest.mark.parametrize(
    ("ink", "ground"), list(itertools.product(INKS, GROUNDS)), ids=lambda name: name
)
def test_words_can_be_read_on_every_ground(ink, ground):
    assert contrast(INKS[ink].light, GROUNDS[ground].light) >= 4.5
    assert contrast(INKS[ink].dark, GROUNDS[ground].dark) >= 4.5


def test_paper_is_light():
    light, dark = stylesheet().split("@media")
    assert dark.startswith(" screen and (prefers-color-scheme:dark)")
    for name, tone in (GROUNDS | INKS).items():
        assert f"--{name}:{tone.light}" in light
        assert f"--{name}:{tone.dark}" in dark
