"""P08: BatchNorm cannot train on one sample; neither a local batch nor a remainder may have one."""

import pytest

from .jobs import has, plan, profile, write_case

DATASET = 1201


def job(tmp_path, min_batch=2, global_batch=4, **keys):
    # One T4 to a VM, no exchange: in time, as many VMs as possible are best.
    epochs = {"iterations": None, "epochs": 3, "dataset_size": DATASET}
    return write_case(
        tmp_path,
        {"quota": {"g4dn.xlarge": 4}},
        profile("T4", min_batch=min_batch),
        global_batch=global_batch,
        **({"minimize": "time"} | epochs | keys),
    )


def local_batches(document):
    groups = document["plan"]["groups"]
    return sorted(batch for g in groups for batch in g["local_batch"] * g["count"])


def passes(document):
    groups = document["plan"]["groups"]
    return [batch // g["accumulation"] for g in groups for batch in g["local_batch"]]


def test_a_model_that_can_takes_one_sample_to_each_gpu(tmp_path):
    assert local_batches(plan(job(tmp_path, min_batch=1))) == [1, 1, 1, 1]


def test_a_model_that_needs_two_samples_never_gets_one(tmp_path):
    document = plan(job(tmp_path))
    assert local_batches(document) == [2, 2]
    ranked = [group for entry in document["ranking"] for group in entry["groups"]]
    assert min(batch for group in ranked for batch in group["local_batch"]) == 2


@pytest.mark.parametrize("global_batch", [2, 3, 5, 7, 9])
@pytest.mark.parametrize("accumulate", [False, True])
def test_nor_where_the_global_batch_does_not_divide_evenly(tmp_path, global_batch, accumulate):
    document = plan(job(tmp_path, global_batch=global_batch, batches="any", accumulate=accumulate))
    assert sum(local_batches(document)) == global_batch
    assert min(passes(document)) >= 2


def test_a_global_batch_of_one_cannot_be_trained_and_the_plan_says_why(tmp_path):
    document = plan(job(tmp_path, global_batch=1), code=3)
    assert document["plan"] is None
    assert has([str(reason) for reason in document["reasons"]], "at least 2 samples per pass")


def test_the_samples_that_fill_no_batch_are_spoken_of(tmp_path):
    document = plan(job(tmp_path))
    iterations = -(-3 * DATASET // 4)
    assert has(
        document["assumptions"],
        f"The last of {iterations} iterations has 3 of 4 samples",
        "no smaller local batch",
    )


def test_nothing_is_said_where_no_sample_is_left(tmp_path):
    document = plan(job(tmp_path, dataset_size=1200))
    assert not has(document["assumptions"], "The last of")


def test_a_batch_that_nobody_tried_is_said_to_be_unverified(tmp_path):
    def warned(verified, *words):
        toy = profile("T4", verified_batches=verified)
        path = write_case(
            tmp_path, {"quota": {"g4dn.xlarge": 1}}, toy, global_batch=6, batches="any"
        )
        return has(plan(path)["warnings"], "not verified", *words)

    assert warned([1, 2, 4, 8], "6 samples per pass on T4", "4 and 8")
    assert not warned([1, 2, 4, 6, 8])
    assert not warned([])
