"""Training on unequal workers against one process, in real groups of 2, 3 and 5 workers."""

import pytest

MODULE = "tests.training.equality"
WORLDS = (2, 3, 5)
FEW = {"mean", "items", "accumulated items", "unused", "scaler", "synced"}
ALL = FEW | {
    "sum", "several losses", "none valid", "accumulation", "accumulated sums", "bucket views",
    "clipping", "static graph", "local mean", "synced items",
}  # fmt: skip
SPLITS = {
    2: {"(5, 3)": ALL},
    3: {"(5, 2, 1)": ALL, "(3, 3, 2)": FEW},
    5: {"(4, 1, 2, 2, 1)": FEW},
}
LIMITS = {"float64": 1e-10, "float32": 1e-5}


@pytest.mark.parametrize("world_size", WORLDS)
def test_parameters_and_statistics_are_one_processes(results, world_size):
    found = results(MODULE, world_size)["exact"]
    in_64_bits = {label for label in found if label.endswith("float64")}
    in_32_bits = found.keys() - in_64_bits
    splits = SPLITS[world_size]
    assert in_64_bits == {f"{case} {split} float64" for split in splits for case in splits[split]}
    assert in_32_bits == {
        f"{case} {split} float32" for split in splits for case in ALL if splits[split] == ALL
    }
    for label, case in found.items():
        assert case["apart"] <= LIMITS[label.rpartition(" ")[2]], label


@pytest.mark.parametrize("world_size", WORLDS)
def test_the_mean_of_the_workers_losses_is_the_whole_batchs(results, world_size):
    for label, case in results(MODULE, world_size)["exact"].items():
        if not label.startswith("local mean"):
            assert case["loss apart"] <= LIMITS[label.rpartition(" ")[2]], label


@pytest.mark.parametrize("world_size", WORLDS)
def test_all_workers_see_the_same_norm(results, world_size):
    clipped = {
        label: case
        for label, case in results(MODULE, world_size)["exact"].items()
        if label.startswith(("clipping", "scaler"))
    }
    assert clipped
    for label, case in clipped.items():
        assert case["norm"] > 0.3, label  # else nothing was clipped
        assert case["norms apart"] == 0, label


@pytest.mark.parametrize("world_size", WORLDS)
def test_plain_training_is_far_off(results, world_size):
    found = results(MODULE, world_size)["plain"]
    assert len(found) == 3 * len(SPLITS[world_size])
    for label, apart in found.items():
        assert apart > 1e-3, label


@pytest.mark.parametrize("world_size", WORLDS)
def test_short_numbers_cost_no_more_than_with_an_equal_split(results, world_size):
    found = results(MODULE, world_size)["rough"]
    assert len(found) == 6
    for label, case in found.items():
        assert case["even"] > 0, label
        assert case["ours"] <= 2 * case["even"], label
        assert case["unweighted"] > 10 * case["ours"], label
