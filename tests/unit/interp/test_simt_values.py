"""What expressions give, against NumPy: types, divisions, vectors, functions by name."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, zeros
from tilewright import tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import register_simt, run_kernel
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import op as O
from tilewright.loopir.calls import call_extern, call_pure_extern, dp4a, fma


def compute(make, *inputs, dtype=None, scalars=None, values=()):
    """make(a, b, ...) of one element of each input, for each thread."""
    names = "ABCDEF"[: len(inputs)]
    n = len(inputs[0])
    kind = dtype or str(inputs[0].dtype)
    arrays = {name: (str(x.dtype), n) for name, x in zip(names, inputs)}

    def write(ib, k):
        args = [getattr(k, name)[k.tx] for name in names]
        args += [getattr(k, name) for name in scalars or {}]
        k.R[k.tx] = make(*args)

    out = zeros(n, kind)
    kernel = make_kernel(write, {**arrays, "R": (kind, n)}, (n,), scalars=scalars)
    run_kernel(kernel, None, [*inputs, out, *values])
    return out


INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap(dtype):
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, 3, 0, limits.max - 1], dtype)
    b = np.array([limits.max, limits.max, 5, 1, 7], dtype)
    with np.errstate(all="ignore"):
        for make in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y):
            np.testing.assert_array_equal(compute(make, a, b), make(a, b))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_divisions(dtype):
    x = np.array([7, -7, 7, -7, 8, -8, 0, 5, -9, 100], "int64")
    y = np.array([2, 2, -2, -2, 4, -4, 3, 5, 4, -7], "int64")
    if dtype.startswith("u"):
        x, y = abs(x), abs(y)
    a, b = x.astype(dtype), y.astype(dtype)
    np.testing.assert_array_equal(compute(tir.floordiv, a, b), x // y)
    np.testing.assert_array_equal(compute(tir.floormod, a, b), x % y)
    trunc = [math.trunc(p / q) for p, q in zip(x, y)]
    np.testing.assert_array_equal(compute(tir.truncdiv, a, b), trunc)
    np.testing.assert_array_equal(compute(tir.truncmod, a, b), x - np.array(trunc) * y)
    for d in (1, 3, 8):
        np.testing.assert_array_equal(
            compute(lambda p, d=d: tir.floordiv(p, tir.const(d, p.dtype)), a), x // d
        )
        np.testing.assert_array_equal(
            compute(lambda p, d=d: tir.floormod(p, tir.const(d, p.dtype)), a), x % d
        )


def test_division_by_an_index_of_zero_in_lanes_that_run():
    def write(guarded):
        def body(ib, k):
            q = tir.floordiv(k.A[k.tx], k.tx)
            if guarded:
                q = tir.if_then_else(k.tx != 0, q, tir.const(-1, "int32"))
            k.A[k.tx] = q

        return make_kernel(body, {"A": ("int32", 32)})

    (found,) = problems(write(False), numbers(32, "int32")).findings
    assert found.kind == "division by zero" and found.threads[0].thread == (0, 0, 0)
    a = numbers(32, "int32")
    run_kernel(write(True), None, [a])
    assert a[0] == -1 and a[5] == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_float_arithmetic_rounds_once(dtype):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(3)
    a, b = [rng.uniform(-3, 3, 64).astype(kind) for _ in range(2)]
    for make in (
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x / y,
    ):
        got = compute(make, a, b, dtype=dtype)
        np.testing.assert_array_equal(got.astype("float64"), make(a, b).astype("float64"))
    low = compute(tir.min, a, b, dtype=dtype).astype("float64")
    np.testing.assert_array_equal(low, np.minimum(a.astype("float64"), b.astype("float64")))
    root = compute(lambda x, y: tir.sqrt(tir.abs(x)), a, b, dtype=dtype)
    exact = np.sqrt(np.abs(a.astype("float64"))).astype(kind)
    np.testing.assert_array_equal(root.astype("float64"), exact.astype("float64"))


def test_fma_rounds_once():
    a = np.array([1 + 2**-12, 3, -(1 + 2**-23), 1e30, np.inf], "float32")
    b = np.array([1 + 2**-12, 5, 1 - 2**-24, 1e30, 1], "float32")
    c = np.array([2**-50, 7, 1, -np.inf, 1], "float32")
    got = compute(fma, a, b, c)
    assert got[0] == np.float32(1 + 2**-11 + 2**-23)  # a b is half way, c decides
    assert got[1] == 22 and got[3] == -np.inf and got[4] == np.inf
    assert got[2] == np.float32((-(1 + 2**-23)) * (1 - 2**-24) + 1)


def test_conversions():
    x = np.array([1.9, -1.9, 300, -300, np.nan, np.inf, 0.5, 0], "float32")
    small = compute(lambda v: v.astype("int8"), x, dtype="int8")
    np.testing.assert_array_equal(small, [1, -1, 127, -128, 0, 127, 0, 0])
    flags = compute(lambda v: v.astype("bool").astype("int32"), x, dtype="int32")
    np.testing.assert_array_equal(flags, [1, 1, 1, 1, 1, 1, 1, 0])
    n = np.array([300, -1, 127, 128], "int32")
    np.testing.assert_array_equal(
        compute(lambda v: v.astype("int8"), n, dtype="int8"), [44, -1, 127, -128]
    )
    bits = compute(lambda v: O.reinterpret("float32", v), np.array([0x3F800000], "int32"),
                   dtype="float32")  # fmt: skip
    assert bits[0] == 1.0


def test_scalars_of_the_launch():
    got = compute(lambda a, n, f: a * f + n.astype("float32"), numbers(8),
                  scalars={"n": "int32", "f": "float32"}, values=(3, 0.5))  # fmt: skip
    np.testing.assert_array_equal(got, numbers(8) * 0.5 + 3)


def test_bits():
    a, b = np.array([12, -7, 255, 1], "int32"), np.array([10, 3, 4, 31], "int32")
    np.testing.assert_array_equal(compute(tir.bitwise_xor, a, b), a ^ b)
    np.testing.assert_array_equal(compute(tir.bitwise_and, a, b), a & b)
    np.testing.assert_array_equal(compute(tir.shift_left, a, b), a << b)
    np.testing.assert_array_equal(compute(tir.shift_right, a, b), a >> b)
    np.testing.assert_array_equal(compute(tir.popcount, a), [2, 30, 8, 1])
    np.testing.assert_array_equal(compute(lambda x: tir.clz(x), a), [28, 0, 24, 31])


def test_math_functions_by_all_their_names():
    x = np.linspace(0.1, 2, 40, dtype="float32")
    expected = np.exp(x.astype("float64")).astype("float32")
    np.testing.assert_array_equal(compute(tir.exp, x), expected)
    for name in ("expf", "__expf", "exp", "native_exp", "half_exp", "hexp"):
        got = compute(lambda v, name=name: call_pure_extern("float32", name, v), x)
        np.testing.assert_array_equal(got, expected)
    for name, f in (
        ("rsqrtf", lambda v: 1 / np.sqrt(v)),
        ("__logf", np.log),
        ("tanhf", np.tanh),
        ("rintf", np.rint),
        ("__fsqrt_rn", np.sqrt),
        ("fabsf", np.abs),
        ("native_recip", lambda v: 1 / v),
        ("__saturatef", lambda v: np.clip(v, 0, 1)),
    ):
        got = compute(lambda v, name=name: call_pure_extern("float32", name, v), x)
        np.testing.assert_allclose(got, f(x.astype("float64")), rtol=1e-6)
    powers = compute(lambda v: call_pure_extern("float32", "__powf", v, v), x)
    np.testing.assert_allclose(powers, x**x, rtol=1e-5)
    largest = compute(lambda v: call_extern("float32", "fmaxf", v, tir.const(1.0, "float32")), x)
    np.testing.assert_array_equal(largest, np.maximum(x, 1))


def word(x):
    return int(np.asarray(x).astype("int64").item()) & 0xFFFFFFFF


INTEGER_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {  # of Python's integers
    "__mulhi": (2, lambda a, b: a * b >> 32),
    "__mul24": (2, lambda a, b: (a << 40) * (b << 40) >> 80 if abs(a) < 1 << 23 > abs(b) else None),
    "__ffs": (1, lambda a: (a & -a).bit_length()),
    "__brev": (1, lambda a: int(f"{a & 0xFFFFFFFF:032b}"[::-1], 2)),
    "__funnelshift_l": (3, lambda a, b, c: (word(b) << 32 | word(a)) << (c & 31) >> 32),
    "__funnelshift_r": (3, lambda a, b, c: (word(b) << 32 | word(a)) >> (c & 31)),
    "__funnelshift_rc": (3, lambda a, b, c: (word(b) << 32 | word(a)) >> min(word(c), 32)),
    "rotate": (2, lambda a, b: word(a) << b % 32 | word(a) >> -b % 32),
}


@pytest.mark.parametrize("name", INTEGER_FUNCTIONS)
def test_integer_functions_by_name(name):
    count, want = INTEGER_FUNCTIONS[name]
    edges = [0, 1, -1, 5, 24, 31, 32, 33, 12345, -77777, 2**31 - 1, -(2**31), 0x12345678]
    given = [np.array(np.roll(edges, 5 * i), "int32") for i in range(count)]
    got = compute(lambda *v: call_pure_extern("int32", name, *v), *given)
    for result, values in zip(got, zip(*[x.tolist() for x in given])):
        expected = want(*values)
        assert expected is None or word(result) == expected & 0xFFFFFFFF, values


def test_bits_and_bytes_by_name():
    a, b = np.array([0x44332211, -1], "int32"), np.array([-0x77889956, 7], "int32")
    for selector, want in ((0x3210, a), (0x7654, b), (0x0123, [0x11223344, -1])):
        chosen = lambda x, y, s=selector: call_pure_extern("int32", "__byte_perm", x, y, s)  # noqa: E731
        np.testing.assert_array_equal(compute(chosen, a, b), want)
    sign = compute(lambda x, y: call_pure_extern("int32", "__byte_perm", x, y, 0xF8), a, b)
    assert word(sign[0]) & 0xFFFF == 0xFF00
    floats = np.array([1.5, -2.5, np.nan, 3e9, -3e9], "float32")
    ways = {"n": [2, -2, 0], "z": [1, -2, 0], "d": [1, -3, 0], "u": [2, -2, 0]}
    for way, want in ways.items():
        name = f"__float2int_r{way}"
        got = compute(lambda v, n=name: call_pure_extern("int32", n, v), floats, dtype="int32")
        np.testing.assert_array_equal(got, [*want, 2**31 - 1, -(2**31)])
    bits = compute(lambda v: call_pure_extern("int32", "__float_as_int", v), floats, dtype="int32")
    np.testing.assert_array_equal(bits, floats.view("int32"))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("packed", [False, True], ids=["vectors", "words"])
def test_products_of_four_bytes_by_name(dtype, packed):
    wide = dtype.replace("8", "32")

    def write(ib, k):
        lanes = tir.Ramp(k.tx * 4, 1, 4)
        x, y = k.A[lanes], k.B[lanes]
        if packed:
            x, y = O.reinterpret(wide, x), O.reinterpret(wide, y)
        k.R[k.tx] = call_pure_extern(wide, "__dp4a", x, y, tir.const(9, wide))

    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    a, b = (rng.integers(limits.min, limits.max, 32, dtype, True) for _ in range(2))
    out = zeros(8, wide)
    arrays = {"A": (dtype, 32), "B": (dtype, 32), "R": (wide, 8)}
    run_kernel(make_kernel(write, arrays, (8,)), None, [a, b, out])
    want = (a.astype(wide) * b.astype(wide)).reshape(8, 4).sum(axis=1) + 9
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    ("source", "target"),
    [("int8x4", "int32"), ("int32", "uint8x4"), ("float16x2", "int32"), ("int64", "int16x4"),
     ("int8x8", "int16x4"), ("int16x4", "uint8x8")],
)  # fmt: skip
def test_bits_of_vectors_as_others(source, target):
    """In simt and in the interpreter of programs."""
    (s, m), (t, n) = (
        (d.partition("x")[0], int(d.partition("x")[2] or 1)) for d in (source, target)
    )

    def store(read, i):
        at = tir.Ramp(i * m, 1, m) if m > 1 else i
        return (tir.Ramp(i * n, 1, n) if n > 1 else i), O.reinterpret(target, read[at])

    def write(ib, k):
        at, value = store(k.A, k.tx)
        k.B[at] = value

    given = np.random.default_rng(1).integers(-100, 100, 8 * m).astype(s)
    out, arrays = zeros(8 * n, t), {"A": (s, 8 * m), "B": (t, 8 * n)}
    run_kernel(make_kernel(write, arrays, (8,)), None, [given, out])
    np.testing.assert_array_equal(out, given.view(t))
    ib = tir.ir_builder.create()
    a, b = (tir.decl_buffer((size,), d, name) for name, (d, size) in arrays.items())
    with ib.for_range(0, 8) as i:
        at, value = store(ib.buffer_ptr(a), i)
        ib.buffer_ptr(b)[at] = value
    params = [E.Var(name, "handle") for name in arrays]
    func = tir.PrimFunc(params, ib.get(), None, dict(zip(params, (a, b))))
    out[:] = 0
    tir_eval(func, given, out)
    np.testing.assert_array_equal(out, given.view(t))


def test_functions_of_users(monkeypatch):
    monkeypatch.setattr("tilewright.interp.simt_extern._table", {})
    a = numbers(8)

    def call(v):
        return call_pure_extern("float32", "my_clip", v, tir.const(4.0, "float32"))

    with pytest.raises(TilewrightError, match="simt does not know the function 'my_clip' in"):
        compute(call, a)
    assert register_simt("my_clip", np.minimum) is np.minimum
    np.testing.assert_array_equal(compute(call, a), np.minimum(a, 4))

    @register_simt("tir.my_op")
    def my_op(x):
        return x.astype("float64") / 3

    got = compute(lambda v: tir.call_intrin("float32", "tir.my_op", v), a)
    np.testing.assert_array_equal(got, (a / np.float64(3)).astype("float32"))
    register_simt("expf", lambda x: x * 0)  # users' meanings come first
    assert not compute(lambda v: call_pure_extern("float32", "expf", v), a).any()
    with pytest.raises(TilewrightError, match="takes the name"):
        register_simt(my_op)
    with pytest.raises(TilewrightError, match="takes a function, got 3"):
        register_simt("f", 3)  # type: ignore[arg-type]


def test_vectors():
    def write(ib, k):
        lanes = tir.Ramp(k.tx * 4, 1, 4)
        a = k.A[lanes]
        s = ib.allocate("float32", (4,), "s", scope="local")
        s[tir.Ramp(0, 1, 4)] = a * a + tir.Broadcast(tir.const(1.0, "float32"), 4)
        v = s[tir.Ramp(3, -1, 4)]
        k.B[lanes] = tir.Select(tir.LT(a, tir.Broadcast(tir.const(9.0, "float32"), 4)), v, -v)
        k.C[k.tx] = tir.Shuffle([v, a], [1]) + tir.Shuffle([v, a], [6])
        halves = O.vectorcombine("float32x4", O.vectorhigh("float32x2", a),
                                 O.vectorlow("float32x2", a))  # fmt: skip
        k.D[lanes] = halves

    a, b, c, d = numbers(32), zeros(32), zeros(8), zeros(32)
    arrays = {"A": ("float32", 32), "B": ("float32", 32), "C": ("float32", 8), "D": ("float32", 32)}
    run_kernel(make_kernel(write, arrays, (8,)), None, [a, b, c, d])
    m = a.reshape(8, 4)
    v = (m * m + 1)[:, ::-1]
    np.testing.assert_array_equal(b.reshape(8, 4), np.where(m < 9, v, -v))
    np.testing.assert_array_equal(c, v[:, 1] + m[:, 2])
    np.testing.assert_array_equal(d.reshape(8, 4), m[:, [2, 3, 0, 1]])


def test_buffers_of_vectors():
    def write(ib, k):
        shared = ib.allocate("float32x4", (8,), "s", scope="shared")
        shared[k.tx] = k.A[k.tx] * tir.const(2.0, "float32x4")
        data = shared.asobject().data
        flat = tir.decl_buffer((32,), "float32", data=data, scope="shared", name="f")
        v = ib.buffer_ptr(flat)
        k.B[k.tx] = shared[k.tx]
        k.C[k.tx] = v[k.tx * 4 + 1]

    a, b, c = numbers(32), zeros(32), zeros(8)
    arrays = {"A": ("float32x4", 8), "B": ("float32x4", 8), "C": ("float32", 8)}
    kernel = make_kernel(write, arrays, (8,))
    run_kernel(kernel, None, [a, b, c])
    np.testing.assert_array_equal(b, a * 2)
    np.testing.assert_array_equal(c, a[1::4] * 2)
    assert kinds(kernel, a[:28], b, c) == ["out of bounds"]


def test_dp4a():
    a = np.array([[1, -2, 3, 4], [127, 127, -128, 5]], "int8")
    b = np.array([[5, 6, -7, 8], [127, -128, -128, 1]], "int8")

    def write(ib, k):
        lanes = tir.Ramp(k.tx * 4, 1, 4)
        k.R[k.tx] = dp4a(k.A[lanes], k.B[lanes], k.R[k.tx])

    r = np.array([100, -1], "int32")
    kernel = make_kernel(write, {"A": ("int8", 8), "B": ("int8", 8), "R": ("int32", 2)}, (2,))
    run_kernel(kernel, None, [a.reshape(-1), b.reshape(-1), r])
    np.testing.assert_array_equal(r, (a.astype(int) * b).sum(axis=1) + [100, -1])


def test_let_and_conditional_values():
    x = E.Var("x", "int32")

    def make(a):
        twice = E.Let(x, a * 2, x + x * x)
        return tir.if_then_else(a > 3, twice, tir.if_then_else(a > 1, -twice, a))

    a = numbers(6, "int32")
    expected = [n if n < 2 else (-1 if n < 4 else 1) * (2 * n + 4 * n * n) for n in range(1, 7)]
    np.testing.assert_array_equal(compute(make, a), expected)


def test_functions_without_a_meaning():
    with pytest.raises(TilewrightError, match=r"does not know the function 'tir\.unheard'"):
        compute(lambda v: tir.call_intrin("float32", "tir.unheard", v), numbers(4))
    with pytest.raises(TilewrightError, match=r"as the device passes leave them, without tir\.ret"):
        compute(lambda v: tir.call_intrin("float32", "tir.ret", v), numbers(4))


def test_powers_of_two_as_the_instruction_makes_them() -> None:
    a = np.array([-np.inf, -149.0, -127.0, -126.0, 0.5, 128.0], np.float32)
    found = compute(lambda v: call_pure_extern("float32", "tw_exp2", v), a)
    assert found.tolist() == [0, 0, 0, np.float32(2.0**-126), np.float32(2**0.5), np.inf]
