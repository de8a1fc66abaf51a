from srifty.allreduce.logs.numbering import Numbering
from srifty.core.allreduce import Collective


def test_a_key_that_comes_again_begins_a_table():
    numbering = Numbering()
    numbering.begin()
    assert [
        numbering.table(key, figures) for key, figures in ((8, 1), (16, 2), (8, 3), (16, 4))
    ] == [
        0,
        0,
        1,
        1,
    ]
    assert numbering.table(16, 4) is None
    numbering.begin()
    assert numbering.table(16, 4) == 2


def test_runs_count_per_collective_and_world():
    numbering = Numbering()
    reduce, gather = Collective.ALL_REDUCE, Collective.ALL_GATHER
    assert [
        numbering.run(collective, n, table)
        for collective, n, table in (
            (reduce, 8, 0),
            (reduce, 8, 0),
            (gather, 8, 1),
            (reduce, 16, 2),
            (reduce, 8, 3),
        )
    ] == ["0", "0", "0", "0", "1"]
