"""Division of data by zero and of the smallest value by -1, on every machine; see SEMANTICS.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.codegen.device_kit import (
    Case,
    case,
    compile_everywhere,
    run_c,
    run_opencl,
    source_of,
)
from tilewright import te, tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import run_kernel
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import expr as E

TYPES = [f"{code}{bits}" for bits in (8, 16, 32, 64) for code in ("int", "uint")]
KINDS = (E.FloorDiv, E.FloorMod, E.Div, E.Mod)
LANES = (1, 4)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors at the edges, each with each."""
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, 100]
    edges += [-1, -2, -7] if info.min else [128, 200, 255]
    a, b = np.meshgrid(np.array(edges, dtype), np.array(edges, dtype))
    return a.ravel(), b.ravel()


def wanted(kind: type, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By Python's integers: what is undefined in C is zero, and a quotient wraps."""
    bits, results = a.itemsize * 8, []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if y == 0:
            results.append(0)
            continue
        down = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        quotient = x // y if kind in (E.FloorDiv, E.FloorMod) else down
        result = quotient if kind in (E.FloorDiv, E.Div) else x - quotient * y
        results.append(result % (1 << bits))
    return np.array(results, f"uint{bits}").view(a.dtype)


def cases(lanes: int) -> list[Case]:
    made = []
    for dtype in TYPES:
        for kind in KINDS:
            name = f"{kind.__name__.lower()}_{dtype}_{lanes}"
            made.append(case(name, kind, pairs(dtype), dtype, lanes))
    return made


def check(made: list[Case], results: dict[str, np.ndarray]) -> None:
    for c in made:
        kind = next(k for k in KINDS if c.name.startswith(k.__name__.lower() + "_"))
        want = wanted(kind, c.arrays[0], c.arrays[1])
        np.testing.assert_array_equal(results[c.name], want, err_msg=c.name)


@pytest.mark.parametrize("lanes", LANES)
def test_interpreters(lanes: int) -> None:
    made = cases(lanes)
    check(made, {c.name: c.expected() for c in made})
    results = {}
    for c in made:
        results[c.name] = np.zeros_like(c.arrays[-1])
        run_kernel(c.func, None, [*c.arrays[:-1], results[c.name]])
    check(made, results)


@pytest.mark.parametrize("lanes", LANES)
def test_llvm(lanes: int) -> None:
    made, results = cases(lanes), {}
    for c in made:
        results[c.name] = np.zeros_like(c.arrays[-1])
        tw.build(c.loop, target="llvm")(*c.arrays[:-1], results[c.name])
    check(made, results)


@pytest.mark.parametrize("lanes", LANES)
def test_c(lanes: int, tmp_path: Path) -> None:
    made = cases(lanes)
    check(made, run_c(made, tmp_path))


@pytest.mark.parametrize("lanes", LANES)
def test_opencl(lanes: int) -> None:
    made = cases(lanes)
    check(made, run_opencl(made))


@pytest.mark.parametrize("lanes", LANES)
def test_cuda_compiles(lanes: int) -> None:
    compile_everywhere(source_of(cases(lanes), "cuda"))


@pytest.mark.parametrize("divisor", (0, -1))
@pytest.mark.parametrize("dtype", ("int8", "int32", "int64"))
def test_constants_that_turn_up(dtype: str, divisor: int, tmp_path: Path) -> None:
    """A divisor of data that becomes a constant."""
    a, b = pairs(dtype)
    zero, by = E.const(0, dtype), E.const(divisor, dtype)
    for kind in KINDS:
        made = [case("by", lambda x, y, k=kind: k(x, E.Mul(y, zero) + by), (a, b), dtype)]
        want = wanted(kind, a, np.full_like(b, divisor))
        out = np.zeros_like(a)
        tw.build(made[0].loop, target="llvm")(a, b, out)
        folder = tmp_path / kind.__name__
        folder.mkdir()
        for got in (out, made[0].expected(), run_c(made, folder)["by"]):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ("truncdiv", "truncmod", "floordiv", "floormod"))
def test_tensors_and_vectors(kind: str) -> None:
    a, b = pairs("int32")
    A, B = (te.placeholder(a.shape, "int32", name=n) for n in "AB")
    C = te.compute(a.shape, lambda i: getattr(te, kind)(A[i], B[i]), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[0], 8)[1])
    c = np.zeros_like(a)
    tw.build(s, [A, B, C], "llvm")(a, b, c)
    np.testing.assert_array_equal(c, te_eval([C], {A: a, B: b})[0])
    node = {"truncdiv": E.Div, "truncmod": E.Mod, "floordiv": E.FloorDiv, "floormod": E.FloorMod}
    np.testing.assert_array_equal(c, wanted(node[kind], a, b))


@pytest.mark.parametrize("target", ("llvm", "opencl"))
def test_a_scalar_argument_may_be_zero(target: str) -> None:
    """Such a call is refused; without that check it ends no process, nor where what divides has got
    a name."""
    dev = tw.device(target, 0)
    if not dev.exist:
        pytest.skip("no OpenCL device")
    d = te.var("d")
    A = te.placeholder((4,), "int32", name="A")
    B = te.compute((4,), lambda i: te.floordiv(A[i], d + 1) + te.truncmod(A[i], d + 1), name="B")
    s = te.create_schedule(B.op)
    if target == "opencl":
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    a = tw.nd.array(np.array([-(2**31), -1, 0, 9], "int32"), dev)
    b = tw.nd.array(np.zeros(4, "int32"), dev)
    with tw.transform.PassContext(config={"tir.disable_assert": True}):
        f = tw.build(s, [A, d, B], target)
    for by, want in ((0, [0, 0, 0, 0]), (-1, [-(2**31), 1, 0, -9]), (4, [-(2**29), -2, 0, 3])):
        f(a, by - 1, b)
        np.testing.assert_array_equal(b.numpy(), want)
    with pytest.raises(TilewrightError, match="B makes a division by zero"):
        tw.build(s, [A, d, B], target)(a, -1, b)


def test_data_may_be_divided_by_a_size_of_zero() -> None:
    n = te.var("n")
    A, B = te.placeholder((4,), "int32", name="A"), te.placeholder((n,), name="B")
    C = te.compute((4,), lambda i: te.floordiv(A[i], n) + te.truncmod(A[i], n), name="C")
    with tw.transform.PassContext(config={"tir.disable_assert": True}):
        f = tw.build(te.create_schedule(C.op), [A, B, C], "llvm")
    c = np.ones(4, "int32")
    f(np.arange(4, dtype="int32"), np.zeros(0, "float32"), c)
    np.testing.assert_array_equal(c, [0, 0, 0, 0])


def test_sizes_cost_nothing() -> None:
    """Indices are divided by sizes and loop variables as by any number above zero."""
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), "float32", name="A")
    B = te.compute((n * m,), lambda i: A[i // m, i % m], name="B")
    f = tw.build(te.create_schedule(B.op), [A, B], "llvm")
    text = f.get_source("ll")
    assert "sdiv" in text and "mul i32" not in text
    for line in text.splitlines():
        assert "icmp ult i32" not in line
    any_value: Any = tir.floordiv(A.shape[0], 3)
    assert isinstance(any_value, E.FloorDiv)
