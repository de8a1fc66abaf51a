import json

import pytest

pytest.importorskip("jinja2")

from srifty.files.plan_document import PlanDocument, read_plan_document
from srifty.report import plan_page
from srifty.report.doubt import doubts
from srifty.report.money import bill_parts
from tests.command import srifty
from tests.report.conftest import NAME
from tests.report.pages import assert_self_contained, at, numbers, parsed, words

MOST_BYTES = 500_000


@pytest.fixture(scope="module")
def compared(written):
    return json.loads(srifty("compare", written / "job.yaml", "--json").out)


def page_of(written, name, compared=None):
    document = read_plan_document(written / f"{name}.json")
    return plan_page(document, compared)


def headings(page):
    return [words(element) for element in parsed(page).iter("h2")]


@pytest.mark.parametrize("name", ["limited", "free", "none"])
def test_numbers_on_the_page_are_those_of_the_file(written, compared, name):
    document = json.loads((written / f"{name}.json").read_text())
    page = page_of(written, name, compared)
    found = list(numbers(page))
    told = document | {"baselines": compared}
    for source, value, _ in found:
        assert value == at(told, source), source
    plan = "nearest" if name == "none" else "plan"
    sources = {source for source, _, _ in found}
    for key in ("time_s.mean", "time_s.p90", "cost_usd.mean", "cost_usd.p90"):
        assert f"{plan}.{key}" in sources
    for index, curve in enumerate(document["scaling"]["curves"]):
        for point in range(len(curve["points"])):
            for end in ("mean", "p10", "p90"):
                assert f"scaling.curves.{index}.points.{point}.samples_per_s.{end}" in sources
    for index in range(len(compared["methods"])):
        assert f"baselines.methods.{index}.over_best" in sources
    assert f"timeline.compute.{len(document['timeline']['compute']) - 1}.duration_s" in sources


@pytest.mark.parametrize("name", ["limited", "free", "none"])
def test_the_page_is_one_file_of_modest_size(written, compared, name):
    page = page_of(written, name, compared)
    assert_self_contained(page)
    assert len(page.encode()) < MOST_BYTES


def test_the_first_sentence_is_the_answer(written):
    document = read_plan_document(written / "limited.json")
    (answer,) = parsed(page_of(written, "limited")).iter("h1")
    assert words(answer).startswith("Rent ")
    assert "the deadline of 1 h 00 min 00 s and the budget of $2.00" in words(answer)
    assert words(answer).endswith("confidence.")
    assert document.plan.groups[0].instance_type in words(answer)
    (free,) = parsed(page_of(written, "free")).iter("h1")
    assert "nine times of ten within" in words(free)
    (none,) = parsed(page_of(written, "none")).iter("h1")
    assert words(none).startswith("No plan. ")
    assert "The nearest one ends in" in words(none)


def test_every_drawing_has_its_table(written):
    tree = parsed(page_of(written, "limited"))
    drawn = [section for section in tree.iter("section") if list(section.iter("figure"))]
    assert {section.get("id") for section in drawn} == {
        "front", "scaling", "timeline", "money", "doubt",
    }  # fmt: skip
    for section in drawn:
        assert len(list(section.iter("svg"))) >= 2  # a wide and a narrow one
        (table,) = (t for d in section.iter("details") for t in d.iter("table"))
        assert list(table.iter("td"))


def test_names_cannot_break_out(written):
    page = page_of(written, "limited")
    assert "<script>" not in page
    (over,) = (p for p in parsed(page).iter("p") if p.get("class") == "over")
    assert words(over) == f"Plan for {NAME}"


def test_all_that_the_plan_says_is_there(written):
    document = read_plan_document(written / "limited.json")
    text = words(parsed(page_of(written, "limited")))
    told = [*document.warnings, *document.assumptions]
    told += [each.message for each in (*document.explanations, *document.marginals)]
    assert len(told) > 5
    for sentence in told:
        assert " ".join(sentence.split()) in text
    refused = read_plan_document(written / "none.json")
    for reason in refused.reasons:
        assert reason.message in words(parsed(page_of(written, "none")))


@pytest.mark.parametrize("name", ["limited", "free"])
def test_the_parts_of_the_bill_are_the_bill(written, name):
    document = read_plan_document(written / f"{name}.json")
    parts = bill_parts(document, document.plan)
    assert sum(usd for _, usd, _ in parts) == pytest.approx(document.plan.cost_usd.mean, rel=1e-3)
    computing = sum(usd for kind, usd, _ in parts if kind.startswith("compute"))
    request, plan = document.request, document.plan
    assert computing == pytest.approx(
        request.iterations
        * (plan.parts.forward_s + plan.parts.backward_s)
        * (plan.usd_per_hour + 0.25)
        / 3600
    )


@pytest.mark.parametrize("name", ["limited", "free"])
def test_the_causes_of_doubt_make_up_the_spread(written, name):
    document = read_plan_document(written / f"{name}.json")
    whole = sum(cause.std_s**2 for cause in doubts(document))
    assert whole**0.5 == pytest.approx(document.plan.time_s.std, rel=1e-6)


def test_a_plan_of_before_has_a_page_too(written):
    document = json.loads((written / "limited.json").read_text())
    for key in ("request", "scaling", "timeline", "explanations"):
        del document[key]
    page = plan_page(PlanDocument.model_validate(document), not_compared="No job file.")
    assert "No job file." in page
    assert headings(page)[0] == "What to rent"
    assert "One iteration" not in headings(page)


def test_what_is_infinite_is_not_known(written):
    document = json.loads((written / "limited.json").read_text())
    for plan in (document["plan"], *document["ranking"], *document["front"]):
        for key in ("time_s", "cost_usd"):
            plan[key] = dict.fromkeys(plan[key])
    for curve in document["scaling"]["curves"]:
        for point in curve["points"]:
            point["samples_per_s"]["p90"] = None
    page = plan_page(PlanDocument.model_validate(document))
    assert "–" in page
    assert "None" not in words(parsed(page))


def test_another_plan_than_the_compared_one_is_pointed_out(written, compared):
    assert "Our own row is not the plan above" not in page_of(written, "limited", compared)
    assert "Our own row is not the plan above" in page_of(written, "free", compared) or (
        json.loads((written / "free.json").read_text())["plan"]["cost_usd"]
        == compared["methods"][0]["simulated"]["cost_usd"]
    )


def test_measured_points_are_drawn_and_tabled(written):
    document = json.loads((written / "limited.json").read_text())
    document["scaling"]["measured"] = [
        {"instance_type": "g4dn.xlarge", "vms": 2, "samples_per_s": 123.0}
    ]
    page = plan_page(PlanDocument.model_validate(document))
    assert ("scaling.measured.0.samples_per_s", 123.0, "123") in list(numbers(page))
    assert "g4dn.xlarge, 2 VMs: 123 samples/s measured" in page
