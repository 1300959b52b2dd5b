"""Conversions between all types; float16 and bfloat16 over every value and every rounding case."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.interp import np_ops
from tilewright.interp.tir_eval_rt import to_float
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S

TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip
PLAIN = "llvm -mcpu=x86-64-v2"  # no conversion of float16, no FMA


def cast_to(dtype: str) -> Any:
    return lambda x: E.Cast(parse(dtype).with_lanes(parse(x.dtype).lanes), x)


def samples(dtype: str) -> np.ndarray:
    t = parse(dtype)
    rng = np.random.default_rng(1)
    if t.is_bool:
        return np.tile([True, False], 32)
    if t.is_float:
        return np.concatenate([rng.normal(0, 40, 48), np.arange(-8, 8) / 2]).astype(t.numpy)
    return rng.integers(0 if t.is_uint else -100, 100, 64).astype(t.numpy)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", TYPES)
def test_every_pair(run_elementwise: Any, source: str, lanes: int) -> None:
    values = samples(source)
    for target in TYPES:
        got = run_elementwise(cast_to(target), [values], target, lanes)
        t, kind = parse(target), parse(target).numpy
        exact = values.astype(np.float64)
        if t.is_bool:
            want: Any = exact != 0
        elif t.is_float:
            want = values.astype(kind)
        elif parse(source).is_float:
            want = np.clip(np.trunc(exact), float(t.min_value), float(t.max_value)).astype(kind)
        else:
            want = values.astype(kind)
        np.testing.assert_array_equal(got, want, err_msg=f"{source} to {target}")


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_float_to_integer_saturates(run_elementwise: Any, source: str, lanes: int) -> None:
    kind = parse(source).numpy
    listed = [
        *(np.nan, np.inf, -np.inf, 0.0, -0.0, -0.99, 0.99, 127.9, 128.0, -128.9, 255.5, 256.0),
        *(65503.0, -65503.0, 3e38, -3e38, 2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**63, 2.0**64),
        *(-(2.0**63), 2.0**32, 2.0**32 - 256, -1.0, 1e9, 1e18, 4e9, 1.0, 2.0, 3.5, -3.5),
    ]
    with np.errstate(over="ignore"):
        values = np.array(listed).astype(kind)
    for target in TYPES[1:9]:
        low, high = int(parse(target).min_value), int(parse(target).max_value)
        want = []
        for v in values.astype(float):
            if np.isnan(v):
                want.append(0)
            elif np.isinf(v):
                want.append(high if v > 0 else low)
            else:
                want.append(min(max(int(v), low), high))
        got = run_elementwise(cast_to(target), [values], target, lanes)
        np.testing.assert_array_equal(got, np.array(want, parse(target).numpy), err_msg=target)


def run_cast(program: Any, source: np.ndarray, target: str, machine: str) -> np.ndarray:
    size, lanes = len(source), 16
    p = program((source.dtype.name, size), (target, size))
    i = E.Var("i", "int32")
    at = [E.Ramp(i * lanes, 1, lanes)]
    value = cast_to(target)(E.BufferLoad(p.buffers[0], at))
    body = S.For(i, 0, size // lanes, 0, S.BufferStore(p.buffers[1], value, at))
    out = np.zeros(size, parse(target).numpy)
    p.compile(body, target=machine)(source, out)
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Equal bit for bit, except that any NaN equals any other."""
    assert a.dtype == b.dtype
    nan = np.isnan(b)
    np.testing.assert_array_equal(np.isnan(a), nan)
    raw = f"u{a.dtype.itemsize}"
    np.testing.assert_array_equal(a.view(raw)[~nan], b.view(raw)[~nan])


@pytest.mark.parametrize("machine", ["llvm", PLAIN])
@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_all_narrow_values_widen_exactly(program: Any, narrow: str, machine: str) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(parse(narrow).numpy)
    for wide in ("float32", "float64"):
        with np.errstate(invalid="ignore"):
            want = values.astype(wide)
        same_bits(run_cast(program, values, wide, machine), want)


@pytest.mark.parametrize("machine", ["llvm", PLAIN])
@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_rounding_at_every_boundary(program: Any, narrow: str, machine: str) -> None:
    """Every narrow value, every midpoint of two, and the floats next to each midpoint."""
    kind = parse(narrow).numpy
    with np.errstate(invalid="ignore"):
        points = np.arange(1 << 15, dtype=np.uint16).view(kind).astype(np.float64)
    points = points[np.isfinite(points)]
    middle = (points[:-1] + points[1:]) / 2
    for wide in (np.float32, np.float64):
        m = middle.astype(wide)
        parts = [points.astype(wide), m, np.nextafter(m, wide(0)), np.nextafter(m, wide(np.inf))]
        values = np.concatenate([*parts, [np.inf, np.nan, np.finfo(wide).max, 65519.0, 65520.0]])
        values = np.concatenate([values, -values]).astype(wide)
        values = np.resize(values, -(-len(values) // 16) * 16)
        got = run_cast(program, values, narrow, machine)
        with np.errstate(over="ignore", invalid="ignore"):
            want = nearest(values, points, kind)
        same_bits(got, want)


def nearest(values: np.ndarray, points: np.ndarray, kind: Any) -> np.ndarray:
    """Round to nearest even by search, in float64: `points` are the non-negative narrow values."""
    size = np.abs(values.astype(np.float64))
    at = np.clip(np.searchsorted(points, size, side="right") - 1, 0, len(points) - 1)
    low = points[at]
    step = points[-1] - points[-2]
    high = np.append(points[1:], points[-1] + step)[at]
    with np.errstate(invalid="ignore"):
        up = (size - low > high - size) | ((size - low == high - size) & (at % 2 == 1))
    result = np.where(up & (size != low), high, low)
    result[(result > points[-1]) | np.isinf(size)] = np.inf
    result[np.isnan(size)] = np.nan
    return np.copysign(result, values.astype(np.float64)).astype(kind)


def nearest_bfloat16(x: int) -> float:
    """Rounded once, to nearest even, in Python's integers."""
    size = abs(x)
    shift = max(size.bit_length() - 8, 0)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << shift >> 1
    up = rest > half or (rest == half and shift and kept & 1)
    return float((kept + bool(up)) << shift) * (1 if x >= 0 else -1)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64"])
def test_integers_become_bfloat16_by_one_rounding(
    run_elementwise: Any, source: str, lanes: int
) -> None:
    """By way of float32 (or of float64, from 64 bits) they would be rounded twice."""
    t = parse(source)
    low, high = int(t.min_value), int(t.max_value)
    rng = np.random.default_rng(3)
    found = {0, low, high, low + 1, high - 1}
    for bits in range(8, t.bits + 1):
        for top in rng.integers(128, 256, 4).tolist():
            tie = ((int(top) << 1 | 1) << bits) >> 9
            found.update(s * (tie + d) for s in (1, -1) for d in (-(1 << bits // 2), -1, 0, 1, 2))
    exact = sorted(x for x in found if low <= x <= high)
    exact += [0] * (-len(exact) % lanes)
    values = np.array(exact, t.numpy)
    want = np.array([nearest_bfloat16(x) for x in exact]).astype(ml_dtypes.bfloat16)
    same_bits(run_elementwise(cast_to("bfloat16"), [values], "bfloat16", lanes), want)
    same_bits(np_ops.cast(values, "bfloat16"), want)
    scalar = to_float("bfloat16")
    same_bits(np.array([scalar(x) for x in exact]), want)


def test_reinterpret(run_elementwise: Any) -> None:
    values = np.random.default_rng(2).normal(size=32).astype(np.float32)
    for lanes in (1, 8):
        bits = parse("int32").with_lanes(lanes)
        got = run_elementwise(
            lambda x, b=bits: E.Call(b, "tir.reinterpret", (x,)), [values], "int32", lanes
        )
        np.testing.assert_array_equal(got, values.view(np.int32))
    halves = values.astype(np.float16)
    got = run_elementwise(
        lambda x: E.Call("uint16x8", "tir.reinterpret", (x,)), [halves], "uint16", 8
    )
    np.testing.assert_array_equal(got, halves.view(np.uint16))
