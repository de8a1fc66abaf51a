import json
import re

import pytest

from tests.command import job_text, srifty, write_job

FOUR = "4g4dn.xlarge (spot)@16"


def test_json(tmp_path):
    steady = ("--set", "offers.interruptions={g4dn.xlarge: 0/h}")
    outcome = srifty("simulate", write_job(tmp_path), *steady, "--config", FOUR, "--json")
    assert outcome.code == 0
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert document["config"] == FOUR
    assert document["interruptions"] is None
    assert document["world_size"] == 4
    assert document["groups"][0]["local_batch"] == [16]
    parts = document["parts"]
    mean = parts["forward_s"] + parts["backward_s"] + parts["exposed_exchange_s"]
    assert document["iteration_s"]["mean"] == pytest.approx(mean + parts["optimizer_s"])
    assert document["time_s"]["mean"] == pytest.approx(100 * document["iteration_s"]["mean"])
    assert document["assumptions"]


def test_for_people(tmp_path):
    outcome = srifty("simulate", write_job(tmp_path), "--config", FOUR)
    assert outcome.code == 0
    assert "toy: 100 iterations on" in outcome.out
    assert re.search(r"4 x g4dn\.xlarge \(spot, use1-az\d\), 16 per GPU", outcome.out)
    assert FOUR in outcome.out
    assert "ends in" in outcome.out
    assert "\x1b" not in outcome.out


def test_remainders_make_a_second_group(tmp_path):
    path = write_job(tmp_path, job_text(("global_batch: 64", "global_batch: 37")))
    config = "1g4dn.xlarge@10 + 3g4dn.xlarge@9"
    document = json.loads(srifty("simulate", path, "--config", config, "--json").out)
    assert [group["local_batch"] for group in document["groups"]] == [[10], [9]]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("4g4dn.xlarge@15", "serves 60 samples per iteration, but the global batch is 64"),
        ("4g4dn.xlarge@17", "serves 68 samples per iteration"),
        ("4p3.2xlarge@16", "'p3.2xlarge' is not among the offers (there are: g4dn.xlarge)"),
        ("4g4dn.xlarge (reserved)@16", "cannot be had as reserved; it is offered as: on-dem"),
        ("nonsense", "'nonsense' is not a VM group; write <num><instance>@<samples per VM>"),
        ("", "is not a VM group"),
        ("2g4dn.xlarge:2gpu@32", "g4dn.xlarge has 1 GPUs, so 2 of them cannot be used"),
        ("4g4dn.xlarge@16x17", "cannot make 17 passes"),
    ],
)  # fmt: skip
def test_refused(tmp_path, config, words):
    outcome = srifty("simulate", write_job(tmp_path), "--config", config)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: --config: ")
    assert words in outcome.err


def test_over_memory_names_the_passes_that_fit(tmp_path):
    path = write_job(tmp_path, job_text(("global_batch: 64", "global_batch: 100")))
    outcome = srifty("simulate", path, "--config", "1g4dn.xlarge@100")
    assert outcome.code == 2
    assert (
        "100 samples per pass exceed the 64 that fit on T4; accumulate over 2 passes" in outcome.err
    )
    assert "@100x2" in outcome.err
    assert srifty("simulate", path, "--config", "1g4dn.xlarge@100x2").code == 0


def test_a_gpu_without_a_profile(tmp_path):
    text = job_text(("{g4dn.xlarge: 4}", "{g4dn.xlarge: 4, p3.2xlarge: 4}"))
    outcome = srifty("simulate", write_job(tmp_path, text), "--config", "4p3.2xlarge@16")
    assert outcome.code == 2
    assert "the job has no profile for V100" in outcome.err


def test_several_problems_together(tmp_path):
    outcome = srifty(
        "simulate", write_job(tmp_path), "--config", "1g4dn.xlarge@65 + 1g4dn.xlarge (spot)@66"
    )
    assert len(outcome.err.splitlines()) == 3


def test_trace(tmp_path):
    path = tmp_path / "trace.json"
    outcome = srifty("simulate", write_job(tmp_path), "--config", FOUR, "--trace", path)
    assert outcome.code == 0
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    tracks = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(tracks.values()) == ["compute", "ready times", "transfers"]
    seen = set()
    for event in events:
        assert event["pid"] in tracks
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] != "M":
            assert event["ts"] >= 0
            seen.add(tracks[event["pid"]])
    assert seen == set(tracks.values())


def test_a_trace_that_cannot_be_written(tmp_path):
    path = tmp_path / "none" / "trace.json"
    outcome = srifty("simulate", write_job(tmp_path), "--config", FOUR, "--trace", path)
    assert outcome.code == 2
    assert outcome.out == ""
    assert f"{path}: cannot be written" in outcome.err


def test_baselines_forecast_without_spread_and_show_no_trace(tmp_path):
    path = write_job(tmp_path)
    config = ("--config", "2g4dn.xlarge@32")
    ours, apm = (
        json.loads(srifty("simulate", path, *config, "--predictor", name, "--json").out)
        for name in ("srifty", "apm")
    )
    assert apm["time_s"]["std"] == 0 < ours["time_s"]["std"]
    assert any("one line" in sentence for sentence in apm["assumptions"])
    trace = tmp_path / "trace.json"
    outcome = srifty("simulate", path, *config, "--predictor", "apm", "--trace", trace)
    assert outcome.code == 2
    assert "--trace" in outcome.err
    assert not trace.exists()
