import csv
import json
from dataclasses import replace

import pytest

from tests.calibration.synthetic import KIND, WORKLOADS, observed, probes
from tests.command import profile_document, srifty, write_job

PREDICTORS = ("srifty", "apm", "compute-only")
COLUMNS = ("workload", "gpu", "instance_type", "local_batch", "step_s", "placement")
SIZES = [f"--gradient-bytes={name}={values[2]}" for name, values in WORKLOADS.items()]


def all_rows(noise=0.02):
    return [row for name in WORKLOADS for row in probes(name)] + observed(noise=noise)


def write(folder, rows, name="iterations.csv", sizes=False):
    path = folder / name
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "gradient_bytes"])
        for row in rows:
            placement = "-".join(map(str, row.gpus_used))
            values = [getattr(row, column) for column in COLUMNS[:-1]]
            writer.writerow([*values, placement, WORKLOADS[row.workload][2] if sizes else ""])
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("observed"), all_rows(), sizes=True)


def test_json_has_the_keys_of_the_contract_as_fractions(path):
    outcome = srifty("evaluate", "iterations", path, "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    keys = {"mape", "median", "underestimated_share", "underestimation_p90", "p90_coverage"}
    for name in PREDICTORS:
        scores = document[name]
        assert keys <= set(scores)
        assert set(scores["by_workload"]) == set(WORKLOADS)
        assert list(scores["by_gpu"]) == ["A"]
        assert "16" in scores["by_world_size"]
        for group in scores["by_workload"].values():
            assert keys <= set(group)
        assert sum(group["rows"] for group in scores["by_world_size"].values()) == 33 * 3
        assert 0 <= scores["underestimated_share"] <= 1
    assert document["hold_out"] == "workload"
    assert document["rows"] == 99
    assert document["learned_rows"] == [78, 78, 78]
    assert document["gradients"]["small"]["from"].startswith("column gradient_bytes")
    assert document["srifty"]["mape"] < 0.25 < document["compute-only"]["mape"]


def test_larger_clusters_from_smaller_ones(path):
    document = json.loads(
        srifty("evaluate", "iterations", path, "--hold-out", "nodes", "--json").out
    )
    assert document["train_max_vms"] == 4
    assert list(document["srifty"]["by_world_size"]) == ["16", "32"]
    assert document["srifty"]["mape"] < 0.06
    larger = ("--hold-out", "nodes", "--train-max-vms", "3", "--json")
    document = json.loads(srifty("evaluate", "iterations", path, *larger).out)
    assert "4" in document["srifty"]["by_world_size"]


def test_people_see_every_predictor_and_what_it_rests_on(path):
    outcome = srifty("evaluate", "iterations", path, "--hold-out", "random")
    assert outcome.code == 0
    for word in (*PREDICTORS, "within the P90", "world size", "middle", "calibrated from"):
        assert word in outcome.out
    assert "b4.large is not in the catalog" in outcome.out


def test_forecasts_are_written_row_by_row(path, tmp_path):
    target = tmp_path / "out.csv"
    assert srifty("evaluate", "iterations", path, "-o", target, "--json").code == 0
    with target.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 99
    assert all(float(row["srifty_p90_s"]) >= float(row["srifty_s"]) > 0 for row in rows)
    refused = srifty("evaluate", "iterations", path, "-o", tmp_path / "no" / "out.csv")
    assert refused.code == 2
    assert "cannot be written" in refused.err


def test_the_file_that_is_read_is_not_written_over(path):
    before = path.read_bytes()
    refused = srifty("evaluate", "iterations", path, "-o", path)
    assert refused.code == 2
    assert "is the file that is read: name another" in refused.err
    assert path.read_bytes() == before


def test_columns_that_are_not_read_are_said(tmp_path):
    path = write(tmp_path, all_rows(), sizes=True)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines = [f"{lines[0]},accumulate", *(f"{line},1" for line in lines[1:])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert "Columns that are not read: accumulate." in srifty("evaluate", "iterations", path).out


def test_held_out_times_do_not_reach_the_forecasts(tmp_path):
    """The whole command: times of one workload change, its own forecasts do not."""
    changed = [
        replace(row, step_s=row.step_s * 3) if row.workload == "large" and row.vms > 1 else row
        for row in all_rows()
    ]
    forecasts = []
    for name, rows in (("a", all_rows()), ("b", changed)):
        target = tmp_path / f"{name}.out"
        source = write(tmp_path, rows, f"{name}.csv", sizes=True)
        assert srifty("evaluate", "iterations", source, "-o", target).code == 0
        with target.open(encoding="utf-8") as file:
            found = [row for row in csv.DictReader(file) if row["workload"] == "large"]
        forecasts.append([{k: v for k, v in row.items() if k != "step_s"} for row in found])
    assert len(forecasts[0]) == 33
    assert forecasts[0] == forecasts[1]


def test_sizes_may_be_stated_or_else_are_guessed_and_said(tmp_path):
    path = write(tmp_path, all_rows())
    stated = json.loads(srifty("evaluate", "iterations", path, *SIZES, "--json").out)
    assert stated["gradients"]["large"] == {
        "bytes": 400_000_000,
        "from": "--gradient-bytes; ready evenly over the backward pass",
    }
    guessed = json.loads(srifty("evaluate", "iterations", path, "--json").out)
    assert guessed["gradients"]["large"]["from"] == "guessed"
    assert any("gradients of large are guessed" in words for words in guessed["assumptions"])
    assert guessed["srifty"]["mape"] > stated["srifty"]["mape"]


@pytest.mark.parametrize(
    ("size", "origin"),
    [
        (None, "built-in resnet50"),
        ("resnet50=102MB", "--gradient-bytes; order and ready times as built-in resnet50"),
        ("resnet50=97.5 mib", "--gradient-bytes; order and ready times as built-in resnet50"),
        ("resnet50=102228128", "--gradient-bytes; order and ready times as built-in resnet50"),
        ("resnet50=204MB", "--gradient-bytes; ready evenly over the backward pass"),
    ],
)
def test_built_in_workloads_bring_their_gradients(tmp_path, size, origin):
    path = tmp_path / "iterations.csv"
    rows = [row for row in all_rows() if row.workload != "large"]
    text = write(tmp_path, rows, sizes=True).read_text().replace("middle", "resnet50")
    path.write_text(text.replace(",90000000", ","))
    options = ["--gradient-bytes", size] if size else []
    outcome = srifty("evaluate", "iterations", path, *options, "--json")
    assert json.loads(outcome.out)["gradients"]["resnet50"]["from"] == origin


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hold-out", "some"], "some"),
        (["--train-max-vms", "3"], "goes with --hold-out nodes only"),
        (["--hold-out", "nodes", "--train-max-vms", "1"], "--train-max-vms"),
        (["--hold-out", "nodes", "--train-max-vms", "64"], "nothing can be held out"),
        (["--gradient-bytes", "small"], "must be WORKLOAD=SIZE"),
        (["--gradient-bytes", "nobody=3MB"], "must be WORKLOAD=SIZE"),
        (["--gradient-bytes", "small=3 apples"], "is not a size"),
        (["--gradient-bytes", "small=0MB"], "is not a size"),
        (["--gradient-bytes", "small=1e9"], "is not a size"),
    ],
)
def test_impossible_options_are_refused(path, arguments, message):
    outcome = srifty("evaluate", "iterations", path, *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_files_that_cannot_be_used_say_why(tmp_path):
    one = [row for row in all_rows() if row.workload == "small"]
    outcome = srifty("evaluate", "iterations", write(tmp_path, one, sizes=True))
    assert outcome.code == 2
    assert "several VMs of two workloads or more" in outcome.err
    without_probes = [row for row in all_rows() if row.world_size > 1]
    outcome = srifty("evaluate", "iterations", write(tmp_path, without_probes, sizes=True))
    assert outcome.code == 2
    assert "one-GPU row" in outcome.err
    crowded = [replace(row, instance_type="g4dn.xlarge") for row in all_rows()]
    outcome = srifty("evaluate", "iterations", write(tmp_path, crowded, sizes=True))
    assert outcome.code == 2
    assert "g4dn.xlarge has 1 GPUs, but a placement uses 4 of one VM" in outcome.err


def test_a_job_learns_its_links_from_a_file(tmp_path):
    rows = [replace(row, instance_type="g4dn.12xlarge", gpu="T4") for row in all_rows()]
    write(tmp_path, rows, sizes=True)
    job = write_job(
        tmp_path,
        "name: toy\nworkload: toy.json\nglobal_batch: 128\niterations: 100\n"
        "offers: {quota: {g4dn.12xlarge: 4}}\n",
        profile_document(),
    )
    config = ("--config", "4g4dn.12xlarge@32", "--json")
    before = json.loads(srifty("simulate", job, *config).out)
    after = json.loads(srifty("simulate", job, "--set", "observed=iterations.csv", *config).out)
    assert any("is calibrated from 99 observed" in words for words in after["assumptions"])
    assert after["iteration_s"]["mean"] != before["iteration_s"]["mean"]
    missing = srifty("simulate", job, "--set", "observed=none.csv", *config)
    assert missing.code == 2
    assert "observed: there is no file" in missing.err
    write(tmp_path, all_rows(), sizes=True)
    other = srifty("simulate", job, "--set", "observed=iterations.csv", *config)
    assert other.code == 2
    assert "offered type (g4dn.12xlarge)" in other.err  # the file has KIND only
    assert KIND.name not in other.err
