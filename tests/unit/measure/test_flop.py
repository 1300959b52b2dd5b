"""Operations are counted as one would by hand."""

import pytest

from tilewright import te, tir
from tilewright.base.errors import TilewrightError
from tilewright.measure.flop import count_flop


def test_a_matrix_product_takes_two_per_step() -> None:
    A = te.placeholder((4, 5), name="A")
    B = te.placeholder((5, 6), name="B")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((4, 6), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))
    assert count_flop([C.op]) == 2 * 4 * 5 * 6


def test_stages_add_up_and_indices_cost_nothing() -> None:
    A = te.placeholder((8,), name="A")
    pad = te.compute(
        (10,), lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), A[i - 1], tir.const(0, "float32"))
    )
    out = te.compute((10,), lambda i: te.exp(pad[i // 2 + 1]) + pad[i] * 2.0)
    assert count_flop([pad.op]) == 0
    assert count_flop([out.op]) == 3 * 10


def test_integers_count_where_they_are_the_result() -> None:
    A = te.placeholder((8,), "int32", name="A")
    B = te.compute((8,), lambda i: A[i] + 1)
    assert count_flop([B.op]) == 8


def test_what_cannot_be_counted_is_said() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    with pytest.raises(TilewrightError, match="extent n"):
        count_flop([B.op])
    E = te.extern((8,), [te.placeholder((8,))], lambda i, o: tir.call_packed("f", i[0], o[0]))
    with pytest.raises(TilewrightError, match="add_flop"):
        count_flop([E.op])


def test_an_attribute_says_how_many() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B", attrs={"FLOP": 1000})
    C = te.extern(
        (8,), [B], lambda i, o: tir.call_packed("f", i[0], o[0]), name="C", attrs={"FLOP": 2e3}
    )
    D = te.compute((8,), lambda i: C[i] * 2.0, name="D")
    assert count_flop([D.op]) == 1000 + 2000 + 8
    for wrong in (-1, "many", float("nan")):
        E = te.compute((8,), lambda i: A[i], name="E", attrs={"FLOP": wrong})
        with pytest.raises(TilewrightError, match="E: the attribute"):
            count_flop([E.op])


def test_steps_of_a_scan_count_their_stages() -> None:
    x = te.placeholder((10, 8), name="x")
    state = te.placeholder((10, 8), name="s")
    first = te.compute((1, 8), lambda t, i: x[0, i], name="first")
    step = te.compute((10, 8), lambda t, i: state[t - 1, i] * x[t, i] + x[t, i], name="step")
    assert count_flop([te.scan(first, step, state).op]) == 10 * 8 * 2
