"""Element-wise operators, reductions and moves of elements under TVM's signatures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.cases import agree, compiled, floats, ints
from tilewright import te, tir, topi
from tilewright.base.errors import TilewrightError

X, Y = floats(3, 4, 5), floats(4, 5)
I, J = ints(3, 4), ints(4, low=1, high=5)
CONDITION = np.array([[1, 0, 2], [0, 3, 0], [4, 5, 0]], "int32")
NEAR = np.array([[0, 1], [2, 3]], "int32")

CASES: dict[str, tuple[Any, list[Any], Any]] = {
    "sign": (topi.sign, [np.array([-2.5, 0, 3], "float32")], [-1, 0, 1]),
    "sign of integers": (topi.sign, [np.array([-2, 0, 3], "int32")], [-1, 0, 1]),
    "fast_exp": (topi.fast_exp, [X], np.exp(X)),
    "fast_tanh": (topi.fast_tanh, [X * 5], np.tanh(X * 5)),
    "fast_erf": (topi.fast_erf, [X], np.vectorize(math.erf)(X)),
    "mod": (topi.mod, [I, J], np.fmod(I, J)),
    "mod of floats": (topi.mod, [X, np.abs(Y) + 1], np.fmod(X, np.abs(Y) + 1)),
    "floor_mod": (topi.floor_mod, [I, J], np.mod(I, J)),
    "log_add_exp": (topi.log_add_exp, [X, Y], np.logaddexp(X, Y)),
    "trunc_divide": (topi.trunc_divide, [I, J], np.trunc(I / J)),
    "left_shift": (topi.left_shift, [I, J], I << J),
    "right_shift": (topi.right_shift, [I, J], I >> J),
    "bitwise_xor": (topi.bitwise_xor, [I, J], I ^ J),
    "bitwise_not": (topi.bitwise_not, [I], ~I),
    "logical_and": (topi.logical_and, [I > 0, I > 2], (I > 0) & (I > 2)),
    "logical_or": (topi.logical_or, [I > 0, I > 2], (I > 0) | (I > 2)),
    "logical_xor": (topi.logical_xor, [I > 0, I > 2], (I > 0) ^ (I > 2)),
    "logical_not": (topi.logical_not, [I > 0], ~(I > 0)),
    "where of numbers": (topi.where, [I, I, -I], np.where(I, I, -I)),
    "ceil_log2": (topi.ceil_log2, [np.array([1, 2, 3, 9], "int32")], [0, 1, 2, 4]),
    "fixed_point_multiply": (
        lambda t: topi.fixed_point_multiply(t, 1395864371, 1),
        [np.array([5, -5, 100], "int32")],
        np.floor(np.array([5, -5, 100]) * 1395864371 / 2**30 + 0.5),
    ),
    "clip": (lambda t: topi.clip(t, -1, tir.const(1, "float32")), [X], np.clip(X, -1, 1)),
    "all": (lambda t: topi.all(t, 1), [I > -5], (I > -5).all(1)),
    "any": (lambda t: topi.any(t, (0, 1), True), [I > 5], (I > 5).any(keepdims=True)),
    "argmax of all": (lambda t: topi.argmax(t), [X], X.argmax()),
    "sum of all": (lambda t: topi.sum(t, axis=None, keepdims=False), [X], X.sum()),
    "collapse_sum": (lambda t: topi.collapse_sum(t, (4, 1)), [X], X.sum((0, 2))[:, None]),
    "comm_reduce": (lambda t: topi.comm_reduce(t, 1, func=te.max), [X], X.max(1)),
    "strided_slice": (
        lambda t: topi.strided_slice(t, [0, -1, 1], [3, -5, 5], [2, -1, 2]),
        [X],
        X[0:3:2, -1:-5:-1, 1:5:2],
    ),
    "strided_slice by sizes": (
        lambda t: topi.strided_slice(t, [1, 0], [1, -1], slice_mode="size"), [X], X[1:2],
    ),
    "strided_slice of axes": (
        lambda t: topi.strided_slice(t, [1], [3], axes=[2]), [X], X[:, :, 1:3],
    ),
    "strided_slice by tensors": (
        lambda t, b, e, s: topi.dynamic_strided_slice(t, b, e, s, [2, 2, 2]),
        [X, *(np.array(v, "int64") for v in ([1, 0, 4], [3, 4, 0], [1, 2, -2]))],
        X[1:3, 0:4:2, 4:0:-2],
    ),
    "sliding_window": (
        lambda t: topi.sliding_window(t, 1, [2, 3], [1, 2]),
        [X],
        np.lib.stride_tricks.sliding_window_view(X, (2, 3), (1, 2))[:, :, ::2],
    ),
    "stack": (lambda a, b: topi.stack([a, b], -1), [X, -X], np.stack([X, -X], -1)),
    "flip": (lambda t: topi.flip(t, -1), [X], X[..., ::-1]),
    "repeat": (lambda t: topi.repeat(t, 3, 1), [X], np.repeat(X, 3, 1)),
    "tile, fewer": (lambda t: topi.tile(t, (2,)), [X], np.tile(X, 2)),
    "tile, more": (lambda t: topi.tile(t, (2, 1, 1, 3)), [X], np.tile(X, (2, 1, 1, 3))),
    "shape": (topi.shape, [X], [3, 4, 5]),
    "ndarray_size": (topi.ndarray_size, [X], 60),
    "one_hot": (lambda t: topi.one_hot(t, 1, 0, 6, -1, "float32"), [J], np.eye(6)[J]),
    "unravel_index": (
        topi.unravel_index,
        [np.array([5, 7, 11], "int32"), np.array([3, 4], "int32")],
        np.unravel_index([5, 7, 11], (3, 4)),
    ),
    "trilu above": (lambda t: topi.trilu(t, 1, True), [X], np.triu(X, 1)),
    "trilu below": (lambda t: topi.trilu(t, -1, False), [X], np.tril(X, -1)),
    "eye": (lambda: topi.eye(4, k=1), [], np.eye(4, k=1)),
    "expand_like": (
        lambda a, b: topi.expand_like(a, b, [1]), [Y[:3], floats(3, 2, 5)],
        np.repeat(Y[:3, None], 2, 1),
    ),
    "sparse_to_dense": (
        lambda a, b: topi.sparse_to_dense(a, (3, 4), b, 7),
        [NEAR, np.array([1, 2], "float32")],
        [[7, 1, 7, 7], [7, 7, 7, 7], [7, 7, 7, 2]],
    ),
    "sparse_to_dense of many": (
        lambda a, b: topi.sparse_to_dense(a, (30,), b),
        [np.arange(0, 20, 2).astype("int32"), np.ones(10, "float32")],
        [1, 0] * 10 + [0] * 10,
    ),
    "layout_transform": (
        lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"),
        [floats(1, 8, 2, 3)],
        None,
    ),
    "auto_scheduler_layout_transform": (
        lambda t: topi.auto_scheduler_layout_transform(t, "8o4i", "2o4i4o"),
        [np.arange(32, dtype="float32").reshape(8, 4)],
        np.arange(32).reshape(2, 4, 4).transpose(0, 2, 1),
    ),
    "auto_scheduler_layout_transform of small letters": (
        lambda t: topi.auto_scheduler_layout_transform(t, "8C4W", "2C4W4c"),
        [np.arange(32, dtype="float32").reshape(8, 4)],
        np.arange(32).reshape(2, 4, 4).transpose(0, 2, 1),
    ),
    "argsort of valid": (
        lambda t, c: topi.argsort(t, c, axis=1, is_ascend=0, dtype="int32"),
        [np.array([[3, 1, 2, 9], [1, 5, 2, 7]], "float32"), np.array([3, 2], "int32")],
        [[0, 2, 1, 3], [1, 0, 2, 3]],
    ),
    "argwhere": (topi.argwhere, [np.zeros((5, 2), "int32"), CONDITION], np.argwhere(CONDITION)),
    "searchsorted": (topi.searchsorted, [np.sort(floats(20)), X[0]], None),
    "tensordot": (
        lambda a, b: topi.tensordot(a, b, ((1, 0), (0, 1))),
        [X, floats(4, 3, 2)],
        None,
    ),
    "exp of integers": (topi.exp, [J], np.exp(J)),
    "sqrt of bool": (topi.sqrt, [I > 0], np.sqrt(I > 0)),
    "fast_tanh of integers": (topi.fast_tanh, [I], np.tanh(I)),
    "sum of bool": (lambda t: topi.sum(t, 1), [I > 5], (I > 5).any(1)),
    "clip the other way round": (lambda t: topi.clip(t, 1, -1), [X], np.ones_like(X)),
    "ceil_log2 of a number": (lambda: topi.full((2,), "int32", topi.ceil_log2(9)), [], [4, 4]),
    "strided_slice without bounds": (
        lambda t: topi.strided_slice(t, [None, None, 1], [2, None, None], [1, -1, 2]),
        [X],
        X[:2, ::-1, 1::2],
    ),
    "strided_slice by lists": (
        lambda t: topi.dynamic_strided_slice(t, [1, 0], [3, 4], [1, 2], [2, 2, 5]),
        [X],
        X[1:3, ::2],
    ),
    "reverse_sequence of long ones": (
        topi.reverse_sequence,
        [X[0], np.array([9, 2, 0, -1], "int32")],
        [X[0, 0, ::-1], X[0, 1, [1, 0, 2, 3, 4]], X[0, 2], X[0, 3]],
    ),
    "gather_nd of floats": (
        topi.gather_nd, [Y, np.array([[1.8, 3.0], [0.2, 4.9]], "float32")], Y[[1, 3], [0, 4]],
    ),
    "scatter_elements, mean": (
        lambda t, i, u: topi.scatter_elements(t, i, u, 0, "mean"),
        [np.array([4, 8], "float32"), np.array([1, 1], "int32"), np.array([2, 1], "float32")],
        [4, 3],
    ),
    "dft of halves": (
        lambda a: topi.dft(a, topi.full_like(a, 0), False)[0],
        [np.full(1000, 0.5, "float16")],
        np.fft.fft(np.full(1000, 0.5)).real.round(3),
    ),
    "dft": (lambda a: topi.dft(a, topi.full_like(a, 0), False)[0], [Y], np.fft.fft(Y).real),
}  # fmt: skip


def wanted(name: str, arrays: list[Any]) -> Any:
    if name == "layout_transform":
        return arrays[0].reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)
    if name == "searchsorted":
        return np.searchsorted(arrays[0], arrays[1])
    return np.tensordot(arrays[0], arrays[1], ((1, 0), (0, 1)))


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name: str) -> None:
    function, arrays, expected = CASES[name]
    agree(function, arrays, wanted(name, arrays) if expected is None else expected)


def test_adv_index_broadcasts() -> None:
    row, column = np.array([[0], [2]], "int32"), np.array([1, 3, 0], "int32")
    agree(lambda t, a, b: topi.adv_index(t, [a, b]), [X, row, column], X[row, column])


@pytest.mark.parametrize("args", [(1, 20, 2), (1, 20, 1.5), (20, 1, -1.5), (7,)])
def test_arange(args: Any) -> None:
    agree(lambda: topi.arange(*args), [], np.arange(*args))


@pytest.mark.parametrize(
    "begin, end, strides", [([1, 0, 4], [3, 4, 0], [1, 2, -2]), ([1, 1], [4, 4, 3], None)]
)
def test_strided_set(begin: Any, end: Any, strides: Any) -> None:
    places = [slice(b, e, s) for b, e, s in zip([*begin, None], end, strides or [1] * 3)]
    v = floats(*X[tuple(places)].shape)
    expected = X.copy()
    expected[tuple(places)] = v
    bounds = [np.array(x, "int32") for x in (begin, end, strides) if x is not None]
    agree(topi.strided_set, [X, v, *bounds], expected)


def test_split_and_meshgrid_give_lists() -> None:
    agree(lambda t: topi.split(t, [1, 3], 1), [X], *np.split(X, [1, 3], 1))
    agree(lambda t: topi.split(t, 2, 1), [X], *np.split(X, 2, 1))
    a, b = floats(3), floats(4)
    agree(lambda p, q: topi.meshgrid([p, q], "xy"), [a, b], *np.meshgrid(a, b))


@pytest.mark.parametrize(
    "k, align", [(0, "RIGHT_LEFT"), ((-1, 1), "RIGHT_LEFT"), ((0, 2), "LEFT_LEFT")]
)
def test_matrix_set_diag(k: Any, align: str) -> None:
    several = not isinstance(k, int)
    diagonal = floats(3, k[1] - k[0] + 1, 4) if several else floats(3, 4)
    expected = topi.testing.matrix_set_diag(X, diagonal, k, align)
    agree(lambda a, b: topi.matrix_set_diag(a, b, k, align), [X, diagonal], expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_sequence_mask(axis: int) -> None:
    data, lengths = floats(4, 3, 2), np.array([1, 3, 2, 3][: 3 if axis == 0 else 4], "int32")
    expected = topi.testing.sequence_mask(data, lengths, -1, axis)
    agree(lambda a, b: topi.sequence_mask(a, b, -1, axis), [data, lengths], expected)


@pytest.mark.parametrize("in_order", [True, False])
def test_unique(in_order: bool) -> None:
    x = np.array([5, 3, 5, 1, 3, 3, 9], "int32")
    values, first, inverse, total, counts = compiled(lambda t: topi.unique(t, in_order, True), [x])
    n = int(total[0])
    want, where, back, many = np.unique(x, True, True, True)
    order = np.arange(4) if in_order else np.argsort(where)
    assert n == 4
    np.testing.assert_array_equal(values[:n], want[order])
    np.testing.assert_array_equal(first[:n], where[order])
    np.testing.assert_array_equal(counts[:n], many[order])
    np.testing.assert_array_equal(values[inverse], x)
    assert back.shape == inverse.shape


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,ij", [(3, 4), (3, 4)]), ("ijk->kji", [(3, 4, 5)]),
        ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]), ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
        ("ii", [(3, 3)]),
    ],
)  # fmt: skip
def test_einsum(subscripts: str, shapes: Any) -> None:
    arrays = [floats(*s) for s in shapes]
    agree(lambda *t: topi.einsum(subscripts, *t), arrays, np.einsum(subscripts, *arrays))


@pytest.mark.parametrize("extent", [1, 4])
def test_einsum_repeats_what_turns_out_to_be_one(extent: int) -> None:
    k, m = te.var("k"), te.var("m")
    a, b = te.placeholder((3, k), name="a"), te.placeholder((m, 5), name="b")
    out = topi.einsum("ij,jk->ik", a, b)
    built = tw.build(te.create_schedule(out.op), [a, b, out], "llvm")
    x, y, found = floats(3, 4), floats(extent, 5), np.zeros((3, 5), "float32")
    built(x, y, found)
    # sums may cancel: each of two orders is wrong by a part of the products' sizes
    most = 2 * 4 * np.finfo("float32").eps * np.einsum("ij,jk->ik", abs(x), abs(y))
    assert np.all(np.abs(found - np.einsum("ij,jk->ik", x, y)) <= most)


def test_lines_of_lengths_that_calls_give() -> None:
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    sequence = te.placeholder((m,), name="sequence")
    outs = [topi.sort(x, 0), topi.argsort(x, axis=1, dtype="int32"), topi.searchsorted(sequence, x)]
    built = tw.build(te.create_schedule([t.op for t in outs]), [x, sequence, *outs], "llvm")
    data, line = floats(5, 37), np.sort(floats(37))
    found = [np.zeros((5, 37), t.dtype) for t in outs]
    built(data, line, *found)
    wanted = [np.sort(data, 0), np.argsort(data, 1), np.searchsorted(line, data)]
    for got, want in zip(found, wanted):
        np.testing.assert_array_equal(got, want)


def test_scanop() -> None:
    least = tir.min_value("float32")
    agree(lambda t: topi.scanop(t, te.max, least, "cummax", 1), [X], np.maximum.accumulate(X, 1))


def test_operators_of_expressions_give_expressions() -> None:
    n = te.var("n")
    for made in (topi.add(n, 1), topi.cast(n, "int64"), topi.bitwise_not(n)):
        assert isinstance(made, tir.PrimExpr)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: topi.strided_slice(t, [0], [1], slice_mode="all"), "slice_mode is 'end' or"),
        (lambda t: topi.sum(t, axis=3), "axis 3 is out of range for a tensor of 3 dimensions"),
        (lambda t: topi.split(t, 2, 2), "does not divide by 2"),
        (lambda t: topi.einsum("ij,jk->ik", t), "is of 2 tensors, got 1"),
        (lambda t: topi.layout_transform(t, "NCW", "NCHW"), "has not what NCHW has"),
        (lambda t: topi.collapse_sum(t, (7,)), "was not broadcast from shape"),
        (lambda t: topi.meshgrid([t], "yx"), "indexing is 'ij' or 'xy'"),
        (
            lambda t: topi.reverse_sequence(t, te.placeholder((2,), "int32"), 0, 1),
            "dimension of batch_axis = 4, and seq_length size = 2",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        call(te.placeholder((3, 4, 5), "float32", "t"))


def test_slices_with_fewer_strides_than_dimensions() -> None:
    x = floats(3, 4, 5)
    for strides, expected in (([1, 2], x[1:4, 1:9:2]), ([2], x[1:4:2, 1:9:2]), (None, x[1:, 1:])):
        got = topi.testing.strided_slice_python(x, [1, 1], [4, 9], strides)
        assert (got == expected).all() and got.shape == expected.shape


def test_tags_of_reductions_to_places():
    data = te.placeholder((2, 3), name="data")
    for places in (topi.argmax(data, 1), topi.argmin(data, (0, 1), keepdims=True)):
        (pair,) = places.op.input_tensors
        assert places.op.tag == pair.op.tag == topi.tag.COMM_REDUCE_IDX
    assert topi.sum(data, 1).op.tag == topi.tag.COMM_REDUCE
