"""Mathematical functions in CUDA, OpenCL and C: which function they become, how exact it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.device_kit import (
    Case,
    case,
    compile_everywhere,
    run_c,
    run_opencl,
    same,
    source_of,
)
from tilewright.base.dtype import parse
from tilewright.loopir import expr as E

# arguments on which a function is tested
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-20, 20), "exp2": (-20, 20), "exp10": (-6, 6), "expm1": (-6, 6),
    "log": (0.01, 50), "log2": (0.01, 50),
    "log10": (0.01, 50), "log1p": (-0.5, 20), "sin": (-10, 10), "cos": (-10, 10),
    "tan": (-1.4, 1.4), "sinh": (-5, 5), "cosh": (-5, 5), "tanh": (-5, 5),
    "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9), "asinh": (-9, 9), "acosh": (1.1, 9),
    "atanh": (-0.9, 0.9),
    "erf": (-3, 3), "sqrt": (0, 100), "rsqrt": (0.01, 100), "cbrt": (-9, 9), "sigmoid": (-8, 8),
}  # fmt: skip
BINARY = {"atan2": (-5, 5), "hypot": (-9, 9), "pow": (0.1, 4), "fmod": (0.5, 9)}
FLOATS = ("float16", "bfloat16", "float32", "float64")
# OpenCL's bounds for its functions (table 37 of the specification) are up to 16 ulp; 1 more for the
# formulas around them
ULP = 17


def arguments(low: float, high: float, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(low, high, 64).astype(parse(dtype).numpy)


def math_cases(lanes: int, dtypes: tuple[str, ...] = FLOATS) -> list[Case]:
    cases = []
    for d in dtypes:
        for name, (low, high) in RANGES.items():
            build = lambda x, name=name: E.Call(x.dtype, f"tir.{name}", (x,))  # noqa: E731
            cases.append(case(f"{name}_{d}", build, [arguments(low, high, d, 1)], d, lanes))
        for name, (low, high) in BINARY.items():
            pair = lambda x, y, name=name: E.Call(x.dtype, f"tir.{name}", (x, y))  # noqa: E731
            inputs = [arguments(low, high, d, seed) for seed in (1, 2)]
            cases.append(case(f"{name}_{d}", pair, inputs, d, lanes))
        fma = lambda x, y, z: E.Call(x.dtype, "tir.fma", (x, y, z))  # noqa: E731
        inputs = [arguments(-2, 2, d, seed) for seed in (1, 2, 3)]
        cases.append(case(f"fma_{d}", fma, inputs, d, lanes))
    return cases


def check(cases: list[Case], got: dict[str, np.ndarray]) -> None:
    for c in cases:
        want = c.expected()
        if want.dtype.name == "bfloat16":
            wide = got[c.name].astype(np.float32), want.astype(np.float32)
            np.testing.assert_allclose(*wide, rtol=2**-7, err_msg=c.name)
        else:
            same(got[c.name], want, ULP if want.itemsize > 2 else 1)


@pytest.mark.parametrize("lanes", [1, 4])
def test_opencl_functions(lanes: int) -> None:
    cases = math_cases(lanes, FLOATS if lanes == 1 else ("float16", "float32"))
    check(cases, run_opencl(cases))


def test_c_functions(tmp_path: Path) -> None:
    cases = math_cases(1)
    check(cases, run_c(cases, tmp_path))


def test_cuda_functions_compile() -> None:
    compile_everywhere(source_of(math_cases(1), "cuda"))


@pytest.mark.parametrize(
    ("target", "dtype", "name", "text"),
    [
        ("cuda", "float32", "exp", "__expf("),
        ("cuda", "float32", "log", "__logf("),
        ("cuda", "float32", "log2", "__log2f("),
        ("cuda", "float32", "sin", " sinf("),
        ("cuda", "float32", "tan", " tanf("),
        ("cuda", "float32", "round", " roundf("),
        ("cuda", "float32", "rsqrt", " rsqrtf("),
        ("cuda", "float64", "exp", " exp("),
        ("cuda", "float16", "exp", " hexp("),
        ("cuda", "float16", "sqrt", " hsqrt("),
        ("cuda", "float16", "nearbyint", " hrint("),
        ("cuda", "float16", "fabs", " __habs("),
        ("cuda", "bfloat16", "exp", "__expf("),
        ("opencl", "float32", "exp", " exp("),
        ("opencl", "float64", "log10", " log10("),
        ("opencl", "float32", "nearbyint", " rint("),
        ("opencl", "float16", "tanh", "tanh("),
        ("c", "float32", "exp", " expf("),
        ("c", "float64", "tanh", " tanh("),
        ("c", "float32", "exp10", " powf(10.0f, "),
    ],
)
def test_what_a_function_is_called(target: str, dtype: str, name: str, text: str) -> None:
    build = lambda x: E.Call(x.dtype, f"tir.{name}", (x,))  # noqa: E731
    c = case("f", build, [np.ones(8, parse(dtype).numpy)], dtype)
    if target == "c":
        c.func = c.loop
    assert text in source_of([c], target).split("f(", 1)[1]


def test_fixed_point_products_of_all_targets(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2))

    def build(a: Any, b: Any) -> Any:
        return E.Call("int32", "tir.q_multiply_shift", (a, b, E.const(31), E.const(-2)))

    cases = [case("q", build, [x, y], "int32")]
    for got in (run_opencl(cases), run_c(cases, tmp_path)):
        same(got["q"], cases[0].expected())
    compile_everywhere(source_of(cases, "cuda"))


def test_integer_fma_and_dot_products(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-50, 50, 64).astype(np.int32) for _ in range(3))
    fma = case("f", lambda a, b, c: E.Call("int32", "tir.fma", (a, b, c)), [x, y, z], "int32")
    words = [rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2)]

    def dot(a: Any, b: Any, c: Any) -> Any:
        lanes = [E.Call("int8x4", "tir.reinterpret", (v,)) for v in (a, b)]
        return E.Call("int32", "tir.dp4a", (*lanes, c))

    dp4a = case("dp4a", dot, [*words, z], "int32")
    bits = words[0].view(np.int8).reshape(-1, 4).astype(np.int32)
    want = (bits * words[1].view(np.int8).reshape(-1, 4)).sum(axis=1) + z
    got = run_opencl([fma, dp4a])
    same(got["dp4a"], want.astype(np.int32))
    same(got["f"], x * y + z)
    text = source_of([fma, dp4a], "cuda")
    assert "__dp4a(x0[" in text, "four lanes in an int need no unpacking"
    compile_everywhere(text)
    same(run_c([fma], tmp_path)["f"], x * y + z)
