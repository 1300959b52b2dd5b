"""Operations and conversions in CUDA, OpenCL and C source against the interpreter of the loop IR.

OpenCL runs on whatever device there is (PoCL), C through a C compiler; CUDA is run as C++ and
compiled for three architectures without warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda_text import Program
from tests.unit.codegen.device_kit import (
    Case,
    case,
    compile_everywhere,
    run_c,
    run_opencl,
    same,
    source_of,
    values,
)
from tilewright import tir
from tilewright.base.dtype import parse
from tilewright.loopir import expr as E

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = ("bool", *INTEGERS, *FLOATS)
COMPARE = (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE)


def call(name: str, *args: Any) -> E.Call:
    return E.Call(args[0].dtype, f"tir.{name}", args)


class Cases:
    """A list of cases, each for several numbers of lanes."""

    def __init__(self, lanes: Sequence[int]) -> None:
        self.lanes = lanes
        self.all: list[Case] = []

    def add(self, name: str, build: Callable[..., Any], inputs: list[Any], out: str) -> None:
        for n in self.lanes:
            size = len(inputs[0]) // (4 * n) * 4 * n
            self.all.append(case(f"{name}_{n}", build, [x[:size] for x in inputs], out, n))


def integer_cases(lanes: Sequence[int]) -> list[Case]:
    c = Cases(lanes)
    for d in INTEGERS:
        a, b = values(d, 1), values(d, 2)[::-1].copy()
        amount = (values("uint8", 3) % np.uint8(parse(d).bits)).astype(d)
        divisor = np.where((b == 0) | (b == b.dtype.type(-1 % 256 if d[0] == "u" else -1)), 7, b)
        divisor = divisor.astype(d)
        for kind in (E.Add, E.Sub, E.Mul, E.Min, E.Max):
            c.add(f"{kind.__name__}_{d}", kind, [a, b], d)
        for division in (E.Div, E.Mod, E.FloorDiv, E.FloorMod):
            c.add(f"{division.__name__}_{d}", division, [a, divisor], d)
        for relation in COMPARE:
            c.add(f"{relation.__name__}_{d}", relation, [a, np.where(a % 2 == 0, a, b)], "bool")
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            c.add(f"{name}_{d}", lambda x, y, name=name: call(name, x, y), [a, b], d)
        for name in ("shift_left", "shift_right"):
            c.add(f"{name}_{d}", lambda x, y, name=name: call(name, x, y), [a, amount], d)
        c.add(f"not_{d}", lambda x: ~x, [a], d)
        c.add(f"popcount_{d}", tir.popcount, [a], d)
        c.add(f"clz_{d}", tir.clz, [a], "int32")
        if d in ("int8", "uint16", "int64"):
            c.add(f"power_{d}", tir.power, [a, b], d)
        c.add(f"select_{d}", lambda x, y: E.Select(x < y, x + y, y), [a, b], d)
    return c.all


def _reinterpret(dtype: str) -> Callable[[Any], Any]:
    return lambda x: tir.reinterpret(parse(dtype).with_lanes(parse(x.dtype).lanes), x)


def _mixed(x: Any, y: Any) -> Any:
    return E.Or(E.And(x < y, E.Not(E.EQ(x, y))), E.NE(x, x))


def _below_zero(value: float) -> Callable[[Any], Any]:
    """Another value in the place of what is below zero."""
    return lambda x: E.Select(x < E.const(0, x.dtype), E.const(value, x.dtype), x)


def float_cases(lanes: Sequence[int]) -> list[Case]:
    c = Cases(lanes)
    for d in FLOATS:
        a, b = values(d, 1), values(d, 2)[::-1].copy()
        bits = f"int{parse(d).bits}"
        for kind in (E.Add, E.Sub, E.Mul, E.Div, E.Min, E.Max):
            c.add(f"{kind.__name__}_{d}", kind, [a, b], d)
        for relation in COMPARE:
            other = np.where(np.arange(len(a)) % 2 == 0, a, b)
            c.add(f"{relation.__name__}_{d}", relation, [a, other], "bool")
        for name in ("isnan", "isinf", "isfinite"):
            c.add(f"{name}_{d}", getattr(tir, name), [a], "bool")
        for name in ("floor", "ceil", "trunc", "round", "nearbyint", "fabs"):
            c.add(f"{name}_{d}", lambda x, name=name: call(name, x), [a], d)
        for special in ("inf", "-inf", "nan", "-0.0"):
            c.add(f"const{len(c.all)}_{d}", _below_zero(float(special)), [a], d)
        for name in ("copysign", "nextafter"):
            if d != "bfloat16" or name == "copysign":
                c.add(f"{name}_{d}", lambda x, y, name=name: call(name, x, y), [a, b], d)
        c.add(f"select_{d}", lambda x, y: E.Select(_mixed(x, y), x, y), [a, b], d)
        known = np.where(np.isnan(a), np.zeros_like(a), a)  # which bits say NaN is the hardware's
        c.add(f"bits_{d}", _reinterpret(bits), [known], bits)
        c.add(f"of_bits_{d}", _reinterpret(d), [np.arange(-48, 48).astype(bits) * 3], d)
    m, n = values("bool", 4), values("bool", 5)
    for logic in (E.And, E.Or, E.Min, E.Max):
        c.add(f"bool_{logic.__name__}", logic, [m, n], "bool")
    c.add("bool_not", E.Not, [m], "bool")
    return c.all


def conversion_cases(lanes: Sequence[int]) -> list[Case]:
    c = Cases(lanes)
    types = TYPES if 1 in lanes else ("bool", "int8", "uint16", "int32", "uint64", *FLOATS)
    for a in types:
        for b in types:
            if a != b:
                convert = lambda x, b=b: E.Cast(  # noqa: E731
                    parse(b).with_lanes(parse(x.dtype).lanes), x
                )
                c.add(f"{a}_to_{b}", convert, [values(a)], b)
    return c.all


GROUPS: dict[str, Callable[[Sequence[int]], list[Case]]] = {
    "integers": integer_cases,
    "floats": float_cases,
    "conversions": conversion_cases,
}


@pytest.mark.parametrize("lanes", [1, 4], ids=["scalars", "vectors"])
@pytest.mark.parametrize("group", GROUPS)
def test_opencl_agrees_with_the_interpreter(group: str, lanes: int) -> None:
    cases = GROUPS[group]([lanes])
    got = run_opencl(cases)
    for c in cases:
        same(got[c.name], c.expected())


@pytest.mark.parametrize("lanes", [1, 4], ids=["scalars", "vectors"])
@pytest.mark.parametrize("group", GROUPS)
def test_c_agrees_with_the_interpreter(group: str, lanes: int, tmp_path: Path) -> None:
    cases = GROUPS[group]([lanes])
    got = run_c(cases, tmp_path)
    for c in cases:
        same(got[c.name], c.expected())


@pytest.mark.parametrize("arch", [700, 800])
@pytest.mark.parametrize("lanes", [1, 4], ids=["scalars", "vectors"])
@pytest.mark.parametrize("group", GROUPS)
def test_cuda_text_agrees_with_the_interpreter(group: str, lanes: int, arch: int) -> None:
    cases = GROUPS[group]([lanes])
    program = Program(source_of(cases, f"cuda -arch=sm_{arch // 10}"), arch)
    for c in cases:
        arrays = [np.ascontiguousarray(a) for a in (*c.arrays[:-1], np.zeros_like(c.arrays[-1]))]
        places = [np.array(a.ctypes.data, np.uint64) for a in arrays]
        program.launch(c.name, (c.groups,), (4,), [p.ctypes.data for p in places])
        same(arrays[-1], c.expected())


@pytest.mark.parametrize("group", GROUPS)
def test_cuda_compiles_without_warnings(group: str) -> None:
    compile_everywhere(source_of(GROUPS[group]([4]), "cuda"))


def test_opencl_with_numbers_of_lanes_that_it_lacks() -> None:
    cases = [c for c in float_cases([3, 6]) if "float32" in c.name]
    got = run_opencl(cases)
    for c in cases:
        same(got[c.name], c.expected())
