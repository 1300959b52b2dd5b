"""tir_eval on arithmetic, rounding, casts and mathematical functions."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.interp.tir_kit import compute, function, lanes_of, to
from tilewright.base.dtype import parse
from tilewright.interp.tir_eval import EvalError, tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer


@pytest.mark.parametrize(
    ("a", "b", "floor", "trunc"),
    [(7, 2, 3, 3), (-7, 2, -4, -3), (7, -2, -4, -3), (-7, -2, 3, 3), (0, 5, 0, 0)],
)
def test_four_divisions(a: int, b: int, floor: int, trunc: int) -> None:
    for t in ("int8", "int32", "int64"):
        two = (t, t)
        assert compute(op.floordiv, a, b, dtypes=two) == floor
        assert compute(op.truncdiv, a, b, dtypes=two) == trunc
        assert compute(op.floormod, a, b, dtypes=two) == a - b * floor
        assert compute(op.truncmod, a, b, dtypes=two) == a - b * trunc


def test_integers_wrap() -> None:
    add, mul, sub = (lambda x, y: x + y), (lambda x, y: x * y), (lambda x, y: x - y)
    assert compute(add, 100, 100, dtypes=("int8", "int8")) == -56
    assert compute(mul, 200, 2, dtypes=("uint8", "uint8")) == 144
    assert compute(sub, 1, 2, dtypes=("uint32", "uint32")) == 2**32 - 1
    assert compute(sub, 0, 1, dtypes=("uint64", "uint64")) == 2**64 - 1
    assert compute(mul, -300, 300, dtypes=("int16", "int16")) == (-90000 + 32768) % 65536 - 32768
    assert compute(add, 2**31 - 1, 1, dtypes=("int32", "int32")) == -(2**31)
    assert compute(to("int8"), 300, dtypes=("int32",)) == 44
    assert compute(to("uint8"), -1, dtypes=("int32",)) == 255
    assert compute(lambda x: -x, -128, dtypes=("int8",)) == -128
    const = E.const
    assert compute(lambda x: x << const(5, "int8"), 9, dtypes=("int8",)) == 32
    assert compute(lambda x: x >> const(1, "int8"), -5, dtypes=("int8",)) == -3
    assert compute(lambda x: x >> const(1, "uint8"), 251, dtypes=("uint8",)) == 125
    assert compute(lambda x: ~x, 1, dtypes=("uint8",)) == 254
    assert compute(lambda x, y: (x & y) | (x ^ 3), 12, 10, dtypes=("int32", "int32")) == 15
    assert compute(op.popcount, -1, dtypes=("int16",)) == 16
    assert compute(op.clz, 1, dtypes=("int32",)) == 31

    def grows(x, y):
        return op.floordiv(x + y, E.const(2, "int8"))

    # wrapped before it is compared or divided, not only when it is stored
    assert compute(grows, 100, 100, dtypes=("int8", "int8")) == -28


def test_each_float_operation_rounds() -> None:
    x, y = np.float32(0.1), np.float32(3.7)
    result = compute(lambda a, b: a * b + a, x, y, dtypes=("float32", "float32"))
    assert result == x * y + x and result.dtype == np.float32
    half = compute(lambda a, b: a + b, 2048.0, 1.0, dtypes=("float16", "float16"))
    assert half == 2048.0
    brain = compute(lambda a, b: a + b, 256.0, 1.0, dtypes=("bfloat16", "bfloat16"))
    assert float(brain) == 256.0 and brain.dtype == ml_dtypes.bfloat16
    assert compute(lambda a, b: a / b, 1.0, 0.0, dtypes=("float32", "float32")) == np.inf
    big = compute(lambda a: a * a, 1e30, dtypes=("float32",))
    assert big == np.inf


def test_casts_round_once() -> None:
    tie = 1 + 2**-8 + 2**-40
    assert float(compute(to("bfloat16"), tie, dtypes=("float64",))) == 1 + 2**-7
    tie = 1 + 2**-11 + 2**-40
    assert compute(to("float16"), tie, dtypes=("float64",)) == 1 + 2**-10
    assert compute(to("float32"), 2**60 + 2**36 + 1, dtypes=("int64",)) == 2**60 + 2**37
    assert compute(to("int32"), -2.9, dtypes=("float32",)) == -2
    for value, wanted in ((math.inf, 127), (-1e30, -128), (math.nan, 0), (-math.inf, -128)):
        assert compute(to("int8"), value, dtypes=("float32",)) == wanted
    assert compute(to("uint8"), -5.0, dtypes=("float32",)) == 0
    assert compute(to("int32"), 3e9, dtypes=("float32",)) == 2**31 - 1
    assert compute(to("int64"), 1e30, dtypes=("float64",)) == 2**63 - 1
    assert compute(to("uint64"), 2.0**63, dtypes=("float64",)) == 2**63
    assert compute(to("uint64"), math.inf, dtypes=("float16",)) == 2**64 - 1
    assert compute(to("bool"), 0.5, dtypes=("float32",)) == True  # noqa: E712
    assert compute(to("int32"), True, dtypes=("bool",)) == 1
    assert compute(to("float32"), 2**64 - 1, dtypes=("uint64",)) == np.float32(2**64)


def test_min_and_max_propagate_nan() -> None:
    two = ("float32", "float32")
    for f in (op.min, op.max):
        assert math.isnan(compute(f, math.nan, 1.0, dtypes=two))
        assert math.isnan(compute(f, 1.0, math.nan, dtypes=two))
    assert compute(op.min, 2.0, 1.0, dtypes=two) == 1.0
    assert compute(op.max, -3, 2, dtypes=("int32", "int32")) == 2
    assert compute(op.max, math.nan, 1.0, dtypes=("bfloat16", "bfloat16")) != 1.0


UNARY = {
    "exp": 1.5, "exp2": 1.5, "exp10": 0.3, "erf": 0.4, "tanh": 0.4, "sigmoid": 0.3, "log": 2.5,
    "log2": 2.5, "log10": 2.5, "log1p": 0.1, "tan": 0.7, "cos": 0.7, "cosh": 0.7, "sin": 0.7,
    "sinh": 0.7, "asin": 0.7, "acos": 0.7, "atan": 0.7, "asinh": 0.7, "acosh": 1.7, "atanh": 0.7,
    "sqrt": 0.7, "rsqrt": 0.7, "floor": -1.5, "ceil": -1.5, "trunc": -1.5, "round": -2.5,
    "nearbyint": -2.5,
}  # fmt: skip
REFERENCE = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "exp10": lambda x: 10.0**x,
    "exp2": lambda x: 2.0**x,
    "round": lambda x: -3.0,
    "nearbyint": lambda x: -2.0,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_math(name: str, dtype: str) -> None:
    kind: Any = parse(dtype).numpy.type
    x = float(kind(UNARY[name]))
    wanted = REFERENCE.get(name, getattr(math, name, None))(x)  # type: ignore[misc]
    got = compute(getattr(op, name), x, dtypes=(dtype,))
    if dtype == "float64":
        assert got == pytest.approx(wanted, rel=1e-14)
    else:
        assert got == kind(wanted)


def test_math_of_two() -> None:
    two = ("float32", "float32")
    for f, g in (
        (op.atan2, math.atan2), (op.hypot, math.hypot), (op.fmod, math.fmod),
        (op.copysign, math.copysign), (op.power, math.pow),
    ):  # fmt: skip
        assert compute(f, 0.75, -2.0, dtypes=two) == np.float32(g(0.75, -2.0))
    assert compute(op.nextafter, 1.0, 2.0, dtypes=two) == np.nextafter(np.float32(1), np.float32(2))
    assert compute(op.ldexp, 0.75, 3, dtypes=("float32", "int32")) == 6.0
    assert (
        compute(lambda x: op.reinterpret(lanes_of(x, "int32"), x), 1.0, dtypes=("float32",))
        == 0x3F800000
    )
    a, b = np.float32(1 + 2**-12), np.float32(1 - 2**-12)
    fused = compute(lambda x, y: op.fma(x, y, -1.0), a, b, dtypes=two)
    assert fused == np.float32(float(a) * float(b) - 1)
    assert compute(op.isnan, math.nan, dtypes=("float32",)) == True  # noqa: E712
    assert compute(op.isinf, -math.inf, dtypes=("float16",)) == True  # noqa: E712
    assert compute(op.isfinite, -math.inf, dtypes=("float64",)) == False  # noqa: E712


def test_llvm_intrinsics_by_name() -> None:
    out = Buffer((1,), name="out")
    one = E.const(1, "uint32")
    root = op.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", one, E.const(2.0))
    custom = op.call_llvm_intrin("float32", "llvm.mine", one, root)
    y = np.zeros(1, np.float32)
    func = function(S.BufferStore(out, custom, [0]), out)
    tir_eval(func, y, extern={"llvm.mine": lambda v: v + 1})
    assert y[0] == np.float32(np.sqrt(np.float64(2))) + np.float32(1)
    with pytest.raises(EvalError, match=r"no function 'llvm.mine'"):
        tir_eval(func, y)
