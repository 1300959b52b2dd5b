"""Calls: choices, rounding, bits, external functions, intrinsics, pointers, Python functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.narrow import as_a
from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError, TargetError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.intrin_rules import register_intrin_lowering, remove_rule
from tilewright.loopir.op_table import TABLE
from tilewright.rt.packed import register_func


def values(dtype: str, size: int = 64) -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.normal(0, 3, size)
    x[:8] = [0.5, 1.5, 2.5, -0.5, -1.5, 0.0, -0.0, 3.25]
    return x.astype(parse(dtype).numpy)


def half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


ROUNDING: dict[str, Callable[..., Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": half_away,
    "nearbyint": np.rint,
    "fabs": np.fabs,
}


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding(run_elementwise: Any, dtype: str, lanes: int) -> None:
    x = values(dtype)
    for name, oracle in ROUNDING.items():
        got = run_elementwise(
            lambda v, n=name: E.Call(v.dtype, f"tir.{n}", (v,)), [x], dtype, lanes
        )
        np.testing.assert_array_equal(got, oracle(x), err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_bits(run_elementwise: Any, dtype: str) -> None:
    t = parse(dtype)
    rng = np.random.default_rng(6)
    low, high = int(t.min_value), int(t.max_value)
    x = rng.integers(low, high, 64, dtype=t.numpy, endpoint=True)
    y = rng.integers(low, high, 64, dtype=t.numpy, endpoint=True)
    s = rng.integers(0, t.bits, 64).astype(t.numpy)
    x[0] = 0
    for lanes in (1, 8):
        run = run_elementwise
        np.testing.assert_array_equal(run(lambda a, b: a & b, [x, y], dtype, lanes), x & y)
        np.testing.assert_array_equal(run(lambda a, b: a | b, [x, y], dtype, lanes), x | y)
        np.testing.assert_array_equal(run(lambda a, b: a ^ b, [x, y], dtype, lanes), x ^ y)
        np.testing.assert_array_equal(run(lambda a: ~a, [x], dtype, lanes), ~x)
        np.testing.assert_array_equal(run(lambda a, b: a << b, [x, s], dtype, lanes), x << s)
        np.testing.assert_array_equal(run(lambda a, b: a >> b, [x, s], dtype, lanes), x >> s)
        mask = (1 << t.bits) - 1
        ones = np.array([bin(int(v) & mask).count("1") for v in x], t.numpy)
        np.testing.assert_array_equal(run(op.popcount, [x], dtype, lanes), ones)
        zeros = np.array([t.bits - (int(v) & mask).bit_length() for v in x], np.int32)
        np.testing.assert_array_equal(run(op.clz, [x], "int32", lanes), zeros)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_powers_of_integers(run_elementwise: Any, dtype: str) -> None:
    t = parse(dtype)
    low, high = int(t.min_value), int(t.max_value)
    ends = [
        (x, n) for x in (0, 1, 2, 3, -1, -2, low, high) for n in (0, 1, 2, 35, -1, -2, low, high)
    ]
    draw = np.random.default_rng(8).integers(low, high, (64, 2), dtype=t.numpy, endpoint=True)
    pairs = [(a, b) for a, b in [*ends, *draw.tolist()] if low <= min(a, b) and max(a, b) <= high]
    pairs = pairs[: len(pairs) // 8 * 8]
    x, n = np.array(pairs, t.numpy).T.copy()
    inverse = {1: 1, -1: -1}
    exact = [pow(a, b, 1 << 64) if b >= 0 else inverse.get(a, 0) ** -b for a, b in pairs]
    want = np.array([v % (1 << t.bits) for v in exact], f"uint{t.bits}").astype(dtype)
    for lanes in (1, 8):
        np.testing.assert_array_equal(run_elementwise(op.power, [x, n], dtype, lanes), want)
        for known in (0, 1, 2, 5, 64, high):
            got = run_elementwise(
                lambda v, k=known: op.power(v, E.const(k, v.dtype)), [x], dtype, lanes
            )
            want_known = [pow(a, known, 1 << 64) % (1 << t.bits) for a, _ in pairs]
            np.testing.assert_array_equal(got, np.array(want_known, f"uint{t.bits}").astype(dtype))
    if low < 0:
        got = run_elementwise(lambda v: op.power(v, E.const(-3, v.dtype)), [x], dtype, 1)
        np.testing.assert_array_equal(got, [inverse.get(a, 0) for a, _ in pairs])


def test_float_classes(run_elementwise: Any) -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = values(dtype)
        x[:3] = [np.nan, np.inf, -np.inf]
        plain = x.astype(np.float64) if dtype != "bfloat16" else x.astype(np.float32)
        for lanes in (1, 8):
            for f, oracle in (
                (op.isnan, np.isnan),
                (op.isinf, np.isinf),
                (op.isfinite, np.isfinite),
            ):
                np.testing.assert_array_equal(run_elementwise(f, [x], "bool", lanes), oracle(plain))


def test_fma_rounds_once(run_elementwise: Any) -> None:
    a = np.full(16, 1 + 2.0**-23, np.float32)
    c = np.full(16, -1 - 2.0**-22, np.float32)
    for lanes in (1, 16):
        got = run_elementwise(op.fma, [a, a, c], "float32", lanes)
        np.testing.assert_array_equal(got, np.full(16, 2.0**-46, np.float32))


@pytest.mark.parametrize("lanes", [1, 8])
def test_vector_math(run_elementwise: Any, lanes: int) -> None:
    x = np.random.default_rng(7).uniform(0.1, 3, 64).astype(np.float32)
    for name in ("exp", "log", "tanh", "sqrt", "sin", "cos", "erf", "rsqrt", "sigmoid"):
        got = run_elementwise(getattr(op, name), [x], "float32", lanes)
        own: dict[str, Callable[..., Any]] = {
            "erf": np.vectorize(math.erf),
            "rsqrt": lambda v: 1 / np.sqrt(v),
            "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        }
        oracle = own.get(name) or getattr(np, name)
        np.testing.assert_allclose(got, oracle(x.astype(np.float64)), rtol=1e-6, err_msg=name)
    got = run_elementwise(op.power, [x, x], "float32", lanes)
    np.testing.assert_allclose(got, x.astype(np.float64) ** x, rtol=1e-6)


def test_all_math_functions_live_in_one_module(program: Any) -> None:
    from tilewright.codegen.llvm import math as vector_math

    p = program(("float32", 16), ("float32", 16))
    at = [E.Ramp(0, 1, 16)]
    x = E.BufferLoad(p.buffers[0], at)
    body = []
    for name in vector_math.names():
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            v = E.cast(parse(dtype).with_lanes(16), x)
            call = E.Call(v.dtype, f"tir.{name}", [v] * vector_math.arity(name))
            body.append(S.BufferStore(p.buffers[1], E.cast("float32x16", call), at))
    data, out = np.full(16, 0.5, np.float32), np.zeros(16, np.float32)
    p.compile(S.seq(body))(data, out)
    np_form = TABLE[vector_math.names()[-1]].numpy  # the last one stays
    assert np_form is not None
    np.testing.assert_allclose(out, np_form(0.5, 0.5), rtol=1e-2)


def test_exact_functions(run_elementwise: Any) -> None:
    for dtype in ("float16", "float32", "float64"):
        x = values(dtype)
        y = np.roll(x, 3)
        for lanes in (1, 4):
            got = run_elementwise(op.nextafter, [x, y], dtype, lanes)
            np.testing.assert_array_equal(got, np.nextafter(x, y))
            got = run_elementwise(lambda v: op.ldexp(v, 3), [x], dtype, lanes)
            np.testing.assert_array_equal(got, np.ldexp(x, 3))
            got = run_elementwise(op.copysign, [x, y], dtype, lanes)
            np.testing.assert_array_equal(got, np.copysign(x, y))
    x = values("bfloat16")
    got = run_elementwise(op.nextafter, [x, np.full_like(x, 100)], "bfloat16", 4)
    assert (
        (got > x) & (got.astype("f") - x.astype("f") <= np.abs(x.astype("f")) / 64 + 1e-30)
    ).all()


def test_q_multiply_shift(run_elementwise: Any) -> None:
    x = np.array([1, -1, 100, -100, 123456, -(2**30), 7, 0], np.int32)
    y, q, s = 1395864371, 31, 2
    got = run_elementwise(lambda v: op.q_multiply_shift(v, y, q, s), [x], "int32", 1)
    want = [(int(v) * y + (1 << (q - s - 1))) >> (q - s) for v in x]
    np.testing.assert_array_equal(got, np.array(want, np.int64).astype(np.int32))


# -- if_then_else


def test_scalar_choice_reads_one_side_only(program: Any) -> None:
    p = program(("float32", 4), ("float32", 8))
    a, b = p.buffers
    i = E.Var("i", "int32")
    value = op.if_then_else(i < 4, E.BufferLoad(a, [i]) * 2.0, -1.0)
    p.compile(S.For(i, 0, 8, 0, S.BufferStore(b, value, [i])))(
        np.arange(4, dtype=np.float32), out := np.zeros(8, np.float32)
    )
    np.testing.assert_array_equal(out, [0, 2, 4, 6, -1, -1, -1, -1])


def test_vector_choice_reads_under_a_mask(program: Any) -> None:
    """The lanes that are not chosen lie outside of the page that the array ends at."""
    p = program(("float32", 4), ("int32", 8), ("float32", 8))
    a, idx, b = p.buffers
    at = E.Ramp(0, 1, 8)
    far = E.BufferLoad(idx, [at])
    lanes = E.LT(at, E.Broadcast(E.const(4), 8))
    ramp = op.if_then_else(lanes, E.BufferLoad(a, [at]), E.Broadcast(E.const(-1.0), 8))
    gathered = op.if_then_else(
        E.GE(far, E.Broadcast(E.const(0), 8)), E.BufferLoad(a, [far]), E.Broadcast(E.const(0.5), 8)
    )
    module = p.compile(S.BufferStore(b, ramp + gathered, [at]))
    order = np.array([3, -(2**31), 1, 2**31 - 1, 0, 0, -7, 2], np.int32)
    order[3] = -(2**30)
    x, out = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    module(x, order, out)
    ramp_want = np.array([0, 1, 2, 3, -1, -1, -1, -1])
    np.testing.assert_array_equal(out, ramp_want + np.where(order >= 0, x[order.clip(0, 3)], 0.5))


def test_vector_choice_guards_divisions_and_broadcast_loads(program: Any) -> None:
    p = program(("int32", 8), ("int32", 1), ("int32", 8))
    a, one, out_buffer = p.buffers
    at = E.Ramp(0, 1, 8)
    x = E.BufferLoad(a, [at])
    nonzero = E.NE(x, E.Broadcast(E.const(0), 8))
    single = E.Broadcast(E.BufferLoad(one, [E.Var("far", "int32")]), 8)
    far = as_a(E.BufferLoad, single.value).indices[0]
    quotient = E.Div(E.Broadcast(E.const(100), 8), x) + single
    value = op.if_then_else(nonzero, quotient, E.Broadcast(E.const(-1), 8))
    module = p.compile(S.BufferStore(out_buffer, value, [at]), far)
    data, out = np.array([0, 1, 2, 0, 7, -3, 0, 50], np.int32), np.zeros(8, np.int32)
    module(data, np.array([1000], np.int32), out, 0)
    want = [-1 if v == 0 else int(100 / v) + 1000 for v in data]
    np.testing.assert_array_equal(out, want)
    module(np.zeros(8, np.int32), np.array([1], np.int32), out, 1 << 28)  # reads nothing
    np.testing.assert_array_equal(out, np.full(8, -1))


def test_nested_vector_choices(program: Any) -> None:
    p = program(("float32", 8), ("float32", 8))
    at = E.Ramp(0, 1, 8)
    x = E.BufferLoad(p.buffers[0], [at])
    two, five = (E.Broadcast(E.const(k), 8) for k in (2, 5))
    zero = E.Broadcast(E.const(0.0), 8)
    inner = op.if_then_else(E.GE(at, two), x, zero - x)
    value = op.if_then_else(E.LT(at, five), inner, zero)
    data = np.arange(1, 9, dtype=np.float32)
    p.compile(S.BufferStore(p.buffers[1], value, [at]))(data, out := np.zeros(8, np.float32))
    np.testing.assert_array_equal(out, [-1, -2, 3, 4, 5, 0, 0, 0])


# -- functions of others


def test_external_functions_by_type(run_elementwise: Any) -> None:
    x = np.random.default_rng(8).uniform(-1, 1, 32)
    for lanes in (1, 8):
        got = run_elementwise(lambda v: op.call_pure_extern(v.dtype, "cosf", v),
                              [x.astype("f")], "float32", lanes)  # fmt: skip
        np.testing.assert_allclose(got, np.cos(x.astype("f")), rtol=1e-6)
        got = run_elementwise(
            lambda v: op.call_pure_extern(v.dtype, "atan2", v, v + v), [x], "float64", lanes
        )
        np.testing.assert_allclose(got, np.arctan2(x, x + x), rtol=1e-14)
    ints = np.arange(-16, 16, dtype=np.int32)
    got = run_elementwise(lambda v: op.call_pure_extern("int32", "abs", v), [ints], "int32", 1)
    np.testing.assert_array_equal(got, np.abs(ints))
    wide = np.arange(-16, 16, dtype=np.int64)
    got = run_elementwise(lambda v: op.call_pure_extern("int64", "labs", v), [wide], "int64", 1)
    np.testing.assert_array_equal(got, np.abs(wide))


def test_pointers_for_external_functions(program: Any) -> None:
    p = program(("float32", 16), ("float32", 16))
    a, b = p.buffers
    copy = op.call_extern("handle", "memcpy", b.access_ptr("w", offset=4), a.access_ptr("r"),
                          E.const(32, "int64"))  # fmt: skip
    fill = op.call_extern(
        "handle", "memset", op.address_of(E.BufferLoad(b, [E.const(12)])), 0, E.const(8, "int64")
    )
    x, out = np.arange(16, dtype=np.float32) + 1, np.full(16, -1, np.float32)
    p.compile(S.seq(S.Evaluate(copy), S.Evaluate(fill)))(x, out)
    np.testing.assert_array_equal(out, [-1] * 4 + list(range(1, 9)) + [0, 0, -1, -1])


def test_missing_external_function(program: Any) -> None:
    p = program(("float32", 1))
    value = op.call_pure_extern("float32", "no_such_function_anywhere", 1.0)
    module = p.compile(S.BufferStore(p.buffers[0], value, [0]))
    with pytest.raises(Exception, match="no_such_function_anywhere"):
        module(np.zeros(1, np.float32))


def test_llvm_intrinsics(run_elementwise: Any) -> None:
    x = values("float32")
    for lanes in (1, 8):
        got = run_elementwise(
            lambda v: op.call_llvm_pure_intrin(v.dtype, "llvm.fabs", E.const(1, "uint32"), v),
            [x],
            "float32",
            lanes,
        )
        np.testing.assert_array_equal(got, np.fabs(x))
    ints = np.arange(64, dtype=np.int32)
    got = run_elementwise(
        lambda v: op.call_llvm_pure_intrin("int32x4", "llvm.bswap.v4i32", v), [ints], "int32", 4
    )
    np.testing.assert_array_equal(got, ints.byteswap())


def intrinsic(program: Any, dtype: str, name: str, *args: Any, target: str = "llvm") -> None:
    p = program((parse(dtype).element, 64))
    value = op.call_llvm_pure_intrin(dtype, name, *args)
    lanes = parse(dtype).lanes
    p.compile(
        S.BufferStore(p.buffers[0], value, [E.Ramp(0, 1, lanes) if lanes > 1 else 0]), target=target
    )


def test_intrinsics_are_checked_before_llvm_sees_them(program: Any) -> None:
    one = E.const(1.0)
    with pytest.raises(CompileError, match=r"LLVM has no intrinsic llvm\.nosuch"):
        intrinsic(program, "float32", "llvm.nosuch", one)
    with pytest.raises(CompileError, match=r"LLVM cannot call llvm\.fma"):
        intrinsic(program, "float32", "llvm.fma", one)
    with pytest.raises(CompileError, match=r"starts with 'llvm\.'"):
        intrinsic(program, "float32", "fma", one)
    with pytest.raises(TargetError, match="is for aarch64; the target"):
        intrinsic(program, "float32", "llvm.aarch64.neon.fmax.f32", one, one)
    dots = [E.const(0, "int32x16"), E.const(0, "int8x64"), E.const(0, "int8x64")]
    with pytest.raises(TargetError, match=r"cannot run the intrinsic llvm\.x86\.avx512\.vpdpbusd"):
        intrinsic(
            program, "int32x16", "llvm.x86.avx512.vpdpbusd.512", *dots, target="llvm -mcpu=x86-64"
        )


def test_python_functions(program: Any) -> None:
    seen: list[Any] = []

    @register_func("test.codegen.record", override=True)
    def record(x: Any, n: int, f: float, s: str) -> int:
        seen.append((x.numpy().copy(), n, f, s))
        x.copyfrom(x.numpy() + 1)
        return n * 2

    p = program(("float32", 6), ("int32", 2))
    a = p.buffers[0].with_(shape=(2, 3))
    call = E.Call("int32", "tir.tvm_call_packed", (
        E.StringImm("test.codegen.record"),
        E.Call("handle", "tir.tvm_stack_make_array", (
            a.data, E.Call("handle", "tir.tvm_stack_make_shape", (E.const(2), E.const(3))),
            E.const(0), E.const(2), E.const(0.0), E.const(0),
        )),
        E.const(21), E.const(1.5), E.StringImm("text"),
    ))  # fmt: skip
    after = S.BufferStore(p.buffers[1], E.Cast("int32", E.BufferLoad(p.buffers[0], [0])), [1])
    body = S.seq(S.BufferStore(p.buffers[1], call, [0]), after)
    x, out = np.arange(6, dtype=np.float32), np.zeros(2, np.int32)
    p.compile(body)(x, out)
    assert out.tolist() == [42, 1]
    shown, n, f, s = seen[0]
    assert shown.shape == (2, 3) and (n, f, s) == (21, 1.5, "text")


def test_python_functions_that_raise(program: Any) -> None:
    @register_func("test.codegen.fail", override=True)
    def fail() -> None:
        raise KeyError("from Python")

    p = program(("int32", 1))
    body = S.seq(
        S.Evaluate(op.call_packed("test.codegen.fail")), S.BufferStore(p.buffers[0], 1, [0])
    )
    out = np.zeros(1, np.int32)
    with pytest.raises(KeyError, match="from Python"):
        p.compile(body)(out)
    assert out[0] == 0


def test_users_rules_come_first(run_elementwise: Any) -> None:
    x = np.random.default_rng(9).uniform(0, 1, 16).astype("f")
    register_intrin_lowering("tir.exp", "llvm", lambda c: c.args[0] * 3.0, level=99)
    try:
        got = run_elementwise(op.exp, [x], "float32", 4)
    finally:
        remove_rule("tir.exp", "llvm")
    np.testing.assert_array_equal(got, x * np.float32(3))
    np.testing.assert_allclose(run_elementwise(op.exp, [x], "float32", 4), np.exp(x), rtol=1e-6)


def test_rules_that_lead_nowhere(run_elementwise: Any) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(CompileError, match=r"no code for tir\.mystery of type float32"):
        run_elementwise(lambda v: E.Call(v.dtype, "tir.mystery", (v,)), [x], "float32", 1)
    register_intrin_lowering("tir.a", "llvm", lambda c: E.Call(c.dtype, "tir.b", c.args))
    register_intrin_lowering("tir.b", "llvm", lambda c: E.Call(c.dtype, "tir.a", c.args))
    try:
        with pytest.raises(CompileError, match="lead back to themselves"):
            run_elementwise(lambda v: E.Call(v.dtype, "tir.a", (v,)), [x], "float32", 1)
    finally:
        remove_rule("tir.a", "llvm")
        remove_rule("tir.b", "llvm")


def test_returning_early(program: Any) -> None:
    p = program(("int32", 4))
    i = E.Var("i", "int32")
    leave = S.IfThenElse(i.equal(2), S.Evaluate(op.ret(E.const(0))))
    p.compile(S.For(i, 0, 4, 0, S.seq(leave, S.BufferStore(p.buffers[0], 1, [i]))))(
        out := np.zeros(4, np.int32)
    )
    np.testing.assert_array_equal(out, [1, 1, 0, 0])


def test_dot_product_of_four(run_elementwise: Any) -> None:
    rng = np.random.default_rng(10)
    a = rng.integers(-128, 128, 4).astype(np.int8)
    b = rng.integers(-128, 128, 4).astype(np.int8)
    buffers = [decl_buffer((4,), "int8", n) for n in "ab"]
    del buffers

    def build(x: Any, y: Any) -> Any:
        return E.Broadcast(op.dp4a(x, y, 5), 4)

    got = run_elementwise(build, [a, b], "int32", 4)
    assert (got == int(a.astype(int) @ b.astype(int)) + 5).all()


def test_c_functions_do_not_take_narrow_floats(run_elementwise: Any) -> None:
    x = values("float16")
    with pytest.raises(CompileError, match="cosf is called with float16"):
        run_elementwise(lambda v: op.call_pure_extern("float16", "cosf", v), [x], "float16", 1)


def test_bools_and_small_integers_for_c(run_elementwise: Any) -> None:
    x = np.arange(-8, 8, dtype=np.int8)
    got = run_elementwise(lambda v: op.call_pure_extern("int32", "abs", v), [x], "int32", 1)
    np.testing.assert_array_equal(got, np.abs(x.astype(np.int32)))
    letters = np.frombuffer(b"aZ09_xY ", np.uint8).copy()
    got = run_elementwise(
        lambda v: E.NE(op.call_pure_extern("int32", "isalpha", v), E.const(0)), [letters], "bool", 1
    )
    np.testing.assert_array_equal(got, [chr(c).isalpha() for c in letters])


def test_packed_results_of_all_kinds(program: Any) -> None:
    @register_func("test.codegen.kinds", override=True)
    def kinds(flag: int, handle: int, small: int) -> float:
        assert flag == 1 and handle != 0 and small == -3
        return 2.5

    p = program(("float32", 1))
    call = E.Call("float32", "tir.tvm_call_packed", (
        E.StringImm("test.codegen.kinds"), E.const(True), p.buffers[0].access_ptr("r"),
        E.const(-3, "int8"),
    ))  # fmt: skip
    p.compile(S.BufferStore(p.buffers[0], call, [0]))(out := np.zeros(1, np.float32))
    assert out[0] == 2.5
    two = E.Broadcast(E.const(1), 2)
    with pytest.raises(CompileError, match="takes scalars and arrays, not int32x2"):
        p.compile(S.Evaluate(op.call_packed("test.codegen.kinds", two)))


def test_null_pointers(program: Any) -> None:
    p = program(("int32", 2))
    null = E.Call("handle", "tir.reinterpret", (E.const(0, "uint64"),))
    test = E.Call("bool", "tir.isnullptr", (null,))
    other = E.Call("bool", "tir.isnullptr", (p.buffers[0].data,))
    stores = [
        S.BufferStore(p.buffers[0], E.Cast("int32", v), [k]) for k, v in enumerate((test, other))
    ]
    p.compile(S.seq(stores))(out := np.full(2, 9, np.int32))
    assert out.tolist() == [1, 0]


def test_effects_are_not_run_under_a_mask(program: Any) -> None:
    p = program(("int32", 8), ("int32", 8))
    at = E.Ramp(0, 1, 8)
    x = E.BufferLoad(p.buffers[0], [at])
    impure = E.Broadcast(op.call_extern("int32", "rand"), 8)
    value = op.if_then_else(E.GT(x, E.Broadcast(E.const(0), 8)), impure, x)
    with pytest.raises(CompileError, match="rand under a condition that differs between lanes"):
        p.compile(S.BufferStore(p.buffers[1], value, [at]))


def test_q_multiply_shift_per_axis(run_elementwise: Any) -> None:
    x = np.array([3, -70, 1 << 20, -1], np.int32)

    def build(v: Any) -> Any:
        args = (v, E.const(1395864371), E.const(1), E.const(4), E.const(31), E.const(1), E.const(1))
        return E.Call("int32", "tir.q_multiply_shift_per_axis", args)

    got = run_elementwise(build, [x], "int32", 1)
    want = [(int(v) * 2 * 1395864371 + (1 << 34)) >> 35 for v in x]
    np.testing.assert_array_equal(got, want)
