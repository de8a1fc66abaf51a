"""Tables and plots of the pages."""

from benchmarks.paper.pages import made_by, percent, plt, save, table, write


def test_a_table_sets_figures_to_the_right():
    assert table(("a", "b"), [("x", 1), ("y", 2.5)]) == [
        "| a | b |",
        "|---|---:|",
        "| x | 1 |",
        "| y | 2.5 |",
    ]
    assert table(("a", "b"), [], words=2)[1] == "|---|---|"


def test_a_share_that_is_not_there_is_a_dash():
    assert percent(0.1234) == "12.3%"
    assert percent(float("nan")) == "–"


def test_the_last_line_names_machine_versions_and_date():
    line = made_by("python -m something")
    assert line.startswith("*Made by `python -m something` on ")
    for part in ("cores", "Python 3", "numpy", "scipy", "xgboost-cpu", "20"):
        assert part in line


def test_the_same_plot_is_the_same_file(tmp_path):
    def draw(path):
        figure, axes = plt.subplots()
        axes.scatter([1, 2], [3, 4], rasterized=True, label="dots")
        axes.legend()
        save(figure, path)
        return path.read_bytes()

    first = draw(tmp_path / "a.svg")
    assert first == draw(tmp_path / "deeper" / "b.svg")
    assert b"<dc:date>" not in first


def test_a_page_ends_with_one_newline(tmp_path):
    write(tmp_path / "page.md", ["# Page", "", "text", ""])
    assert (tmp_path / "page.md").read_text() == "# Page\n\ntext\n"
