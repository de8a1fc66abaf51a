"""A case at full scale: what its table says."""

from benchmarks.paper.cases import SAID, case
from benchmarks.paper_jobs import PAPER_CASES


def test_a_case_has_ours_and_every_baseline():
    lines, answer = case(PAPER_CASES[1])
    text = "\n".join(lines)
    for method in ("srifty", "anchored", "apm", "paleo", "oracle-bo", "cgf", "fgf"):
        assert f"| {method} |" in text
    assert "Global batch 512, 1,000 iterations, least time; 64 g3.8xlarge" in text
    assert answer[0] == "2 VGG-16"
    assert float(answer[3]) == 0.8


def test_every_case_says_what_the_paper_chose():
    assert set(SAID) == {one.name for one in PAPER_CASES}
