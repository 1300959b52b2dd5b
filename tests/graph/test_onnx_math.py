"""Element-wise operators at the extremes of their types, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.single import node_model, run_node
from tilewright import graph
from tilewright.base.errors import ImportModelError

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def kind_of(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def close(got: Any, wanted: Any, dtype: str, units: float = 8, small: float = 1e-3) -> None:
    """Within some units in the last place of the type, or these of `small`; infinities and NaN
    where they are wanted."""
    assert got.dtype == kind_of(dtype)
    with np.errstate(all="ignore"):
        rounded = np.asarray(wanted).astype(kind_of(dtype)).astype(np.float64)
    bound = units * EPSILON[dtype]
    np.testing.assert_allclose(got.astype(np.float64), rounded, rtol=bound, atol=bound * small)


EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-4, -1e-4, 3.0, -3.0, 11.0, -11.0, 80.0, -80.0,
            math.inf, -math.inf, math.nan]  # fmt: skip


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf)(x)


def _elu(x: Any, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "Celu": (lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2)), {"alpha": 2.0}),
    "Elu": (lambda x: _elu(x, 0.5), {"alpha": 0.5}),
    "Selu": (lambda x: 1.0507010221481323 * _elu(x, 1.6732631921768188), {}),
    "HardSigmoid": (lambda x: np.clip(0.25 * x + 0.5, 0, 1), {"alpha": 0.25}),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "Softplus": (_softplus, {}),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), {}),
    "Swish": (lambda x: x / (1 + np.exp(-0.5 * x)), {"alpha": 0.5}),
    "Softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "ThresholdedRelu": (lambda x: np.where(x > 0.5, x, 0), {"alpha": 0.5}),
    "Gelu": (lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), {}),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations(kind: str, dtype: str) -> None:
    function, attrs = ACTIVATIONS[kind]
    x = np.array(EXTREMES).astype(kind_of(dtype))
    if kind == "Mish" or (kind == "Gelu" and dtype == "float16"):
        x = x[np.isfinite(x.astype(np.float64))]
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64))
    if kind == "ThresholdedRelu":  # NaN is not above a threshold
        wanted = np.where(np.isnan(x.astype(np.float64)), 0, wanted)
    small = 1 if kind == "Gelu" else 1e-3  # 1 + erf(x), as it is defined, cancels
    close(run_node(kind, [x], **attrs), wanted, dtype, 8, small)
    whole = run_node(kind, [x[3]], **attrs)
    assert whole.shape == ()


@pytest.mark.parametrize("dtype", FLOATS)
def test_gelu_by_tanh(dtype: str) -> None:
    x = np.array([-3.0, -0.5, 0.0, 0.25, 2.0]).astype(kind_of(dtype))
    v = x.astype(np.float64)
    wanted = 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    close(run_node("Gelu", [x], approximate="tanh"), wanted, dtype, 32)


UNARY = {
    "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh,
    "Atan": np.arctan, "Atanh": np.arctanh, "Cosh": np.cosh, "Sinh": np.sinh, "Tan": np.tan,
    "Round": np.rint, "Sign": np.sign,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", UNARY)
def test_functions(kind: str, dtype: str) -> None:
    more = [1.5, 2.5, -0.75, -2.5, 0.9, -0.9, 1e3, -1e3]
    x = np.array([v for v in EXTREMES if abs(v) < 80 or not math.isfinite(v)] + more)
    x = x.astype(kind_of(dtype))
    with np.errstate(all="ignore"):
        wanted = UNARY[kind](x.astype(np.float64))
    close(run_node(kind, [x]), wanted, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_kinds_of_infinity(dtype: str) -> None:
    x = np.array(EXTREMES).astype(kind_of(dtype))
    v = x.astype(np.float64)
    np.testing.assert_array_equal(run_node("IsNaN", [x]), np.isnan(v))
    for above in (0, 1):
        for below in (0, 1):
            got = run_node("IsInf", [x], detect_positive=above, detect_negative=below)
            wanted = ((v == math.inf) & bool(above)) | ((v == -math.inf) & bool(below))
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_sign_of_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1], dtype)
    np.testing.assert_array_equal(run_node("Sign", [x]), np.sign(x))


def _shifted(x: int, y: int, left: bool, bits: int, signed: bool) -> int:
    """With Python's integers, which have no last bit."""
    if not 0 <= y < bits:
        return -1 if x < 0 and not left else 0
    out = (x << y if left else x >> y) & ((1 << bits) - 1)
    return out - (1 << bits) if signed and out >> (bits - 1) else out


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_shifts(dtype: str, direction: str) -> None:
    info = np.iinfo(dtype)
    values = [int(v) for v in (info.min, info.max, 0, 1, 5, info.max // 3)]
    amounts = [0, 1, info.bits - 1, info.bits, 100, *([-1, -128] if info.min else [])]
    x = np.array(values, dtype)[:, None]
    y = np.array(amounts, dtype)
    wanted = [
        [_shifted(v, n, direction == "LEFT", info.bits, info.min < 0) for n in amounts]
        for v in values
    ]
    got = run_node("BitShift", [x, y], direction=direction)
    np.testing.assert_array_equal(got, np.array(wanted, dtype))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, 85], dtype)
    y = np.array([[info.max], [3], [0]], dtype)
    for kind, function in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
        np.testing.assert_array_equal(run_node(f"Bitwise{kind}", [x, y]), function(x, y))
    np.testing.assert_array_equal(run_node("BitwiseNot", [x]), ~x)


def test_conditions() -> None:
    x, y = np.array([[True], [False]]), np.array([True, False, True])
    for kind, function in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        np.testing.assert_array_equal(run_node(kind, [x, y]), function(x, y))
        old = run_node(kind, [np.broadcast_to(x, (2, 3)).copy(), y], opset=6, broadcast=1)
        np.testing.assert_array_equal(old, function(x, y))
    np.testing.assert_array_equal(run_node("Not", [x]), ~x)
    assert run_node("Not", [np.zeros((0, 3), bool)]).shape == (0, 3)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_integers(dtype: str, fmod: int) -> None:
    """A divisor of 0 gives 0, and nothing ends the process."""
    info = np.iinfo(dtype)
    listed = [int(v) for v in {info.min, info.max, 0, 1, 7, *([-1, -7] if info.min else [])}]
    x, y = np.array(listed, dtype)[:, None], np.array(listed, dtype)

    def rest(a: int, b: int) -> int:
        if b == 0:
            return 0
        return a % b if not fmod else int(math.copysign(abs(a) % abs(b), a)) if a else 0

    wide = [[rest(a, b) for b in listed] for a in listed]
    if info.bits == 64 and fmod:  # copysign is of floats
        wide = [[(abs(a) % abs(b)) * (-1 if a < 0 else 1) if b else 0 for b in listed]
                for a in listed]  # fmt: skip
    np.testing.assert_array_equal(run_node("Mod", [x, y], fmod=fmod), np.array(wide, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_floats(dtype: str, fmod: int) -> None:
    listed = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -7.5, math.inf, -math.inf, math.nan])
    x, y = listed.astype(kind_of(dtype))[:, None], listed.astype(kind_of(dtype))
    got = run_node("Mod", [x, y], fmod=fmod)
    with np.errstate(all="ignore"):
        both = x.astype(np.float64), y.astype(np.float64)
        wanted = np.fmod(*both) if fmod else np.mod(*both)
    np.testing.assert_array_equal(got.astype(np.float64), wanted)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_clip_at_limits_that_are_computed(dtype: str) -> None:
    x = np.array([[0, 1, 5], [7, 100, 3]]).astype(kind_of(dtype))
    low, high = (np.array(n).astype(kind_of(dtype)) for n in (2, 6))
    wanted = np.clip(x.astype(np.float64), 2, 6)
    for given, known in (
        ([x, low, high], []), ([x, low], [high]), ([x], [low, high]), ([x, low[None]], [high]),
    ):  # fmt: skip
        np.testing.assert_array_equal(run_node("Clip", given, known).astype(np.float64), wanted)
    model, arrays = node_model("Clip", [x, high], [low])
    model.graph.node[0].input[:] = ["x0", "", "x1"]
    got = graph.compile(graph.load_onnx(model)).run(arrays)["y0"]
    np.testing.assert_array_equal(got.astype(np.float64), np.minimum(x.astype(np.float64), 6))
    swapped = run_node("Clip", [x, high, low])  # the smaller limit wins
    np.testing.assert_array_equal(swapped.astype(np.float64), np.full((2, 3), 2.0))


def test_clip_keeps_what_is_no_number() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 0.5], np.float32)
    low, high = np.float32(-1), np.float32(1)
    for given, known in (([x], [low, high]), ([x, low, high], [])):
        np.testing.assert_array_equal(run_node("Clip", given, known),
                                      np.array([math.nan, 1, -1, 0.5], np.float32))  # fmt: skip


def test_mean_of_several() -> None:
    a, b, c = (np.arange(n, dtype=np.float16).reshape(-1, 1) * 3 for n in (4, 1, 4))
    np.testing.assert_array_equal(run_node("Mean", [a, b, c]), (a + b + c) / np.float16(3))
    assert run_node("Mean", [a]).dtype == np.float16
    big = np.full(3, 60000, np.float16)  # the sum of two is none that float16 has
    np.testing.assert_array_equal(run_node("Mean", [big, big]), big)
    with pytest.raises(ImportModelError, match="differ in shape"):
        run_node("Mean", [a, b], opset=7)


def test_slopes() -> None:
    x = np.array([[[-1, 2], [3, -4]], [[-5, -6], [7, 8]]], np.float32)
    per_channel = np.array([0.5, 2], np.float32)
    wanted = np.where(x < 0, x * per_channel[:, None], x)
    np.testing.assert_array_equal(run_node("PRelu", [x, per_channel], opset=6), wanted)
    np.testing.assert_array_equal(run_node("PRelu", [x, per_channel[:, None]]), wanted)
    np.testing.assert_array_equal(
        run_node("PRelu", [x], [np.float32(3)]), np.where(x < 0, 3 * x, x)
    )
    ints = x.astype(np.int64)
    got = run_node("PRelu", [ints, np.array([2, 3])])
    np.testing.assert_array_equal(got, np.where(ints < 0, ints * [2, 3], ints))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float64"])
def test_shrink(dtype: str) -> None:
    x = np.array([0, 1, 2, 3, 100]).astype(dtype)
    x = np.concatenate([x, -x]) if dtype[0] != "u" else x
    v = x.astype(np.float64)
    wanted = np.where(v < -1.5, v + 0.5, np.where(v > 1.5, v - 0.5, 0)).astype(dtype)
    np.testing.assert_array_equal(run_node("Shrink", [x], lambd=1.5, bias=0.5), wanted)


def test_swiglu() -> None:
    gate, x = np.array([-1.0, 2.0, 0.0], np.float64), np.array([3.0, -4.0, 5.0])
    wanted = gate / (1 + np.exp(-2 * gate)) * x
    np.testing.assert_allclose(run_node("SwiGLU", [gate, x], alpha=2.0), wanted, rtol=1e-14)
    with pytest.raises(ImportModelError):
        run_node("SwiGLU", [gate, x[:1]])


PAIRS = [("float32", "int32"), ("float64", "uint64"), ("float16", "int16"), ("bfloat16", "uint16")]


@pytest.mark.parametrize("source, to", [*PAIRS, *((b, a) for a, b in PAIRS), ("bool", "uint8")])
def test_bit_cast(source: str, to: str) -> None:
    x = np.array([0, 1, 1, 0]).astype(kind_of(source))
    number = helper.np_dtype_to_tensor_dtype(kind_of(to))
    got = run_node("BitCast", [x], to=number)
    np.testing.assert_array_equal(got.view(np.uint8), x.view(np.uint8))
    assert got.dtype == kind_of(to)


def test_types_that_are_not_compiled_are_left_to_the_host() -> None:
    x = np.arange(3, dtype=np.float32)
    for to in (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.STRING, onnx.TensorProto.INT4):
        model, _ = node_model("Cast", [x], to=to)
        network = graph.load_onnx(model)
        assert network.rest is not None
        (got,) = graph.compile(network).run({network.rest.inputs[0].name: x}).values()
        assert got.astype(np.float32).tolist() == [0, 1, 2]


def test_first_casts_name_types() -> None:
    x = np.array([0.5, -1.5, 3], np.float32)
    np.testing.assert_array_equal(run_node("Cast", [x], opset=1, to="INT32"), [0, -1, 3])
    assert run_node("Cast", [x], opset=1, to="DOUBLE").dtype == np.float64
    assert run_node("CastLike", [x, np.zeros(2, np.int8)]).dtype == np.int8


def test_size() -> None:
    assert run_node("Size", [np.zeros((3, 0, 2))]) == 0
    got = run_node("Size", [np.zeros((3, 5))])
    assert (got, got.dtype, got.shape) == (15, np.int64, ())


@pytest.mark.parametrize("kind", ["LessOrEqual", "GreaterOrEqual"])
def test_comparisons(kind: str) -> None:
    function = np.less_equal if kind == "LessOrEqual" else np.greater_equal
    x = np.array([0.0, -0.0, math.nan, math.inf, 1], np.float32)
    np.testing.assert_array_equal(run_node(kind, [x[:, None], x]), function(x[:, None], x))
    n = np.array([0, 2**63, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(run_node(kind, [n[:, None], n]), function(n[:, None], n))


ONE, BYTE, INT, YES = (np.ones(1, t) for t in (np.float32, np.uint8, np.int32, np.bool_))
ERRORS = [
    ("BitShift", [BYTE, BYTE], {"direction": "UP"}, "direction is 'LEFT' or"),
    ("Mod", [ONE, ONE], {"opset": 13}, "floats are divided with fmod=1"),
    ("Mod", [INT, INT], {"fmod": 2}, "fmod is 0 or 1, got 2"),
    ("Gelu", [ONE], {"approximate": "sin"}, "approximate is 'none' or 'tanh'"),
    ("Clip", [np.ones(3, np.float32), np.ones(2, np.float32)], {}, "a limit is one number, got 2"),
    ("And", [ONE, YES], {}, "is no condition"),
    ("PRelu", [np.ones((1, 2), np.float32), np.ones((3, 1), np.float32)], {}, "be stretched"),
    ("BitCast", [ONE], {"to": 7}, "has not as many bits as int64"),
]  # fmt: skip


@pytest.mark.parametrize("kind, inputs, attrs, text", ERRORS)
def test_errors(kind: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(ImportModelError, match=text):
        run_node(kind, inputs, **attrs)
