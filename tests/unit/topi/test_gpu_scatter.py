"""Scattering on GPUs: all updates at once, with what comes out as if one came after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi import launches
from tests.unit.topi.test_gpu_search import results
from tilewright import te, topi

Array = np.ndarray[Any, Any]
COMBINE: dict[str, Any] = {
    "update": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": np.minimum,
    "max": np.maximum,
    "mean": lambda a, b: (a + b) / a.dtype.type(2),
}


def one_by_one(data: Array, places: list[Any], updates: list[Any], reduction: str) -> Array:
    out = data.copy()
    with np.errstate(all="ignore"):
        for at, new in zip(places, updates):
            inside = all(-n <= i < n for i, n in zip(at, out.shape))
            if inside:
                out[at] = COMBINE[reduction](out[at], new)
    return out


def scattered(
    data: Array, indices: Array, updates: Array, axis: int, how: str, target: str = "cuda"
) -> None:
    (out,), _ = results(
        lambda d, i, u: [topi.scatter_elements(d, i, u, axis, how)],
        [data, indices, updates],
        target,
    )
    places = [(*at[:axis], int(indices[at]), *at[axis + 1 :]) for at in np.ndindex(*indices.shape)]
    want = one_by_one(data, places, [updates[at] for at in np.ndindex(*indices.shape)], how)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("how", ["update", "add", "mul", "min", "max", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_elements(how: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape, many, axis in (((7, 5), (9, 4), 0), ((3, 40), (3, 100), 1), ((1,), (1,), 0)):
        if how == "mean" and dtype == "int32":
            continue
        data = rng.integers(-3, 4, shape).astype(dtype)
        n = shape[axis]
        indices = rng.integers(-n, n + 1, many).astype("int64")  # of which n is outside
        # products and means of few powers of two are exact
        updates = rng.choice([-2, -1, 0, 1, 2], many).astype(dtype)
        scattered(data, indices, updates, axis, how)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int64", "uint64", "float64", "float16", "bool"]
)
@pytest.mark.parametrize("how", ["update", "add", "max", "min"])
def test_types(dtype: str, how: str) -> None:
    if dtype == "bool" and how != "update":
        return
    rng = np.random.default_rng(1)
    high = 2 if dtype == "bool" else 100
    data, updates = (rng.integers(0, high, n).astype(dtype) for n in (5, 40))
    scattered(data, rng.integers(0, 5, 40).astype("int32"), updates, 0, how)


@pytest.mark.parametrize("how", ["min", "max"])
def test_extremes_of_floats(how: str) -> None:
    data = np.array([1, -1, 0.0, -0.0, 5, np.nan, -7], np.float32)
    indices = np.array([0, 1, 4, 4, 5, 6, 6], np.int32)
    updates = np.array([np.nan, np.inf, -np.inf, 3, 1, -8, 8], np.float32)
    scattered(data, indices, updates, 0, how)
    (out,), _ = results(
        lambda d, i, u: [topi.scatter_elements(d, i, u, 0, how)], [data, indices, updates]
    )
    assert list(np.signbit(out[2:4])) == [False, True]  # what no update meets stays as it is


@pytest.mark.parametrize("how", ["update", "add", "mul", "min"])
@pytest.mark.parametrize("depth", [1, 2])
def test_slices(depth: int, how: str) -> None:
    rng = np.random.default_rng(2)
    data = rng.integers(-3, 4, (4, 5)).astype("int32")
    count = 11
    indices = rng.integers(-4, 5, (depth, count)).astype("int32")
    updates = rng.integers(-2, 3, (count, *data.shape[depth:])).astype("int32")
    (out,), _ = results(lambda d, i, u: [topi.scatter_nd(d, i, u, how)], [data, indices, updates])
    places = [tuple(int(p) for p in indices[:, n]) for n in range(count)]
    np.testing.assert_array_equal(out, one_by_one(data, places, list(updates), how))


@pytest.mark.parametrize("how", ["update", "add", "mul", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int64"])
def test_on_a_device(how: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    data = np.ones(1000, dtype)
    updates = rng.choice([1, 1, 1, 2, -1], 5000).astype(dtype)
    scattered(data, rng.integers(0, 1000, 5000).astype("int32"), updates, 0, how, "opencl")


@pytest.mark.parametrize("how", ["update", "add", "mul", "max"])
def test_work_does_not_grow_with_the_product(how: str) -> None:
    n, m = 30000, 1 << 20
    ins = [te.placeholder((n,), "float32", "d"), te.placeholder((m,), "int32", "i")]
    ins.append(te.placeholder((m,), "float32", "u"))
    with tw.target.Target(launches.SM80):
        out = topi.scatter_elements(ins[0], ins[1], ins[2], 0, how)
        f = tw.build(topi.default_schedule(out, launches.SM80), [*ins, out], launches.SM80)
    host: Any = f.entry_func
    sizes = [int(s[0]) * int(s[3]) for s in launches.LAUNCH.findall(host.text)]
    assert min(sizes) >= n / 4 and max(sizes) >= m / 7  # of a sort a thread has 7 elements
    source = f.imported_modules[0].get_source()
    assert ("atomic" in source) == (how != "mul")
    assert " < 1048576; " not in source  # a loop over all updates
