"""The cases on the bed: all configurations, each once, and limits as they are meant."""

import pytest
from benchmarks.paper.bed_jobs import (
    CASES,
    G3,
    G4DN,
    STUDY,
    Config,
    configs_of,
    equal_split,
    iterations_of,
    nominal_s,
    power_of_two,
)

BY_NUMBER = {case.number: case for case in CASES}
IDS = [f"case {case.number}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_configurations_are_many_distinct_and_allowed(case):
    configs = configs_of(case)
    assert len(configs) >= 12
    assert len(set(configs)) == len(configs)
    quota = dict(case.quota)
    for config in configs:
        assert config.samples == case.global_batch
        assert config.world_size <= 16
        for kind, _, batch in config.groups:
            assert 1 <= batch <= case.most(kind)
        for kind, most in quota.items():
            assert sum(count for name, count, _ in config.groups if name == kind) <= most
        assert case.any_batch or power_of_two(config)


def brute_force(case):
    """Every dealing of powers of two to each single VM, equal within a type; no cleverness."""
    (first, most_first), (second, most_second) = case.quota
    powers = [1 << p for p in range(13)]
    for a in range(most_first + 1):
        for b in range(most_second + 1):
            for x in powers if a else [0]:
                for y in powers if b else [0]:
                    fits = x <= case.most(first) and y <= case.most(second)
                    if fits and a * x + b * y == case.global_batch:
                        yield Config.of(
                            (k, n, s) for k, n, s in ((first, a, x), (second, b, y)) if n
                        )


def test_two_types_by_brute_force():
    for number in (4, 5):
        assert set(configs_of(BY_NUMBER[number])) == set(brute_force(BY_NUMBER[number]))


def test_each_number_of_vms_of_a_homogeneous_case_is_there():
    sizes = [config.world_size for config in configs_of(BY_NUMBER[1])]
    assert sizes == list(range(1, 17))
    # 32 samples are the most that a g3 holds of VGG-16.
    assert [config.world_size for config in configs_of(BY_NUMBER[2])] == list(range(4, 17))
    assert sum(map(power_of_two, configs_of(BY_NUMBER[1]))) == 5


def test_the_seven_cases_are_there_and_4_to_7_have_several_types():
    assert sorted(BY_NUMBER) == list(range(1, 8))
    assert all(len(BY_NUMBER[number].quota) >= 2 for number in (4, 5, 6, 7))


def test_case_6_can_be_kept_and_case_7_cannot():
    def kept(case):
        return [
            config
            for config in configs_of(case)
            if case.meets_limits(nominal_s(case.model, config), config.usd_per_hour)
        ]

    assert kept(BY_NUMBER[6])
    assert not kept(BY_NUMBER[7])
    # Nothing of one type holds case 6's batch, as in the paper.
    assert all(len({kind for kind, _, _ in c.groups}) > 1 for c in configs_of(BY_NUMBER[6]))


def test_limits_and_bill_by_hand():
    case = BY_NUMBER[6]  # 500 iterations, 300 s, $0.54
    assert case.meets_limits(0.5, 7.0)  # 250 s, $0.486
    assert not case.meets_limits(0.61, 1.0)
    assert not case.meets_limits(0.5, 8.0)  # $0.556
    assert BY_NUMBER[4].cost_usd(0.02, 3.6) == pytest.approx(0.06)  # a minute at least
    assert BY_NUMBER[4].value(0.1, 3.6) == pytest.approx(0.1)
    assert case.value(0.5, 7.0) == pytest.approx(250)


def test_equal_groups_are_one_configuration():
    one = Config.of([(G3.name, 1, 4), (G4DN.name, 2, 8), (G3.name, 1, 4)])
    assert one == Config.of([(G4DN.name, 2, 8), (G3.name, 2, 4)])
    assert one.notation == "2g4dn@8 + 2g3@4"
    assert equal_split("g3", 5, 32).groups == (("g3", 2, 7), ("g3", 3, 6))


def test_long_iterations_are_timed_less_often():
    case = BY_NUMBER[5]
    slow = Config.of([("g4dn", 1, 64)])
    assert iterations_of(case.model, slow) == 5
    assert iterations_of("dlrm", Config.of([("g3", 1, 128)])) == 10


def test_the_case_study_has_eighteen_configurations():
    assert len(configs_of(STUDY)) == 18
