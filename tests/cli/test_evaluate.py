import json

import pytest

from tests.command import srifty


def write(folder, sizes=8):
    rows = [f"net,T4,{2**i},{0.02 + 0.01 * 2**i}" for i in range(sizes)]
    path = folder / "latencies.csv"
    path.write_text("workload,gpu,batch_size,latency_s\n" + "\n".join(rows) + "\n")
    return str(path)


def test_json_has_the_keys_of_the_contract_as_fractions(tmp_path):
    outcome = srifty("evaluate", "compute", write(tmp_path), "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    (curve,) = document["curves"]
    assert {"workload", "gpu", "probes", "mape", "mape_line"} <= set(curve)
    assert curve["probes"] == [1, 4, 32, 128]
    assert 0 <= document["mape_mean"] < 1e-6  # a line is met exactly
    assert document["mape_median"] == document["mape_mean"]
    assert document["errors"] == "held-out"
    assert document["probes"] == 4


def test_people_see_mean_median_and_both_comparisons(tmp_path):
    outcome = srifty("evaluate", "compute", write(tmp_path))
    assert outcome.code == 0
    for word in ("mean", "median", "interpolation", "line"):
        assert word in outcome.out


@pytest.mark.parametrize(
    "arguments", [("--probes", "1"), ("--probes", "0"), ("--errors", "some"), ("--min-sizes", "1")]
)
def test_impossible_options_are_refused(tmp_path, arguments):
    assert srifty("evaluate", "compute", write(tmp_path), *arguments).code == 2


def test_too_few_sizes_say_what_to_do(tmp_path):
    outcome = srifty("evaluate", "compute", write(tmp_path, sizes=4))
    assert outcome.code == 2
    assert "--min-sizes" in outcome.err
