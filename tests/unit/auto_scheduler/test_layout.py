"""The order of an operand in memory: which loops it follows, and when there is none."""

import pytest

from tests.unit.auto_scheduler import computations as C
from tilewright import te
from tilewright.auto_scheduler import ComputeDAG
from tilewright.auto_scheduler.layout import free_layouts, pack_order
from tilewright.auto_scheduler.state import State


def tiled():
    """C = A B with j cut into 8 x 2 x 4 and k into 4 x 8, its loops j k j k i j."""
    dag = ComputeDAG(C.matmul(16, 64, 32))
    rows = [
        ("SP", 2, 1, 64, (2, 4), 1),
        ("SP", 2, 4, 32, (8,), 1),
        ("RE", 2, (1, 4, 2, 5, 0, 3)),
    ]
    return State.from_rows(dag, rows)


def order_of(state, name):
    tensor = next(t for t in state.dag.tensors if t.name == name)
    reader = next(s for s in state.live_stages if tensor in s.op.input_tensors)
    return pack_order(reader, tensor)


def dims(order):
    return [(d.dim, int(d.extent)) for d in order.kept()]


def test_digits_stand_in_the_order_of_the_loops():
    assert dims(order_of(tiled(), "B")) == [(1, 8), (0, 4), (1, 2), (0, 8), (1, 4)]
    assert dims(order_of(tiled(), "A")) == [(1, 4), (1, 8), (0, 16)]


def test_the_map_gives_each_element_its_place():
    mapping = order_of(tiled(), "B").mapping()
    assert mapping(13, 43) == [43 // 8, 13 // 8, 43 // 4 % 2, 13 % 8, 43 % 4]


def test_an_untouched_matrix_stays():
    state = State(ComputeDAG(C.matmul()))
    assert order_of(state, "A").is_identity()  # read i, k
    assert not order_of(state, "B").is_identity()  # read j, k


def test_loops_of_one_iteration_make_no_dimension():
    dag = ComputeDAG(C.matmul())
    state = State.from_rows(dag, [("SP", 2, 1, 16, (1, 16), 1), ("SP", 2, 4, 16, (1,), 1)])
    assert dims(order_of(state, "B")) == [(1, 16), (0, 16)]


def test_digits_within_a_fused_loop_keep_their_order():
    rows = [*tiled().rows[:2], ("RE", 2, (1, 2, 4, 5, 0, 3))]
    apart = State.from_rows(tiled().dag, rows)
    fused = State.from_rows(tiled().dag, [*rows, ("FU", 2, (0, 1)), ("FU", 2, (1, 2))])
    assert dims(order_of(apart, "B")) == [(1, 8), (1, 2), (0, 4), (0, 8), (1, 4)]
    assert dims(order_of(fused, "B")) == dims(order_of(apart, "B"))


def reading(shape, extents, index, reduce=4):
    """A sum over r of x[index(i, j, r)]."""
    x = te.placeholder(shape, name="x")
    r = te.reduce_axis((0, reduce), "r")
    y = te.compute(extents, lambda i, j: te.sum(x[index(i, j, r)], axis=r), name="y")
    return State(ComputeDAG([x, y]))


def test_a_reversed_dimension():
    state = reading((6, 4), (5, 6), lambda i, j, r: (5 - j, r))
    order = order_of(state, "x")
    assert order.signs == [(-1, 5), (1, 0)]
    assert not order.is_identity()
    assert order.mapping()(2, 3) == [3, 3]


REFUSED = {
    "an index of two loops": ((9, 4), (5, 6), lambda i, j, r: (j + r, r)),
    "a loop twice": ((6, 6), (5, 6), lambda i, j, r: (j, j)),
    "a shifted index": ((7, 4), (5, 6), lambda i, j, r: (j + 1, r)),
    "a part of a dimension": ((9, 4), (5, 6), lambda i, j, r: (j, r)),
    "a stride": ((11, 4), (5, 6), lambda i, j, r: (j * 2, r)),
    "one row of many": ((3, 4), (5, 6), lambda i, j, r: (1, r)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_reads_that_are_no_plain_loops_have_no_order(what):
    assert order_of(reading(*REFUSED[what]), "x") is None


def test_two_different_reads_have_no_order():
    assert order_of(State(ComputeDAG(C.gram())), "A") is None


def test_inputs_of_free_layout_and_their_readers():
    dag = ComputeDAG(C.matmul(layout_free_placeholders=["B"]))
    ((stage, reader),) = free_layouts(State(dag))
    assert (stage.name, reader.name) == ("B", "C")
    cached = State.from_rows(dag, [("CHW", 2, "local")])
    ((stage, reader),) = free_layouts(cached)
    assert reader.name == "C.local"


def test_an_input_with_two_readers_keeps_its_layout():
    a, b, c = C.matmul(layout_free_placeholders=["B"])
    d = te.compute((16, 16), lambda i, j: b[i, j] + c[i, j], name="D")
    assert free_layouts(State(ComputeDAG([a, b, d]))) == []
