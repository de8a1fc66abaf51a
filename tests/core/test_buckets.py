from srifty.core import Gradient
from srifty.core.buckets import buckets_as_ready, buckets_as_registered, ready_in_turn


def gradient(name, size=10, ready=0.0, **about):
    return Gradient(name, size, ready, **about)


def names(buckets):
    return ["".join(member.name for member in bucket) for bucket in buckets]


def test_a_bucket_closes_when_it_reaches_its_cap_and_the_last_cap_holds_on():
    parameters = [gradient(name) for name in "abcdefg"]
    assert names(buckets_as_ready(parameters, (10, 15))) == ["a", "bc", "de", "fg"]
    assert names(buckets_as_ready(parameters, (30,))) == ["abc", "def", "g"]
    assert names(buckets_as_ready([], (30,))) == []


def test_as_registered_the_smaller_first_bucket_leaves_last():
    parameters = [gradient(name) for name in "abcdefg"]
    assert names(buckets_as_registered(parameters, (10, 15))) == ["fg", "de", "bc", "a"]


def test_each_element_type_has_its_own_buckets_and_its_own_first_cap():
    kinds = dict.fromkeys("acfg", "float32") | dict.fromkeys("bde", "float16")
    parameters = [gradient(name, dtype=kinds[name]) for name in "abcdefg"]
    # Those that never reach their cap leave at the end, the newest element type first.
    assert names(buckets_as_ready(parameters, (10, 25))) == ["a", "b", "cfg", "de"]
    assert names(buckets_as_ready(parameters, (50,))) == ["bde", "acfg"]
    # By their first members, in reverse.
    assert names(buckets_as_registered(parameters, (10, 25))) == ["de", "cfg", "b", "a"]


def test_a_sparse_gradient_is_a_bucket_by_itself():
    parameters = [gradient("a"), gradient("b", sparse=True), gradient("c"), gradient("d")]
    assert names(buckets_as_ready(parameters, (20,))) == ["b", "ac", "d"]
    assert names(buckets_as_registered(parameters, (20,))) == ["d", "b", "ac"]


def test_a_bucket_waits_for_its_latest_gradient_and_for_the_buckets_before_it():
    ready = {"a": 0.3, "b": 0.6, "c": 0.2, "d": None, "e": 0.9}
    buckets = [[gradient(name) for name in members] for members in ("d", "ab", "cd", "e")]
    # Zeros delay nothing, but nothing leaves before the first gradient is in.
    assert ready_in_turn(buckets, lambda g: ready[g.name]) == [0.2, 0.6, 0.6, 0.9]
    assert ready_in_turn(buckets, lambda _: None) == [0.0] * 4
