"""The spatially packed convolution and its schedules, in te_eval and simt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.narrow import int_of
from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.topi.nn.spatial_pack import conv2d_spatial_pack, pack_filters
from tilewright.topi.schedules.gpu.spatial_pack import Packed, schedule_spatial_pack

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
MALI = "opencl -device=mali"


def reference(data: Array, kernel: Array, strides: Any, padding: Any) -> Array:
    """A convolution as a sum over the window, in float64."""
    (sh, sw), (top, left, bottom, right) = strides, padding
    x = np.pad(data.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = kernel.shape[2:]
    oh, ow = (x.shape[2] - kh) // sh + 1, (x.shape[3] - kw) // sw + 1
    out = np.zeros((len(x), len(kernel), oh, ow))
    for y in range(kh):
        for z in range(kw):
            part = x[:, :, y : y + oh * sh : sh, z : z + ow * sw : sw][:, :, :oh, :ow]
            out += np.einsum("nchw,oc->nohw", part, kernel[:, :, y, z].astype(np.float64))
    return out


CASES = [
    # channels, height, width, filters, kernel, tile, strides, padding
    (3, 8, 8, 8, (3, 3), (2, 4, 4), (1, 1), (1, 1, 1, 1)),
    (5, 9, 7, 10, (3, 3), (2, 4, 4), (1, 1), (1, 0, 1, 2)),
    (4, 11, 10, 6, (3, 2), (2, 2, 4), (2, 1), (0, 1, 0, 0)),
    (2, 13, 13, 8, (5, 5), (1, 3, 8), (2, 2), (2, 2, 2, 2)),
    (8, 7, 7, 12, (1, 1), (1, 4, 4), (1, 1), (0, 0, 0, 0)),
    (3, 9, 9, 4, (1, 1), (2, 2, 4), (3, 3), (0, 0, 0, 0)),
]


def arrays(case: Any, dtype: str) -> tuple[Array, Array]:
    ci, h, w, co, k, *_ = case
    data = RNG.standard_normal((2, ci, h, w)).astype(dtype)
    return data, (RNG.standard_normal((co, ci, *k)) / 4).astype(dtype)


@pytest.mark.parametrize("case", CASES)
def test_it_is_a_convolution(case: Any) -> None:
    data, kernel = arrays(case, "float32")
    *_, tile, strides, padding = case
    want = reference(data, kernel, strides, padding)
    a, b = (te.placeholder(x.shape, "float32", n) for n, x in (("a", data), ("b", kernel)))
    (got,) = te_eval(conv2d_spatial_pack(a, b, tile, strides, padding), {a: data, b: kernel})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    (packed,) = te_eval(pack_filters(b, tile[2]), {b: kernel})
    assert packed.shape == (-(-len(kernel) // tile[2]), *kernel.shape[1:], tile[2])
    p = te.placeholder(packed.shape, "float32", "p")
    ahead = conv2d_spatial_pack(a, p, tile, strides, padding, len(kernel))
    (again,) = te_eval(ahead, {a: data, p: packed})
    np.testing.assert_array_equal(again, got)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_schedules_in_simt(steps: int, dtype: str) -> None:
    case = CASES[1]
    data, kernel = arrays(case, dtype)
    *_, tile, strides, padding = case
    a, b = (te.placeholder(x.shape, dtype, n) for n, x in (("a", data), ("b", kernel)))
    out = conv2d_spatial_pack(a, b, tile, strides, padding)
    s = te.create_schedule(out.op)
    schedule_spatial_pack(s, out, steps, (4, 1, 2))
    f = tw.build(s, [a, b, out], MALI)
    want = reference(data, kernel, strides, padding)
    got = np.full(want.shape, 7, dtype)
    f.run_simt(data, kernel, got)
    off = 1e-5 if dtype == "float32" else 2e-2
    assert np.abs(got - want).max() <= off * np.abs(want).max()
    source = f.imported_modules[0].get_source()
    assert source.count("__kernel") >= 4  # windows, filters, convolution, output
    assert ("for (int kh" in source) == (steps == 1)


@pytest.mark.parametrize(("dtype", "vc", "vector"), [("float32", 4, "4"), ("float16", 8, "8")])
def test_vectors_are_loaded_multiplied_and_stored(dtype: str, vc: int, vector: str) -> None:
    a, b = (te.placeholder(e, dtype, n) for e, n in (((1, 8, 8, 8), "a"), ((16, 8, 3, 3), "b")))
    out = conv2d_spatial_pack(a, b, (1, 4, vc), padding=(1, 1, 1, 1))
    s = te.create_schedule(out.op)
    schedule_spatial_pack(s, out)
    source = tw.build(s, [a, b, out], MALI).imported_modules[0].get_source()
    name = {"float32": "float", "float16": "half"}[dtype] + vector
    assert f"vload{vector}(0, kernel_vec" in source and f"vstore{vector}(" in source
    assert f"({name})(data_vec[" in source  # a pixel times a vector of filters
    line = next(x for x in source.splitlines() if f"({name})(data_vec[" in x)
    assert " * " in line and " + " in line


def test_the_stages_are_found() -> None:
    a, b = (te.placeholder(e, "float32", n) for e, n in (((1, 4, 6, 6), "a"), ((8, 4, 3, 3), "b")))
    parts = Packed.of(conv2d_spatial_pack(a, b, (2, 2, 4)))
    assert parts.kernel_vec is not None and parts.data_pad is None
    assert [int_of(d) for d in parts.data_vec.shape] == [1, 2, 2, 4, 4, 4]
    assert [int_of(d) for d in parts.conv.shape] == [1, 2, 2, 2, 2, 2, 4]
    p = te.placeholder((2, 4, 3, 3, 4), "float32", "kernel_vec")
    parts = Packed.of(conv2d_spatial_pack(a, p, (2, 2, 4), padding=(1, 1, 1, 1)))
    assert parts.kernel_vec is None and parts.data_pad is not None


def test_half_may_be_summed_up_in_float32() -> None:
    a, b = (te.placeholder(e, "float16", n) for e, n in (((1, 4, 6, 6), "a"), ((8, 4, 3, 3), "b")))
    out = topi.nn.conv2d_spatial_pack(a, b, (1, 2, 8), accumulate="float32")
    assert out.dtype == "float16" and Packed.of(out).conv.dtype == "float32"


def test_mistakes_are_named() -> None:
    a, b = (te.placeholder(e, "float32", n) for e, n in (((1, 4, 6, 6), "a"), ((8, 3, 3, 3), "b")))
    with pytest.raises(TilewrightError, match=r"not for 4 channels and 8 filters in vectors of 4"):
        conv2d_spatial_pack(a, b)
    with pytest.raises(TilewrightError, match="has to be positive"):
        conv2d_spatial_pack(a, b, (0, 4, 4))
    n = te.placeholder((te.var("n"), 4, 6, 6), "float32", "a")
    with pytest.raises(TilewrightError, match="data has to have 4 constant dimensions"):
        conv2d_spatial_pack(n, b)
