from __future__ import annotations

import math
from typing import Any

import pytest

from tests.narrow import as_a, value_of
from tilewright import tir
from tilewright.arith import Analyzer
from tilewright.base.errors import TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir.effects import CallEffectKind, effect_of, is_pure, side_effect
from tilewright.loopir.expr import Op
from tilewright.loopir.iter import Range
from tilewright.loopir.operators import binary, folds

x, y = E.Var("x", "float32"), E.Var("y", "float32")
i, j = E.Var("i"), E.Var("j")
p = E.Var("p", "bool")

UNARY = [
    *(
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "erf",
        "tanh",
        "sigmoid",
        "log",
        "log2",
        "log10",
        "log1p",
        "tan",
    ),
    *("cos", "cosh", "sin", "sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sqrt"),
    "rsqrt",
    "cbrt",
]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float32x4"])
def test_math_functions(name: str, dtype: str) -> None:
    call = getattr(tir, name)(E.Var("v", dtype))
    assert (call.op.name, call.dtype) == (f"tir.{name}", dtype)
    assert is_pure(call)
    assert getattr(tir, name).__doc__


@pytest.mark.parametrize("name", [*UNARY, "floor", "isnan", "abs"])
def test_math_of_integers(name: str) -> None:
    if name in ("floor", "isnan", "abs"):
        assert getattr(op, name)(i).dtype in ("int32", "bool")
        return
    made: Any = getattr(op, name)(i)
    assert (type(made), made.dtype, made.value.dtype) == (E.Cast, "int32", "float64")
    assert getattr(op, name)(p).value.dtype == "float32" and getattr(op, name)(p).dtype == "bool"
    assert made.value.op.name == f"tir.{name}"


@pytest.mark.parametrize("name", ["atan2", "nextafter", "hypot", "copysign", "fmod", "power"])
def test_math_of_two(name: str) -> None:
    f = getattr(op, name)
    assert f(x, 2).args[1].dtype == "float32"
    assert f(x, E.Var("d", "float64")).dtype == "float64"
    if name != "power":
        whole = f(i, j)
        assert whole.dtype == "int32" and whole.value.args[1].dtype == "float64"


def test_powers_of_integers() -> None:
    call: Any = op.power(i, E.Var("wide", "int64"))
    assert (call.op.name, call.dtype) == ("tir.int_pow", "int64")
    small = E.const(-3, "int8")
    assert value_of(op.power(small, E.const(5, "int8"))) == -243 + 256
    assert value_of(op.power(E.const(2**62 - 1, "int64"), 1)) == 2**62 - 1
    below_zero = {(0, -1): 0, (1, -4): 1, (-1, -3): -1, (-1, -2): 1, (2, -1): 0}
    for (base, exponent), value in below_zero.items():
        assert value_of(op.power(base, exponent)) == value
    assert value_of(Analyzer().simplify(op.power(i, 0))) == 1
    assert value_of(op.power(3, E.const(2**62, "int64"))) == pow(3, 2**62, 2**64)
    with pytest.raises(TilewrightError, match="takes a float"):
        op.power(i > 0, j > 0)


def test_rounding_folds_only_what_is_exact() -> None:
    cases = {
        op.floor: (-3.0, 2.0), op.ceil: (-2.0, 3.0), op.trunc: (-2.0, 2.0),
        op.round: (-3.0, 3.0), op.nearbyint: (-2.0, 2.0),
    }  # fmt: skip
    for f, (low, high) in cases.items():
        assert (value_of(f(-2.5)), value_of(f(2.5))) == (low, high)
        assert f(i) is i
        assert isinstance(f(x), E.Call)
        assert isinstance(f(op.infinity("float32")), E.Call)
    assert math.copysign(1, value_of(op.ceil(-0.5))) == -1
    assert value_of(op.round(0.49999997)) == 0.0


def test_magnitudes() -> None:
    assert value_of(op.abs(-3)) == 3
    assert value_of(op.abs(E.const(-128, "int8"))) == -128
    assert value_of(op.abs(-1.5)) == 1.5
    for dtype in ("uint8", "int8", "int16", "int64", "int16x4", "float16"):
        assert op.abs(E.Var("u", dtype)).dtype == dtype
    assert str(op.abs(i)) == "T.Select(i >= 0, i, 0 - i)"
    assert str(op.abs(x)) == "T.fabs(x)"


def test_integers() -> None:
    assert op.popcount(i).dtype == "int32"
    assert op.clz(E.Var("l", "int64")).dtype == "int32"
    assert op.clz(E.Var("l", "int16x4")).dtype == "int32x4"
    assert as_a(E.Call, op.ldexp(x, 3)).args[1].dtype == "int32"
    assert as_a(E.Call, op.q_multiply_shift(i, j, 31, -2)).op.name == "tir.q_multiply_shift"
    for f in (op.popcount, op.clz):
        with pytest.raises(TilewrightError, match="takes an integer, got float32"):
            f(x)


def test_predicates() -> None:
    for f in (op.isnan, op.isinf, op.isfinite):
        assert f(x).dtype == "bool" and f(E.Var("v", "float32x4")).dtype == "boolx4"
    assert value_of(op.isnan(i)) == 0 and value_of(op.isfinite(i)) == 1
    assert value_of(op.isinf(op.infinity("float16"))) == 1 and value_of(op.isnan(1.0)) == 0


def test_choices() -> None:
    assert op.if_then_else(True, i, x).dtype == "float32"
    assert str(op.if_then_else(p, i, 2)) == "T.if_then_else(p, i, 2)"
    assert str(op.select(p, i, 2.5)) == 'T.Select(p, T.Cast("float32", i), T.float32(2.5))'
    assert op.select(E.const(False), i, j) is j
    for f in (op.if_then_else, op.select):
        with pytest.raises(TilewrightError, match="boolean type, got int32; compare it"):
            f(i, 1, 2)
    assert value_of(op.likely(E.const(True))) == 1
    assert str(op.likely(i < 3)) == "T.likely(i < 3)"


def test_logic() -> None:
    assert str(op.all(i < 3, p, j != 0)) == "i < 3 and p and j != 0"
    assert op.all(True, p) is p and value_of(op.any(True, p)) == 1
    assert value_of(op.all(p, False)) == 0 and op.any(p, False) is p
    for f in (op.all, op.any):
        with pytest.raises(TilewrightError, match="only accepts a condition of boolean type"):
            f(p, i)
        with pytest.raises(ValueError, match="at least one condition"):
            f()


def test_divisions() -> None:
    assert (value_of(op.floordiv(-7, 2)), value_of(op.truncdiv(-7, 2))) == (-4, -3)
    assert (value_of(op.floormod(-7, 2)), value_of(op.truncmod(-7, 2))) == (1, -1)
    assert (
        value_of(op.ceildiv(7, 2)) == 4
        and value_of(op.indexdiv(7, 2)) == 3
        and value_of(op.indexmod(7, 2)) == 1
    )
    assert value_of(op.div(7.0, 2.0)) == 3.5 and value_of(op.div(-7, 2)) == -3
    for f in (op.floordiv, op.floormod, op.truncdiv, op.truncmod, op.div):
        with pytest.raises(TilewrightError, match="division by zero"):
            f(i, 0)
    with pytest.raises(TilewrightError, match="floordiv takes integers, got float32"):
        op.floordiv(x, y)
    with pytest.raises(TilewrightError, match="multiple types of integer divisions"):
        _ = i / j


def test_bits() -> None:
    assert value_of(op.shift_left(1, 4)) == 16 and value_of(op.shift_right(-5, 1)) == -3
    assert value_of(op.bitwise_and(12, 10)) == 8 and value_of(op.bitwise_or(12, 10)) == 14
    assert value_of(op.bitwise_xor(12, 10)) == 6
    assert str(op.bitwise_not(i)) == "T.bitwise_not(i)" and str(op.bitwise_not(p)) == "not p"
    assert str(p & (i < 3)) == "p and i < 3"
    with pytest.raises(TilewrightError, match="needs integers"):
        _ = x << 1
    with pytest.raises(TilewrightError, match=r"shift by 32 is not in \[0, 32\)"):
        op.shift_left(1, 32)
    with pytest.raises(TilewrightError, match="~ needs an integer"):
        _ = ~x


def test_limits_and_reinterpretation() -> None:
    assert value_of(op.min_value("int8")) == -128 and value_of(op.max_value("uint8")) == 255
    assert value_of(op.max_value("float16")) == 65504 and value_of(op.min_value("bfloat16")) < -3e38
    assert value_of(op.infinity("float64")) == math.inf
    with pytest.raises(TilewrightError, match="no infinity of type int32"):
        op.infinity("int32")
    assert op.reinterpret("float32", x) is x
    with pytest.raises(TilewrightError, match="widths differ"):
        op.reinterpret("int64", x)


def test_arithmetic_by_name() -> None:
    assert str(op.add(1, op.subtract(i, op.multiply(2, j)))) == "1 + (i - 2 * j)"
    assert str(op.min(i, 3)) == "T.min(i, 3)" and value_of(op.max(2, 3)) == 3


def test_calls() -> None:
    a = tir.decl_buffer((4, 8), name="A")
    assert str(tir.call_extern("int32", "f", a)).startswith('T.call_extern("int32", "f", T.tvm_acc')
    packed = tir.call_packed("f", a, i)
    array = as_a(E.Call, packed.args[1])
    assert array.op.name == "tir.tvm_stack_make_array"
    assert str(array.args[1]) == "T.tvm_stack_make_shape(4, 8)"
    strided = tir.decl_buffer((4,), name="S", strides=(2,))
    array = as_a(E.Call, tir.call_cpacked("f", strided).args[1])
    assert str(array.args[2]) == "T.tvm_stack_make_shape(2)"
    unnamed: Any = 3
    for bad in (lambda: tir.call_extern("int32", unnamed), lambda: tir.call_packed()):
        with pytest.raises(TilewrightError, match="takes the name of a function"):
            bad()
    with pytest.raises(TilewrightError, match="takes the name of an operation"):
        tir.call_intrin("int32", 3)
    assert str(tir.address_of(a)) == "T.address_of(A[0, 0])"
    with pytest.raises(TilewrightError, match="address_of takes an element"):
        tir.address_of(i)
    assert as_a(E.Call, tir.prefetch(a[0, 0], 0, 3, 1).args[0]).op.name == "tir.address_of"
    assert tir.ret(i).dtype == "int32"


def test_llvm_intrinsics_count_their_types() -> None:
    call = tir.call_llvm_pure_intrin("float32", "llvm.fma", tir.const(1, "uint32"), x, y, x)
    assert str(call.args[0]) == '"llvm.fma"' and value_of(call.args[1]) == 1 and len(call.args) == 5
    assert tir.call_llvm_intrin("float32", "llvm.fabs", 1, x).args[1].dtype == "uint32"
    assert value_of(tir.call_llvm_intrin("int32", "llvm.trap").args[1]) == 0
    with pytest.raises(TilewrightError, match="name of an intrinsic"):
        tir.call_llvm_pure_intrin("float32", 123, x)  # type: ignore[arg-type]
    with pytest.raises(TilewrightError, match="9 argument types in its signature, but 1 arg"):
        tir.call_llvm_pure_intrin("float32", "llvm.fma", tir.const(9, "uint32"), x)


def test_vectors_and_threads() -> None:
    v = E.Var("v", "int8x4")
    assert tir.dp4a(v, v).dtype == "int32" and tir.dp4a(v, v, i).args[2] is i
    u = E.Var("u", "uint8x4")
    assert tir.dp4a(u, u).dtype == "uint32"
    with pytest.raises(TilewrightError, match="four 8-bit integers"):
        tir.dp4a(x, v)
    assert tir.vectorlow("int8x2", v).dtype == "int8x2"
    assert tir.vectorhigh("int8x2", v).op.name == "tir.vectorhigh"
    assert tir.vectorcombine("int8x8", v, v).dtype == "int8x8"
    assert tir.tvm_warp_shuffle_down(tir.tvm_warp_activemask(), x, 8, 32, 32).dtype == "float32"
    assert tir.tvm_warp_shuffle_up(1, x, 8, 32, 32).op.name == "tir.tvm_warp_shuffle_up"
    assert tir.tvm_warp_shuffle(1, i, 8, 32, 32).dtype == "int32"
    assert str(tir.tvm_storage_sync("shared")) == 'T.tvm_storage_sync("shared")'
    assert tir.fma(x, 2, y).args[1].dtype == "float32"
    assert side_effect(tir.tvm_thread_allreduce(x)) == CallEffectKind.UpdateState


def test_effects() -> None:
    a = tir.decl_buffer((4,), name="A")
    assert side_effect(i + j) == CallEffectKind.Pure
    assert side_effect(op.exp(a[i])) == CallEffectKind.ReadState
    assert side_effect(tir.call_extern("int32", "f")) == CallEffectKind.UpdateState
    assert side_effect(tir.call_pure_extern("int32", "f", i)) == CallEffectKind.Pure
    assert side_effect(tir.ret(i)) == CallEffectKind.UpdateState
    assert side_effect(op.likely(p)) == CallEffectKind.Pure
    assert effect_of(Op.named("tir.never_heard_of")) == CallEffectKind.Opaque
    assert not is_pure(a[i]) and is_pure(i)
    tower: Any = i
    for _ in range(200):
        tower = E.Mul(tower, tower)
    assert is_pure(tower)
    for name in ("exp", "fma", "clz", "shift_left"):
        assert Op.get(f"tir.{name}").row.effect == CallEffectKind.Pure


def test_attributes_of_operations() -> None:
    register = tvm_ir().register_op_attr
    call = tir.call_intrin("float32", "tir.test_op_attr", x)
    assert not is_pure(call)
    register("tir.test_op_attr", "TCallEffectKind", tir.CallEffectKind.Pure)
    assert is_pure(call)
    register("tir.test_op_attr", "note", "low", level=5)
    register("tir.test_op_attr", "note", "high", level=20)
    register("tir.test_op_attr", "note", "ignored", level=10)
    assert Op.get("tir.test_op_attr").get_attr("note") == "high"

    @register("tir.test_op_attr", "function")
    def function() -> int:
        return 7

    assert Op.get("tir.test_op_attr").get_attr("function") is function
    assert Op.get("tir.test_op_attr").same_as(Op.get("tir.test_op_attr"))


def tvm_ir() -> Any:
    from tilewright import ir

    return ir


def test_plain_numbers_have_the_type_of_what_they_shift_and_mask() -> None:
    narrow, wide = E.Var("narrow", "int8"), E.Var("wide", "uint8x4")
    assert (narrow >> 1).dtype == (1 << narrow).dtype == (narrow & 15).dtype == "int8"
    assert (wide >> 1).dtype == (wide ^ 255).dtype == "uint8x4"
    assert (narrow & 255).dtype == "int32"  # which int8 does not hold


@pytest.mark.parametrize(
    ("x_range", "n_range", "bounds"),
    [((0, 0), (2, 10), (0, 0)), ((3, 5), (1, 4), (6, 80)), ((0, 1), (0, 30), (0, 1 << 30))],
)
def test_bounds_of_shifts_to_the_left(x_range: Any, n_range: Any, bounds: Any) -> None:
    analyzer = Analyzer()
    for v, (low, high) in ((i, x_range), (j, n_range)):
        analyzer.bind(v, Range(low, high + 1))
    found = analyzer.const_int_bound(i << j)
    assert (found.min_value, found.max_value) == bounds


def test_where_an_operator_gives_another_node() -> None:
    """As `binary` shows, which is what Python's operators call."""
    kinds = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max)
    for dtype in ("int32", "int64", "uint8", "float32", "float16"):
        x = E.Var("x", dtype)
        for number in (0, 1, 2, 7):
            for a, b in ((x, E.const(number, dtype)), (E.const(number, dtype), x)):
                for kind in kinds:
                    try:
                        made: Any = binary(kind, a, b)
                        other = not (type(made) is kind and made.a is a and made.b is b)
                    except TilewrightError:
                        other = True
                    assert folds(kind, a, b) == other, (kind, dtype, number)
    flag = E.Var("flag", "bool")
    assert folds(E.Add, flag, E.const(True, "bool")), "sums of conditions are int32"
