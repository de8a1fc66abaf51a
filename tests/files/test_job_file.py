import math
from datetime import UTC, datetime

import pytest

from srifty.catalog import resolve
from srifty.core import BatchRule, Market, Objective, SyncMode
from srifty.core.supply import OwnedEntry, PoolEntry, PriceEntry, QuotaEntry, ReservedEntry
from srifty.errors import InputError
from srifty.files import read_job
from srifty.units import MIB
from tests.command import JOB, job_text, profile_document, srifty, write_job

from .malformed import JOBS

# Found by what stands behind the reader, which the command runs too.
LATER = {
    "unknown type",
    "quota in another market only",
    "price of an unknown type",
    "no price",
    "another cloud's",
    "no profile for the GPU",
    "zones of another region",
    "vCPUs without a pool",
    "reservation of an unknown type",
    "owned name",
    "owned of an unknown GPU",
}


@pytest.mark.parametrize("name", JOBS)
def test_a_malformed_job_is_named_with_file_path_and_remedy(tmp_path, name):
    text, *words = JOBS[name]
    path = write_job(tmp_path, text)
    outcome = srifty("plan", path)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "AssertionError" not in outcome.err
    lines = outcome.err.splitlines()
    assert all(line.startswith(f"error: {path}: ") for line in lines)
    assert all(len(line) < 600 + len(str(path)) for line in lines)
    for word in words:
        assert word in outcome.err


@pytest.mark.parametrize("name", sorted(JOBS.keys() - LATER))
def test_a_malformed_job_is_an_input_error(tmp_path, name):
    path = write_job(tmp_path, JOBS[name][0])
    with pytest.raises(InputError) as caught:
        read_job(path)
    assert caught.value.source == str(path)


def test_several_errors_are_reported_together(tmp_path):
    text = job_text(
        ("global_batch: 64", "global_batch: 0"), extra="deadline: 500\nbudget_usd: -1\ntypo: 1"
    )
    with pytest.raises(InputError) as caught:
        read_job(write_job(tmp_path, text))
    where = {problem.where for problem in caught.value.problems}
    assert where == {"global_batch", "deadline", "budget_usd", "typo"}


def test_errors_of_the_job_and_of_its_profiles_are_reported_together(tmp_path):
    text = job_text(
        ("toy.json", "[none.json, builtin:nothing]"),
        ("iterations: 100", "epochs: 3"),
        extra="allreduce: none.csv",
    )
    with pytest.raises(InputError) as caught:
        read_job(write_job(tmp_path, text))
    where = [problem.where for problem in caught.value.problems]
    assert where == ["workload", "workload", "iterations", "allreduce"]


@pytest.mark.parametrize(
    ("target", "words"), [("none.yaml", "there is no such file"), ("", "cannot be read: Is a dir")]
)
def test_no_file(tmp_path, target, words):
    outcome = srifty("plan", tmp_path / target)
    assert outcome.code == 2
    assert outcome.out == ""
    assert f"{tmp_path / target}: {words}" in outcome.err


def test_what_a_job_file_says(tmp_path):
    text = job_text(
        ("{launch: 0s}", "{launch: 2m, evaluation: {every: 10, takes: 3s}, checkpoint: "
                         "{every: auto, takes: 4s}}"),
        ("{g4dn.xlarge: 4}", "{g4dn.xlarge: {spot: 4}, p3.8xlarge: 2}\n"
                             "  prices: {p3.8xlarge: {spot: 3}}"),
        extra="minimize: time\nbatches: any\ndeadline: 1h30m\nbudget_usd: 3\nconfidence: 0.5\n"
              "extra_usd_per_hour: 1\n"
              "gradient_sync: {mode: per-layer, bucket_mib: 0.5, slots: unlimited, "
              "find_unused_parameters: true}",
    )  # fmt: skip
    file = read_job(write_job(tmp_path, text))
    job = file.job
    assert (job.name, job.global_batch, job.iterations) == ("toy", 64, 100)
    assert (job.objective, job.batch_rule) == (Objective.TIME, BatchRule.ANY)
    assert (job.limits.deadline_s, job.limits.budget_usd) == (5400, 3)
    assert job.limits.confidence == 0.5
    assert job.extra_usd_per_hour == 1
    assert (job.overheads.launch_s, job.overheads.evaluation_every) == (120, 10)
    assert (job.overheads.evaluation_s, job.overheads.checkpoint_every) == (3, None)
    assert (job.sync.mode, job.sync.slots) == (SyncMode.PER_LAYER, None)
    assert job.sync.bucket_bytes == MIB // 2
    assert job.sync.find_unused_parameters is True
    assert file.supply.markets == (Market.ON_DEMAND, Market.SPOT)
    assert file.supply.quota == (
        QuotaEntry("g4dn.xlarge", Market.SPOT, 4),
        QuotaEntry("p3.8xlarge", None, 2),
    )
    assert file.supply.prices == (PriceEntry("p3.8xlarge", Market.SPOT, 3.0),)
    assert file.allreduce_samples is None


@pytest.mark.parametrize(("word", "value"), [("auto", None), ("false", False), ("true", True)])
def test_find_unused_parameters(tmp_path, word, value):
    text = job_text(extra=f"gradient_sync: {{find_unused_parameters: {word}}}")
    assert read_job(write_job(tmp_path, text)).job.sync.find_unused_parameters is value


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ("64", 64),
        ("1000000000", 10**9),
        ("{sequences: 256, seq_len: 2048}", 256),
        ("{tokens: 524288, seq_len: 2048}", 256),
        ("{seq_len: 3, tokens: 3}", 1),
    ],
)
def test_global_batch_in_samples_sequences_or_tokens(tmp_path, batch, samples):
    text = job_text(("global_batch: 64", f"global_batch: {batch}"))
    assert read_job(write_job(tmp_path, text)).job.global_batch == samples


def test_epochs_round_up_to_whole_iterations(tmp_path):
    text = job_text(("iterations: 100", "epochs: 3\ndataset_size: 1281167"))
    job = read_job(write_job(tmp_path, text)).job
    assert job.iterations == math.ceil(3 * 1281167 / 64)


def test_sequences_of_another_length_than_measured(tmp_path):
    profile = profile_document(item={"unit": "sequence", "seq_len": 512})
    text = job_text(("global_batch: 64", "global_batch: {sequences: 64, seq_len: 128}"))
    with pytest.raises(InputError, match=r"global_batch\.seq_len: is 128, but toy on T4 was meas"):
        read_job(write_job(tmp_path, text, profile))


@pytest.mark.parametrize(
    ("change", "get", "value"),
    [
        ("deadline=6h", lambda f: f.job.limits.deadline_s, 21600),
        ("overheads.launch=10s", lambda f: f.job.overheads.launch_s, 10),
        ("global_batch={tokens: 600, seq_len: 6}", lambda f: f.job.global_batch, 100),
        (
            "offers.quota.p3.8xlarge=4",
            lambda f: f.supply.quota,
            (QuotaEntry("g4dn.xlarge", None, 4), QuotaEntry("p3.8xlarge", None, 4)),
        ),
        (
            "offers.interruptions.g4dn.xlarge=0.5/h",
            lambda f: f.supply.interruptions[0].instance_type,
            "g4dn.xlarge",
        ),
        ("offers.quota.g4dn.xlarge=9", lambda f: f.supply.quota[0].vms, 9),
        (
            "offers.quota.p3.8xlarge.spot=4",
            lambda f: f.supply.quota[1],
            QuotaEntry("p3.8xlarge", Market.SPOT, 4),
        ),
        (
            # A bare number held for each market; the other market keeps it.
            "offers.quota.g4dn.xlarge.spot=9",
            lambda f: f.supply.quota,
            (
                QuotaEntry("g4dn.xlarge", Market.ON_DEMAND, 4),
                QuotaEntry("g4dn.xlarge", Market.SPOT, 9),
            ),
        ),
        (
            "offers.prices.p3.8xlarge.spot=3.67",
            lambda f: f.supply.prices,
            (PriceEntry("p3.8xlarge", Market.SPOT, 3.67),),
        ),
        (
            "offers.prices.p3.8xlarge.on-demand=12",
            lambda f: f.supply.prices,
            (PriceEntry("p3.8xlarge", Market.ON_DEMAND, 12.0),),
        ),
        ("offers.markets=[spot]", lambda f: f.supply.markets, (Market.SPOT,)),
    ],
)
def test_set(tmp_path, change, get, value):
    assert get(read_job(write_job(tmp_path), [change])) == value


def test_the_last_set_wins(tmp_path):
    file = read_job(write_job(tmp_path), ["deadline=6h", "deadline=7h"])
    assert file.job.limits.deadline_s == 7 * 3600


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("deadline", "--set takes key=value, such as deadline=6h, not 'deadline'"),
        ("=3", "--set takes key=value"),
        ("", "--set takes key=value"),
        ("deadline=[", "--set deadline: line 1:"),
        ("deadline=500", "deadline: must be a duration"),
        ("deadlin=6h", "deadlin: unknown key"),
        ("offers=5", "offers: must be a mapping"),
        ("name.x.y=1", "name: must be a valid string"),
        ("offers.quota.p3.8xlarge.spott=4", "offers.quota"),
        ("offers.quota.nonsense=4", "offers.quota.nonsense: unknown instance type"),
        ("name=*a", "undefined alias"),
        ("..=1", "unknown key"),
    ],
)
def test_set_with_nonsense(tmp_path, change, words):
    outcome = srifty("plan", write_job(tmp_path), "--set", change)
    assert outcome.code == 2
    assert outcome.out == ""
    assert words in outcome.err


def test_a_byte_order_mark_and_carriage_returns_are_fine(tmp_path):
    text = b"\xef\xbb\xbf" + JOB.replace("\n", "\r\n").encode()
    assert read_job(write_job(tmp_path, text)).job.name == "toy"


def test_the_offers_are_what_the_job_asks_for(tmp_path):
    file = read_job(write_job(tmp_path))
    labels = dict.fromkeys(offer.label for offer in resolve(file.supply).offers)
    assert list(labels) == ["g4dn.xlarge", "g4dn.xlarge (spot)"]


NOW = datetime(2026, 7, 20, 12, tzinfo=UTC)
ENDING = "2026-07-20T13:00Z"


def of_supply(name):
    return lambda file: getattr(file.supply, name)


@pytest.mark.parametrize(
    ("change", "get", "value"),
    [
        ("offers.zones=any", of_supply("zones"), ()),
        ("offers.zones=use1-az1", of_supply("zones"), ("use1-az1",)),
        ("offers.zones=[use1-az1, use1-az2]", of_supply("zones"), ("use1-az1", "use1-az2")),
        ("offers.allow_cross_zone=true", lambda f: f.allow_cross_zone, True),
        ("offers.markets=[spot, reserved, owned]", of_supply("markets"), (Market.SPOT,)),
        ("offers.prefer=[g4dn.xlarge]", lambda f: f.prefer, ("g4dn.xlarge",)),
        ("offers.quota.g4dn.xlarge=vcpus", lambda f: f.supply.quota[0].vms, None),
        (
            "offers.quota.g4dn.xlarge={spot: vcpus, on-demand: 2}",
            of_supply("quota"),
            (
                QuotaEntry("g4dn.xlarge", Market.SPOT, None),
                QuotaEntry("g4dn.xlarge", Market.ON_DEMAND, 2),
            ),
        ),
        (
            "offers.vcpu_quota={spot G: 120, on-demand P: 0}",
            of_supply("vcpu_quota"),
            (PoolEntry(Market.SPOT, "G", 120), PoolEntry(Market.ON_DEMAND, "P", 0)),
        ),
        (
            f"offers.reserved=[{{type: g4dn.xlarge, count: 2, end: {ENDING}, zone: use1-az1}}]",
            of_supply("reserved"),
            (ReservedEntry("g4dn.xlarge", 2, 0.0, 3600.0, 0.0, "use1-az1"),),
        ),
        (
            f"offers.reserved=[{{type: g4dn.xlarge, count: 2, start: {ENDING}, usd_per_hour: 3}}]",
            of_supply("reserved"),
            (ReservedEntry("g4dn.xlarge", 2, 3600.0, None, 3.0),),
        ),
        (
            "offers.owned=[{name: lab, gpu: T4, gpus: 8, vcpus: 96, count: 2}]",
            of_supply("owned"),
            (OwnedEntry("lab", "T4", 8, 96, 2),),
        ),
        ("network={efa: on}", lambda f: (f.network.efa, f.network.placement_group), ("on", "auto")),
        ("network={efa: 'off'}", lambda f: f.network.efa, "off"),
    ],
)
def test_what_may_be_rented(tmp_path, change, get, value):
    assert get(read_job(write_job(tmp_path), [change], now=NOW)) == value


def test_a_declared_type_may_burst_and_count_in_a_pool(tmp_path):
    lab = "{name: lab, gpu: T4, gpus: 1, gpu_memory_gib: 16, vcpus: 4, rated_gbit_per_s: 5"
    change = f"offers.types=[{lab}, burst_gbit_per_s: 25, quota_pool: G}}]"
    (kind,) = read_job(write_job(tmp_path), [change]).supply.declared
    assert (kind.rated_gbit_per_s, kind.burst_gbit_per_s, kind.quota_pool) == (5, 25, "G")


def test_owned_machines_alone_are_enough(tmp_path):
    text = job_text(("  quota: {g4dn.xlarge: 4}\n", ""))
    owned = "offers.owned=[{name: lab, gpu: T4, gpus: 8, vcpus: 96, count: 2}]"
    assert read_job(write_job(tmp_path, text), [owned]).supply.quota == ()
    with pytest.raises(InputError, match="offers need a quota"):
        read_job(write_job(tmp_path, text))
