from srifty.probing.grid import DEFAULT_SIZES, ElementType, Grid, make_cells, parse_sizes
from srifty.probing.nccl_tests import nccl_tests_commands


def commands(sizes, concurrent=(1,), element=ElementType.FLOAT32, **options):
    grid = Grid(make_cells(parse_sizes(sizes), concurrent, element), element, **options)
    lines = nccl_tests_commands(grid)
    return lines, [line for line in lines if "all_reduce_perf" in line]


def test_one_command_for_a_range_on_one_vm_and_on_several():
    lines, (alone, together) = commands(DEFAULT_SIZES, warmup=3, repeats=7)
    for line in (alone, together):
        assert "-b 4 -e 536870912 -f 2 " in line
        assert line.endswith("-n 20 -w 3 -c 1 -d float")
    assert "-g $GPUS" in alone
    assert together.startswith("mpirun -np $((VMS * GPUS))")
    assert "-g 1" in together
    assert any("7 times" in line for line in lines)


def test_sizes_that_form_no_range_get_a_command_each():
    _, found = commands("4KiB,8KiB,1MiB", element=ElementType.FLOAT16)
    assert len(found) == 6
    assert "-b 8192 -e 8192 -f 2 -g $GPUS" in found[1]
    assert found[1].endswith("-d half")


def test_a_range_by_another_factor():
    _, found = commands("1KiB,8KiB,64KiB")
    assert "-b 1024 -e 65536 -f 8 " in found[0]


def test_transfers_at_once_are_said_to_have_no_counterpart():
    lines, found = commands("1KiB", concurrent=(1, 2))
    assert len(found) == 2
    assert "--concurrent" in lines[-1]
    assert "--concurrent" not in commands("1KiB")[0][-1]
