import builtins
import json
import sys

import pytest

pytest.importorskip("jinja2")

from tests.command import job_text, srifty, write_job
from tests.control.told import told_ledger
from tests.report.pages import assert_self_contained, at, numbers, parsed, words


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SRIFTY_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("SRIFTY_CATALOG", str(tmp_path / "catalog.csv"))
    return tmp_path


@pytest.fixture
def plan(place):
    path = place / "plan.json"
    outcome = srifty("plan", write_job(place), "-o", path)
    assert outcome.code == 0, outcome.err
    return path


def baselines(page):
    (found,) = (s for s in parsed(page).iter("section") if s.get("id") == "baselines")
    return words(found)


def test_a_plan_becomes_a_page_with_the_other_methods_choices(plan, place):
    page = place / "report.html"
    outcome = srifty("report", plan, "-o", page, "--json")
    assert outcome.code == 0, outcome.err
    assert f"wrote {page}" in outcome.err
    told = json.loads(outcome.out)
    assert told["page"] == str(page)
    assert [method["method"] for method in told["baselines"]["methods"]][:2] == [
        "srifty",
        "anchored",
    ]
    text = page.read_text(encoding="utf-8")
    assert_self_contained(text)
    document = json.loads(plan.read_text()) | {"baselines": told["baselines"]}
    for source, value, _ in numbers(text):
        assert value == at(document, source), source
    assert "oracle-bo" in baselines(text)
    assert "Our own row is not" not in text


def test_the_settings_of_the_command_line_count_in_the_comparison(place):
    job = write_job(place, job_text(("iterations: 100", "iterations: 50")))
    path, page = place / "plan.json", place / "report.html"
    settings = ("--set", "iterations=70", "--minimize", "time", "--confidence", "0.7")
    assert srifty("plan", job, *settings, "-o", path).code == 0
    request = json.loads(path.read_text())["request"]
    assert (request["iterations"], request["minimize"], request["confidence"]) == (70, "time", 0.7)
    told = json.loads(srifty("report", path, "-o", page, "--json").out)["baselines"]
    assert (told["minimize"], told["confidence"]) == ("time", 0.7)
    assert "Our own row is not" not in page.read_text()


@pytest.mark.parametrize(
    ("spoil", "options", "words"),
    [
        (lambda job: job.unlink(), (), "is not there any more"),
        (lambda job: job.write_text("name: other\n"), (), "is not what it was"),
        (lambda job: (job.parent / "toy.json").unlink(), (), "Not computed: "),
        (lambda job: None, ("--no-baselines",), "Left out, as asked"),
    ],
)
def test_a_page_without_the_comparison_says_why(plan, place, spoil, options, words):
    spoil(place / "job.yaml")
    page = place / "report.html"
    outcome = srifty("report", plan, "-o", page, *options)
    assert outcome.code == 0, outcome.err
    assert words in baselines(page.read_text())


def test_a_run_becomes_a_page(place):
    with told_ledger(place / "runs" / "toy-1" / "ledger.db"):
        pass
    page = place / "run.html"
    outcome = srifty("report", "toy-1", "-o", page, "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    text = page.read_text(encoding="utf-8")
    assert_self_contained(text)
    assert "vm-2: preempted" in words(parsed(text))
    assert document["history"]["progress"][0]["iteration"] == 20.0
    told = {source: value for source, value, _ in numbers(text)}
    assert told["history.rentals.1.stopped_s"] == 165.0
    in_words = srifty("report", "toy-1")
    assert in_words.code == 0
    assert "preempted" in in_words.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan.json",), "say where to write the page"),
        (("nothing.json", "-o", "x.html"), "nothing.json"),
        (("nobody", "-o", "x.html"), "no run 'nobody'"),
        (("plan.json", "-o", "none/x.html"), "cannot be written"),
    ],
)
def test_what_is_wrong_is_said(plan, place, monkeypatch, arguments, words):
    monkeypatch.chdir(place)
    outcome = srifty("report", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_without_jinja_the_extra_is_named(plan, place, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **more):
        if name.partition(".")[0] in ("jinja2", "markupsafe"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return real(name, *arguments, **more)

    for name in [name for name in sys.modules if name.startswith(("srifty.report", "jinja2"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    outcome = srifty("report", plan, "-o", place / "x.html")
    assert outcome.code == 2
    assert 'pip install "srifty[report]"' in outcome.err
