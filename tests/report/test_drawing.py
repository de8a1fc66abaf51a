import pytest

pytest.importorskip("jinja2")

from srifty.report.axis import number_axis
from srifty.report.drawing import Drawing
from tests.report.pages import parsed

NASTY = "</text><script>x</script>&\"'"


def test_words_and_titles_are_escaped():
    drawing = Drawing(100, 50, NASTY)
    drawing.text(1, 2, NASTY)
    drawing.box(0, 0, 5, 5, "fill-first", NASTY)
    drawing.dot((1, 1), 2, "fill-first", NASTY)
    drawing.diamond((1, 1), 2, "fill-first", NASTY)
    tree = parsed(str(drawing.svg()))
    assert tree.get("aria-label") == NASTY
    assert not list(tree.iter("script"))
    assert [element.text for element in tree.iter("title")] == [NASTY] * 3


def test_a_frame_has_a_word_at_each_tick():
    drawing = Drawing(300, 200, "drawing")
    x, y = number_axis(0, 10, 50, 290), number_axis(0, 4, 150, 20)
    drawing.frame(x, y, x_name="VMs", y_name="dollars")
    found = [element.text for element in parsed(str(drawing.svg())).iter("text")]
    assert set(found) == {"VMs", "dollars", *(tick.label for tick in (*x.ticks, *y.ticks))}


def test_fewer_points_than_a_line_needs_draw_nothing():
    drawing = Drawing(10, 10, "empty")
    drawing.path([(1, 1)], "line-first")
    drawing.area([(1, 1), (2, 2)], "band-first")
    assert not list(parsed(str(drawing.svg())))
