"""Sorting on GPUs: blocks sort tiles in shared memory, and merge them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.devices import device
from tests.unit.topi import launches
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.rt.drivers import nvrtc

Array = np.ndarray[Any, Any]
SIZES = [1, 2, 31, 32, 33, 197, 1000, 1023, 1024, 1025, 4099]


def data(shape: Any, dtype: str) -> Array:
    """Few values, so that many are equal, with all that is special of a type."""
    rng = np.random.default_rng(5)
    kind = parse(dtype).numpy
    x = rng.integers(0, 2, shape).astype(kind) if dtype == "bool" else None
    if x is None:
        x = rng.integers(0 if dtype[0] == "u" else -20, 20, shape).astype(kind)
    special: list[Any] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    if not parse(dtype).is_float:
        special = [int(np.iinfo(kind).max), int(np.iinfo(kind).min)] if dtype != "bool" else []
    flat = x.reshape(-1)
    for value in special:
        flat[rng.integers(0, flat.size, max(1, flat.size // 50))] = value
    return x


def order(x: Array, axis: int, ascending: bool) -> Array:
    """Places by the numbers, equal ones in their order; what is not a number is the largest."""
    if x.dtype.kind in "iub":
        keys = x if ascending else np.invert(x)
        return np.argsort(keys, axis, kind="stable")
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    number = np.where(nan, 0.0, wide) + 0.0
    if not ascending:
        number, nan = -number, ~nan
    return np.lexsort((number, nan), axis)


def found(x: Array, target: str, *, k: int | None, axis: int = -1, ascending: bool = True) -> Any:
    """The places, and how kernels are launched: blocks and threads of each."""
    dtype = str(x.dtype)

    def make(t: Any) -> Any:
        if k is None:
            return topi.argsort(t, axis=axis, is_ascend=int(ascending), dtype="int32")
        return topi.topk(t, k, axis, "indices", ascending, "int32")

    if target == "cuda":
        with tw.target.Target(launches.SM80):
            result, f = launches.computed(make, dtype, [x])
        host: Any = f.entry_func
        sizes = [tuple(map(int, s)) for s in launches.LAUNCH.findall(host.text)]
        return result, [(s[0], s[3]) for s in sizes]
    with tw.target.Target(target):
        t = te.placeholder(x.shape, dtype, "x")
        out = make(t)
        f = tw.build(topi.default_schedule(out, target), [t, out], target)
    dev = device(target)
    a, b = tw.nd.array(x, dev), tw.nd.empty([int(d) for d in out.shape], "int32", dev)
    f(a, b)
    return b.numpy(), []


@pytest.mark.parametrize("n", SIZES)
def test_lines_of_any_length_are_sorted(n: int) -> None:
    x = data((3, n), "float32")
    for ascending in (True, False):
        places, _ = found(x, "cuda", k=None, ascending=ascending)
        np.testing.assert_array_equal(places, order(x, -1, ascending))


@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        "bfloat16",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint32",
        "int64",
        "uint64",
        "bool",
    ],
)
def test_every_type_is_sorted(dtype: str) -> None:
    x = data((2, 2003), dtype)
    for ascending in (True, False):
        places, _ = found(x, "cuda", k=None, ascending=ascending)
        np.testing.assert_array_equal(places, order(x, -1, ascending))


@pytest.mark.parametrize("shape", [(4099, 3), (70, 41), (5, 300), (2, 9, 130)])
def test_lines_along_other_axes_are_sorted(shape: tuple[int, ...]) -> None:
    axis = len(shape) - 2
    x = data(shape, "int32")
    places, _ = found(x, "cuda", k=None, axis=axis)
    np.testing.assert_array_equal(places, order(x, axis, True))
    places, _ = found(x, "cuda", k=3, axis=axis, ascending=False)
    np.testing.assert_array_equal(places, order(x, axis, False).take(range(3), axis))


@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 1), (33, 5), (1025, 1024), (1025, 1), (4099, 1), (4099, 5), (4099, 900), (4099, 4098),
     (4099, 4099), (40000, 7), (40000, 1000)],
)  # fmt: skip
def test_the_first_of_lines_are_found(n: int, k: int) -> None:
    x = data((2, n), "float32")
    for ascending in (True, False) if n < 40000 else (False,):
        places, _ = found(x, "cuda", k=k, ascending=ascending)
        np.testing.assert_array_equal(places, order(x, -1, ascending)[:, :k])


@pytest.mark.parametrize("value", [np.inf, np.nan, 3.0])
def test_equal_elements_stay_in_their_order(value: float) -> None:
    # what fills up tiles has the key of the last of all numbers, and must not come before these
    x = np.full((1, 5000), value, np.float32)
    for k in (None, 5, 4000):
        places, _ = found(x, "cuda", k=k)
        np.testing.assert_array_equal(places[0], np.arange(5000 if k is None else k))


@pytest.mark.parametrize("k", [None, 1, 5, 1000, 100002])
def test_long_lines_on_a_device(k: int | None) -> None:
    x = data((1, 100003), "float32")
    places, _ = found(x, "opencl", k=k, ascending=False)
    np.testing.assert_array_equal(places, order(x, -1, False)[:, :k])


@pytest.mark.parametrize(
    ("shape", "k", "sizes"),
    [
        ((1, 128256), 50, [(72, 256), (3, 256), (1, 32)]),  # tiles, and what is left of them
        ((2, 128256), 1000, [(144, 256), (144, 256), (2, 256)]),  # tiles; merged; the first of all
        ((1 << 20,), None, [(586, 256), (586, 256), (586, 256)]),
        ((300, 1000), None, [(300, 128)]),  # a block for a line
        ((5000, 20), 3, [(157, 128)]),  # many lines for a block
    ],
)
def test_kernels_have_many_blocks_and_threads(shape: Any, k: int | None, sizes: Any) -> None:
    t = te.placeholder(shape, "float32", "x")
    with tw.target.Target(launches.SM80):
        places = topi.argsort(t, dtype="int32") if k is None else topi.topk(t, k, -1, "indices")
        f = tw.build(topi.default_schedule(places, launches.SM80), [t, places], launches.SM80)
    host: Any = f.entry_func
    got = [(int(s[0]), int(s[3])) for s in launches.LAUNCH.findall(host.text)]
    assert got[: len(sizes)] == sizes
    # passes over runs are a loop of the host; the last one, the tenth, writes the result
    assert ("for level in range(0, 9):" in host.text) == (shape == (1 << 20,))


@pytest.mark.parametrize(
    "limit", ["-max_threads_per_block=32", "-max_shared_memory_per_block=4096"]
)
def test_blocks_keep_to_what_a_target_allows(limit: str) -> None:
    name = f"{launches.SM80} {limit}"
    x = data((1, 3001), "int64")
    with tw.target.Target(name):
        t = te.placeholder(x.shape, "int64", "x")
        places = topi.argsort(t, dtype="int32")
        f = tw.build(topi.default_schedule(places, name), [t, places], name)
    result = np.zeros(x.shape, "int32")
    f.run_simt(x, result)
    np.testing.assert_array_equal(result, order(x, -1, True))


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing())
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_kernels_compile_without_warnings_and_spills(dtype: str) -> None:
    t = te.placeholder((2, 128256), dtype, "x")
    with tw.target.Target(launches.SM80):
        outs = [*topi.topk(t, 50), topi.argsort(t, dtype="int32")]
        f = tw.build(topi.default_schedule(outs, launches.SM80), [t, *outs], launches.SM80)
    _, log = nvrtc.compile_cuda(f.imported_modules[0].get_source(), "sm_80", "cubin")
    assert "warning" not in log.lower()
    spilled = re.findall(r"(\d+) bytes spill stores", log)
    assert spilled and set(spilled) == {"0"}
