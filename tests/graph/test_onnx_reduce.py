"""Reductions, sorting, running sums, sums of products: against NumPy, at shapes and values that
ONNX's own cases do not have."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.graph.single import run_node
from tilewright.base.errors import ImportModelError

RNG = np.random.default_rng(11)
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def kind_of(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    total: Any = np.logaddexp.reduce
    return total(x, axis, keepdims=keepdims)


REDUCTIONS: dict[str, Any] = {
    "ReduceL1": lambda x, **k: np.abs(x).sum(**k),
    "ReduceL2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "ReduceSumSquare": lambda x, **k: (x * x).sum(**k),
    "ReduceLogSum": lambda x, **k: np.log(x.sum(**k)),
    "ReduceProd": lambda x, **k: x.prod(**k),
    "ReduceMax": lambda x, **k: x.max(**k),
    "ReduceMin": lambda x, **k: x.min(**k),
    "ReduceMean": lambda x, **k: x.mean(**k),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind: str, dtype: str) -> None:
    x = RNG.uniform(0.5, 1.5, (3, 5, 7)).astype(kind_of(dtype))
    rtol = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    for axes in ((1,), (-1, 0), (0, 1, 2)):
        wanted = REDUCTIONS[kind](x.astype(np.float64), axis=axes, keepdims=True)
        for how in ({"weights": [np.array(axes)]}, {"opset": 11, "axes": axes}):
            if "opset" not in how or dtype != "bfloat16":
                got = run_node(kind, [x], **how)
                assert got.dtype == x.dtype
                np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", [*REDUCTIONS, "ReduceLogSumExp"])
def test_no_axes_can_mean_none(kind: str) -> None:
    """What is done to each element is still done."""
    x = np.array([[0.5, 2.0], [3.0, 4.0]])
    function = REDUCTIONS.get(kind, lambda v, axis, keepdims: v)
    wanted = function(x, axis=(), keepdims=True)
    np.testing.assert_allclose(run_node(kind, [x], noop_with_empty_axes=1), wanted, rtol=1e-15)
    empty = np.zeros(0, np.int64)
    got = run_node(kind, [x], [empty], noop_with_empty_axes=1)
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    number = run_node(kind, [np.float64(3)])
    one = function(np.full(1, 3.0), axis=(), keepdims=True)
    np.testing.assert_allclose(number, one[0], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_reductions_of_integers(dtype: str) -> None:
    x = np.array([[3, 4, 0], [100000, 7, 2]], dtype)
    for kind, wanted in {
        "ReduceL1": x.sum(1), "ReduceL2": np.sqrt((x.astype(float) ** 2).sum(1)),
        "ReduceProd": x.prod(1), "ReduceLogSum": np.log(x.sum(1)),
        "ReduceLogSumExp": _log_sum_exp(x.astype(float), 1, False),
    }.items():  # fmt: skip
        data = x[:1] if kind == "ReduceL2" and "32" in dtype else x
        got = run_node(kind, [data], keepdims=0, axes=[1], opset=13)
        np.testing.assert_array_equal(got, np.asarray(wanted)[: len(data)].astype(dtype))


def test_empty_sets() -> None:
    x = np.zeros((2, 0, 3), np.float32)
    inf = math.inf
    for kind, value in {
        "ReduceSum": 0, "ReduceProd": 1, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0,
        "ReduceLogSum": -inf, "ReduceLogSumExp": -inf, "ReduceMax": -inf, "ReduceMin": inf,
    }.items():  # fmt: skip
        got = run_node(kind, [x], [np.array([1])], keepdims=0)
        np.testing.assert_array_equal(got, np.full((2, 3), value, np.float32), kind)
    assert run_node("ReduceMax", [x.astype(np.int8)], [np.array([1])]).max() == -128
    np.testing.assert_array_equal(run_node("ReduceMin", [x > 0], [np.array([1])], keepdims=0), True)
    np.testing.assert_array_equal(run_node("ReduceMax", [x > 0], [np.array([1])], keepdims=0), 0)


def test_sums_of_exponentials_do_not_overflow() -> None:
    inf = math.inf
    x = np.array([[1000, 1000], [-1000, -1001], [inf, 0], [-inf, -inf], [inf, -inf], [-inf, 5]])
    wanted = _log_sum_exp(x, 1, True)
    for dtype, rtol in (("float64", 1e-14), ("float32", 1e-6), ("float16", 1e-3)):
        got = run_node("ReduceLogSumExp", [x.astype(dtype)], [np.array([1])])
        np.testing.assert_allclose(got, wanted, rtol=rtol)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_extremes(dtype: str, last: int) -> None:
    """Also where all elements are the least that there is."""
    x = RNG.integers(0, 4, (3, 50, 4)).astype(kind_of(dtype))
    info: Any = ml_dtypes.finfo(x.dtype) if dtype in FLOATS else np.iinfo(dtype)
    least, most = (-math.inf, math.inf) if dtype in FLOATS else (info.min, info.max)
    for data in (x, np.full_like(x, least), np.full_like(x, most)):
        wide = data.astype(np.float64) if dtype in FLOATS else data
        for kind, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            flipped = np.flip(wide, 1) if last else wide
            wanted = function(flipped, 1)
            wanted = 49 - wanted if last else wanted
            got = run_node(kind, [data], axis=-2, keepdims=0, select_last_index=last)
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == np.int64


def test_what_is_no_number_is_extreme() -> None:
    x = np.array([[1, math.nan, 3, math.nan], [5, 4, 3, 2]], np.float32)
    for kind, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        np.testing.assert_array_equal(run_node(kind, [x], axis=1, keepdims=0), function(x, 1))
    with pytest.raises(ImportModelError, match="has no elements"):
        run_node("ArgMax", [x[:0]], axis=0)


def test_hardmax_over_several_dimensions() -> None:
    x = RNG.integers(0, 3, (2, 3, 4)).astype(np.float32)
    for axis in (0, 1, 2, -1):
        first = np.argmax(x, axis)
        wanted = np.moveaxis(np.eye(x.shape[axis])[first], -1, axis)
        np.testing.assert_array_equal(run_node("Hardmax", [x], axis=axis), wanted)
    flat = np.argmax(x.reshape(2, 12), 1)
    wanted = np.eye(12)[flat].reshape(x.shape)
    np.testing.assert_array_equal(run_node("Hardmax", [x], opset=11), wanted)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int) -> None:
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    x[1] = 0
    norm = np.linalg.norm(x.astype(np.float64), p, 1, keepdims=True)
    wanted = np.divide(x, norm, out=np.zeros_like(x, np.float64), where=norm != 0)
    np.testing.assert_allclose(run_node("LpNormalization", [x], p=p, axis=1), wanted, rtol=1e-6)
    with pytest.raises(ImportModelError, match="p is 1 or 2, got 3"):
        run_node("LpNormalization", [x], p=3)


def test_mean_variance_does_not_cancel() -> None:
    x = (RNG.standard_normal((2, 3, 4, 5)) + 1e4).astype(np.float32)
    v = x.astype(np.float64)
    middle = v.mean((0, 2, 3), keepdims=True)
    wanted = (v - middle) / (v.std((0, 2, 3), keepdims=True) + 1e-9)
    got = run_node("MeanVarianceNormalization", [x])
    np.testing.assert_allclose(got, wanted, atol=2e-2)
    got = run_node("MeanVarianceNormalization", [x], axes=[3])
    wanted = (v - v.mean(-1, keepdims=True)) / (v.std(-1, keepdims=True) + 1e-9)
    np.testing.assert_allclose(got, wanted, atol=2e-2)


def _largest(x: Any, k: int, axis: int, largest: int) -> Any:
    """Places, the first of equal elements first, as a sort of pairs."""
    lines = np.moveaxis(x, axis, -1)
    found = np.empty((*lines.shape[:-1], k), np.int64)
    for at in np.ndindex(*lines.shape[:-1]):
        line = [float(v) for v in lines[at]]
        rank = [(math.inf if math.isnan(v) else v, math.isnan(v)) for v in line]
        sign = -1 if largest else 1
        order = sorted(range(len(line)), key=lambda i: (sign * rank[i][0], sign * rank[i][1], i))
        found[at] = order[:k]
    return np.moveaxis(found, -1, axis)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize("largest", [0, 1])
def test_topk(dtype: str, largest: int) -> None:
    x = RNG.integers(0, 9, (3, 211, 2)).astype(kind_of(dtype))
    if dtype in FLOATS:
        x = x - kind_of(dtype).type(4)
        x[0, :6, 0] = math.nan, math.inf, -math.inf, -0.0, 0.0, math.nan
    for k in (1, 5, 100, 211):
        places = _largest(x, k, 1, largest)
        values, got = run_node("TopK", [x], [np.array([k])], outputs=2, axis=1, largest=largest)
        np.testing.assert_array_equal(got, places)
        np.testing.assert_array_equal(
            values.astype(np.float64), np.take_along_axis(x, places, 1).astype(np.float64)
        )


def test_topk_of_64_bits_and_of_many() -> None:
    info = np.iinfo(np.int64)
    x = np.array([info.max, info.min, info.max - 1, 0, info.min + 1])
    values, _ = run_node("TopK", [x], [np.array([5])], outputs=2)
    np.testing.assert_array_equal(values, np.sort(x)[::-1])
    big = RNG.standard_normal(100_000).astype(np.float32)
    for data in (big, np.sort(big), -np.sort(big)):
        _, places = run_node("TopK", [data], [np.array([17])], outputs=2)
        np.testing.assert_array_equal(places, np.argsort(-data, kind="stable")[:17])


def test_topk_of_the_first_versions() -> None:
    x = np.array([[3.0, 1, 2], [4, 6, 5]])
    values, places = run_node("TopK", [x], outputs=2, opset=1, k=2)
    np.testing.assert_array_equal(values, [[3, 2], [6, 5]])
    np.testing.assert_array_equal(places, [[0, 2], [1, 2]])
    values, places = run_node("TopK", [x], [np.array([0])], outputs=2)
    assert values.shape == places.shape == (2, 0)
    with pytest.raises(ImportModelError, match="4 elements of dimension 1"):
        run_node("TopK", [x], [np.array([4])], outputs=2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint64"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(dtype: str, exclusive: int, reverse: int) -> None:
    how = {"exclusive": exclusive, "reverse": reverse}
    for shape, axis in (((37,), 0), ((3, 5), 0), ((2, 7, 33), 1), ((2, 3, 5), -1), ((4, 1, 16), 0)):
        x = RNG.integers(0, 3, shape).astype(dtype)
        data = np.flip(x, axis) if reverse else x
        for kind, function, start in (("CumSum", np.cumsum, 0), ("CumProd", np.cumprod, 1)):
            wanted = function(data, axis, dtype=dtype)
            if exclusive:
                first = np.full_like(wanted.take(range(1), axis), start)
                wanted = np.concatenate([first, wanted], axis).take(range(shape[axis]), axis)
            wanted = np.flip(wanted, axis) if reverse else wanted
            got = run_node(kind, [x], [np.array(axis, np.int32)], **how)
            np.testing.assert_array_equal(got, wanted)
            known = run_node("CumSum", [np.zeros(shape, dtype)], [np.array(axis)], **how)
            assert known.dtype == x.dtype


def test_running_sums_of_narrow_floats_lose_nothing() -> None:
    x = np.full(4096, 0.5, np.float16)
    got = run_node("CumSum", [x], [np.array(0)])
    np.testing.assert_array_equal(got, (np.arange(1, 4097) * 0.5).astype(np.float16))
    assert run_node("CumSum", [x[:0]], [np.array(0)]).shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_determinants(dtype: str) -> None:
    for shape in ((1, 1), (5, 5), (2, 3, 4, 4), (2, 2)):
        x = RNG.standard_normal(shape).astype(dtype)
        rtol = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-10}[dtype]
        wanted = np.linalg.det(x.astype(np.float64))
        np.testing.assert_allclose(run_node("Det", [x]), wanted, rtol=rtol, atol=rtol)
    singular = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6]], dtype)
    assert run_node("Det", [singular]) == 0
    np.testing.assert_array_equal(run_node("Det", [np.eye(3, dtype=dtype)[[1, 0, 2]]]), -1)
    np.testing.assert_array_equal(run_node("Det", [np.zeros((2, 0, 0), dtype)]), [1, 1])
    with pytest.raises(ImportModelError, match="square"):
        run_node("Det", [np.zeros((2, 3), dtype)])


def test_triangles() -> None:
    x = RNG.integers(1, 9, (2, 3, 5)).astype(np.int8)
    for k in (-7, -1, 0, 2, 9):
        for upper, function in ((1, np.triu), (0, np.tril)):
            wanted = function(x, k)
            np.testing.assert_array_equal(
                run_node("Trilu", [x], [np.array(k)], upper=upper), wanted
            )
            got = run_node("Trilu", [x, np.array([k])], upper=upper)  # as the data has it
            np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(run_node("Trilu", [x > 0], upper=0), np.tril(x > 0))


def test_one_hot() -> None:
    indices = np.array([[0, -1, 3], [-4, 4, -5]])
    wanted = np.full((2, 3, 4), -2.0)
    for at, hit in np.ndenumerate(indices):
        if -4 <= hit < 4:
            wanted[(*at, int(hit))] = 7
    for axis in (-1, 0, 1):
        moved = np.moveaxis(wanted, -1, axis)
        for dtype in (np.int64, np.int32, np.float32):
            values = np.array([-2, 7.0])
            got = run_node("OneHot", [indices.astype(dtype)], [np.array(4), values], axis=axis)
            np.testing.assert_array_equal(got, moved)
            got = run_node("OneHot", [indices.astype(dtype)], [np.array([4.0]), values], axis=axis)
            np.testing.assert_array_equal(got, moved)


def test_ranges_and_diagonals() -> None:
    for start, limit, delta in ((0, 10, 3), (10, 0, -4), (5, 5, 1), (3, 1, 1), (0.5, 2.0, 0.25)):
        dtype: Any = np.int64 if isinstance(start, int) else np.float32
        numbers = [np.array(v, dtype) for v in (start, limit, delta)]
        wanted = np.arange(float(start), float(limit), float(delta)).astype(dtype)
        np.testing.assert_array_equal(run_node("Range", [], numbers), wanted)
    with pytest.raises(ImportModelError, match="delta is 0"):
        run_node("Range", [], [np.array(v) for v in (0, 1, 0)])
    for k in (-9, -1, 0, 2, 9):
        got = run_node("EyeLike", [np.zeros((3, 4))], k=k, dtype=9)
        np.testing.assert_array_equal(got, np.eye(3, 4, k, bool))


EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("bij,bjk->bki", [(2, 3, 4), (2, 4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 3, 4, 5)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("iij->j", [(3, 3, 2)]),
    ("ij->", [(3, 4)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i", [(5,), (5,)]),
    ("ij,ij->ij", [(3, 4), (3, 4)]),
    ("ij,kl->il", [(3, 4), (2, 5)]),
    ("a,b,c->abc", [(2,), (3,), (4,)]),
    ("ij,jk,kl->il", [(2, 30), (30, 3), (3, 20)]),
    ("ba,b", [(3, 4), (3,)]),
    ("...a,a...->...", [(2, 3), (3, 2)]),
    ("a...b->b...", [(2, 5, 6, 3)]),
    ("ij,ij", [(3, 1), (3, 4)]),
    (" i j , j -> i ", [(3, 4), (4,)]),
    ("Ab,bA->A", [(2, 3), (3, 2)]),
    ("i,->i", [(3,), ()]),
    ("ij,jk->ik", [(3, 0), (0, 5)]),
]


@pytest.mark.parametrize("equation, shapes", EQUATIONS)
def test_einsum(equation: str, shapes: Any) -> None:
    values = [RNG.integers(-4, 5, s).astype(np.float32) for s in shapes]
    wanted = np.einsum(equation.replace(" ", ""), *values)
    np.testing.assert_array_equal(run_node("Einsum", values, equation=equation), wanted)
    known = run_node("Einsum", values[:1], values[1:], equation=equation)
    np.testing.assert_array_equal(known, wanted)
    whole = run_node("Einsum", [v.astype(np.int32) for v in values], equation=equation)
    np.testing.assert_array_equal(whole, wanted)


@pytest.mark.parametrize(
    "equation, text",
    [
        ("ij,jk->ik", "has 2 operands, got 1"),
        ("ijk->i", "does not fit"),
        ("ij->ii", "repeats or invents"),
        ("ij->k", "repeats or invents"),
        ("i+->i", "something else than letters"),
    ],
)
def test_einsum_errors(equation: str, text: str) -> None:
    from tilewright.graph.ir import Value
    from tilewright.graph.onnx.convert import Builder, OnnxNode
    from tilewright.graph.onnx.einsum import einsum

    node = OnnxNode("Einsum", "n", [Value("x", (2, 3), "float32")], ["y"], {"equation": equation})
    with pytest.raises(ImportModelError, match=text):
        einsum(Builder(12), node)


def _loss(x: Any, target: Any, weight: Any, reduction: str, ignore: int | None) -> Any:
    kept = np.ones(target.shape, bool) if ignore is None else target != ignore
    safe = np.where(kept, target, 0)
    own = (np.ones(x.shape[1]) if weight is None else weight)[safe] * kept
    loss = -np.take_along_axis(x, np.expand_dims(safe, 1), 1).squeeze(1) * own
    if reduction == "none":
        return loss
    return loss.sum() / (own.sum() if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignore", [None, -100, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_losses(reduction: str, ignore: int | None, dtype: str) -> None:
    rtol = 1e-5 if dtype == "float32" else 4e-3
    more: dict[str, Any] = {} if ignore is None else {"ignore_index": ignore}
    for shape in ((5, 7), (2, 3, 4, 5)):
        x = np.log(RNG.uniform(0.1, 1, shape)).astype(dtype)
        target = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
        if ignore is not None:
            target.flat[::3] = ignore
        weight = RNG.uniform(0.5, 2, shape[1]).astype(dtype)
        wide = x.astype(np.float64)
        for w in (None, weight):
            given = [] if w is None else [w]
            wanted = _loss(wide, target, w, reduction, ignore)
            got = run_node("NegativeLogLikelihoodLoss", [x, target, *given],
                           reduction=reduction, **more)  # fmt: skip
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
            likely = wide - _log_sum_exp(wide, 1, True)
            got, logs = run_node("SoftmaxCrossEntropyLoss", [x, target.astype(np.int32), *given],
                                 outputs=2, reduction=reduction, **more)  # fmt: skip
            np.testing.assert_allclose(logs, likely, rtol=rtol, atol=rtol)
            wanted = _loss(likely, target, w, reduction, ignore)
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
