"""Default schedules for CUDA: what kernels are made of at sizes that divide and at others, and what
they compute, in simt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.rt.drivers import nvrtc

TARGET = tw.Target("cuda -arch=sm_80")
SUMS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}


def built(make: Callable[..., Any], dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The source, the report of a run (of the last kernel: those before it prepare operands), and
    the result with the inputs it was made of."""
    ins = [te.placeholder(shape, dtype, f"in{n}") for n, shape in enumerate(shapes)]
    out = make(*ins)
    f = tw.build(topi.default_schedule(out, TARGET), [*ins, out], TARGET, name="f")
    rng = np.random.default_rng(0)
    if dtype == "int8":
        arrays = [rng.integers(-8, 8, shape).astype(dtype) for shape in shapes]
    else:
        arrays = [
            (rng.random(shape, np.float32) * 2 - 1).astype(parse(dtype).numpy) for shape in shapes
        ]
    result = np.zeros([int(d) for d in out.shape], parse(out.dtype).numpy)
    *before, report = f.run_simt(*arrays, result).values()
    assert all(not r.findings for r in before)
    return f.imported_modules[0].get_source(), report, (result, *arrays)


def close(result: Any, want: Any, dtype: str) -> None:
    off = {"float32": 1e-5, "int8": 0.0}.get(dtype, 2e-3)
    np.testing.assert_allclose(result.astype("float64"), want, rtol=off, atol=off)


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("size", [(64, 64, 64), (72, 88, 40), (67, 69, 37), (65, 66, 129)])
def test_products(dtype: str, size: tuple[int, int, int]) -> None:
    n, m, k = size

    def make(a: Any, b: Any) -> Any:
        return topi.nn.dense(a, b, out_dtype=SUMS[dtype])

    source, report, (c, a, b) = built(make, dtype, (n, k), (m, k))
    wide = (a.astype("float64"), b.astype("float64"))
    close(c, wide[0] @ wide[1].T, "float32" if dtype != "int8" else dtype)
    assert report.bank_conflicts <= 1.1 and not report.findings
    assert ("tw_mma" in source) == (dtype != "float32") and "wmma" not in source
    nbytes = np.dtype(a.dtype).itemsize
    is_packed = dtype != "float32" and k * nbytes % 16 != 0
    assert source.count("__global__") == (3 if is_packed else 1)
    width = nbytes * np.gcd(k, 16 // nbytes) if dtype == "float32" else 16
    assert f"tw_cp_async<{width}, " in source and report.async_copies > 0


@pytest.mark.parametrize(
    "size", [(60, 144, 67), (24, 37, 40), (200, 28, 33), (64, 49, 8), (64, 196, 12)]
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_no_side_of_a_product_in_registers_makes_threads_wait_for_banks(
    size: tuple[int, int, int], is_turned: bool
) -> None:
    n, m, k = size
    shapes = [(2, n, k), (2, m, k) if is_turned else (2, k, m)]

    def make(a: Any, b: Any) -> Any:
        return topi.nn.batch_matmul(a, b, transpose_b=is_turned)

    _, report, (c, a, b) = built(make, "float32", *shapes)
    b = b.swapaxes(1, 2) if is_turned else b
    close(c, a.astype("float64") @ b.astype("float64"), "float32")
    assert report.bank_conflicts <= 1.1


@pytest.mark.parametrize("flip", ["", "a", "b", "ab"])
def test_operands_that_lie_the_other_way_round(flip: str) -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.matmul(a, b, "a" in flip, "b" in flip)

    shapes = [(72, 40)[:: -1 if "a" in flip else 1], (40, 88)[:: -1 if "b" in flip else 1]]
    for dtype in ("float32", "float16"):
        source, report, (c, a, b) = built(make, dtype, *shapes)
        a, b = (x.astype("float64") for x in (a, b))
        close(c, (a.T if "a" in flip else a) @ (b.T if "b" in flip else b), dtype)
        assert report.bank_conflicts <= 1.1 and report.async_copies > 0
        assert "wmma" not in source and ("tw_mma" in source) == (dtype == "float16")
        is_turned = dtype == "float16" and "a" in flip
        assert source.count("__global__") == (2 if is_turned else 1)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("k", [1, 15, 16, 17, 20, 31, 32, 33, 63])
def test_short_reductions(dtype: str, k: int) -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.nn.dense(a, b, out_dtype=SUMS[dtype])

    source, report, (c, a, b) = built(make, dtype, (64, k), (64, k))
    close(c, a.astype("float64") @ b.astype("float64").T, "float32" if dtype != "int8" else dtype)
    assert not report.findings
    assert "tw_mma" in source and "wmma" not in source
    is_taken = k * np.dtype(a.dtype).itemsize % 16 == 0 and k >= (16 if dtype == "float16" else 32)
    assert source.count("__global__") == (1 if is_taken else 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize(
    "size",
    [
        (16, 33, 40),
        (100, 24, 48),
        (131, 72, 67),
        (17, 16, 9),
        (9, 140, 72),
        (132, 5, 40),
        (7, 6, 33),
        (81, 200, 96),
    ],
)
def test_products_smaller_than_a_tile_are_filled_up(dtype: str, size: tuple[int, int, int]) -> None:
    n, m, k = size

    def make(a: Any, b: Any) -> Any:
        j = te.reduce_axis((0, k), "k")
        sums = SUMS[dtype]
        c = te.compute(
            (n, m),
            lambda y, x: te.sum(a[y, j].astype(sums) * b[j, x].astype(sums), axis=j),
            name="product",
        )
        return topi.nn.relu(c)

    source, report, (c, a, b) = built(make, dtype, (n, k), (k, m))
    want = np.maximum(a.astype("float64") @ b.astype("float64"), 0)
    close(c, want, "float32" if dtype != "int8" else dtype)
    assert "tw_mma" in source and "wmma" not in source
    assert report.bank_conflicts <= 1.1 and not report.findings


def windows(x: Any, taps: int, pad: int, stride: int, dilation: int) -> Any:
    """The windows of a convolution, with two more dimensions for their elements."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    reach = (taps - 1) * dilation + 1
    found = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))
    return found[:, :, ::stride, ::stride, ::dilation, ::dilation]


CONVOLUTIONS = [  # images, channels, filters, height and width, taps, padding, stride, dilation
    (1, 16, 64, 12, 12, 3, 1, 1, 1),
    (2, 5, 67, 9, 13, 3, 0, 2, 1),
    (2, 3, 17, 17, 11, 5, 2, 1, 2),
    (1, 40, 131, 7, 7, 1, 0, 1, 1),
    (1, 4, 6, 3, 3, 3, 1, 1, 1),
]


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("size", CONVOLUTIONS)
def test_convolutions_are_products(dtype: str, size: tuple[int, ...]) -> None:
    n, c, f, h, w, taps, pad, stride, dilation = size

    def make(x: Any, k: Any, bias: Any) -> Any:
        y = topi.nn.conv2d_nchw(x, k, stride, pad, dilation, SUMS[dtype])
        return topi.nn.relu(topi.add(y, topi.cast(bias, SUMS[dtype])))

    shapes = [(n, c, h, w), (f, c, taps, taps), (f, 1, 1)]
    source, report, (got, x, k, bias) = built(make, dtype, *shapes)
    x, k, bias = (a.astype("float64") for a in (x, k, bias))
    sums = np.einsum("nchwyx,fcyx->nfhw", windows(x, taps, pad, stride, dilation), k)
    close(got, np.maximum(sums + bias, 0), "float32" if dtype != "int8" else dtype)
    assert ("tw_mma" in source) == (dtype != "float32") and report.async_copies > 0
    assert source.count("__global__") == 3  # channels become neighbours, in data and in filters
    assert report.bank_conflicts <= 1.1 and not report.findings


def test_what_follows_a_product_is_made_of_its_tiles() -> None:
    def make(a: Any, b: Any) -> Any:
        return topi.nn.relu(topi.nn.batch_matmul(a, b, out_dtype="float32"))

    source, _, (c, a, b) = built(make, "float16", (2, 40, 48), (2, 70, 48))
    a, b = a.astype("float64"), b.astype("float64")
    close(c, np.maximum(a @ b.transpose(0, 2, 1), 0), "float32")
    assert source.count("__global__") == 1


@pytest.mark.parametrize("shape", [(40, 256), (37, 200), (7, 197), (3, 5000)])
def test_sums_of_rows_and_columns(shape: tuple[int, int]) -> None:
    source, report, (y, x) = built(lambda x: topi.sum(x, 1), "float32", shape)
    close(y, x.astype("float64").sum(1), "float16")
    assert ("float4" in source) == (shape[1] % 4 == 0)
    assert report.threads % 32 == 0
    source, _, (y, x) = built(lambda x: topi.sum(x, 0), "float32", shape)
    close(y, x.astype("float64").sum(0), "float16")
    assert ("float4" in source) == (shape[1] % 4 == 0)


def test_what_follows_a_sum_of_rows() -> None:
    _, _, (y, x) = built(lambda x: topi.exp(topi.sum(x, 1)), "float32", (37, 128))
    close(y, np.exp(x.astype("float64").sum(1)), "float16")


@pytest.mark.parametrize(
    ("shape", "axes"), [((64, 48), (1, 0)), ((3, 16, 40), (0, 2, 1)), ((16, 3, 16), (2, 1, 0))]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_turned_tensors(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    source, report, (y, x) = built(lambda x: topi.transpose(x, axes), dtype, shape)
    np.testing.assert_array_equal(y, x.transpose(axes))
    assert {"float32": "float4", "float16": "half8"}[dtype] in source
    assert report.coalescing > 0.9


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_products_of_sizes_that_are_known_later(dtype: str) -> None:
    n, m, k = (te.size_var(name) for name in "nmk")
    a, b = te.placeholder((n, k), dtype, "a"), te.placeholder((m, k), dtype, "b")
    c = topi.nn.dense(a, b, out_dtype=SUMS[dtype])
    f = tw.build(topi.default_schedule(c, TARGET), [a, b, c], TARGET, name="f")
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-8, 8, shape).astype(dtype) for shape in ((19, 33), (37, 33)))
    result = np.zeros((19, 37), c.dtype)
    f.run_simt(x, y, result)
    np.testing.assert_array_equal(result, x.astype("int32") @ y.astype("int32").T)


def test_parts_of_operands() -> None:
    """What lies behind the part that a product takes is no part of its sums."""
    a, b = te.placeholder((40, 100), "int8", "a"), te.placeholder((50, 90), "int8", "b")
    k = te.reduce_axis((0, 37), "k")
    c = te.compute(
        (33, 41),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k),
        name="c",
    )
    f = tw.build(topi.default_schedule(c, TARGET), [a, b, c], TARGET, name="f")
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-8, 8, shape).astype("int8") for shape in ((40, 100), (50, 90)))
    result = np.zeros((33, 41), "int32")
    f.run_simt(x, y, result)
    np.testing.assert_array_equal(result, x[:33, :37].astype("int32") @ y[:41, :37].T)
    assert "tw_mma" in f.imported_modules[0].get_source()


@pytest.mark.parametrize("rows", [17, 33])
def test_the_corner_of_a_product_waits_for_its_fragments(rows: int) -> None:
    """Where both edges meet, one thread stores what the lanes of a warp have put together, none of
    whom it may be."""
    a = te.placeholder((rows, 64), "float16", "a")
    b = te.placeholder((64, 72), "float16", "b")
    out = topi.nn.matmul(a, b)
    f = tw.build(topi.default_schedule(out, "cuda -arch=sm_75"), [a, b, out], "cuda -arch=sm_75")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, s).astype("float16") for s in ((rows, 64), (64, 72)))
    result = np.zeros((rows, 72), "float16")
    f.run_simt(x, y, result)
    np.testing.assert_array_equal(result, x.astype("float64") @ y.astype("float64"))


def test_a_thread_copies_neighbours_in_a_row_from_one_address() -> None:
    """Asynchronous copies hold small constants beside an address: rows are 2048 bytes apart, lines
    of one 128."""
    a, b = (te.placeholder((1024, 1024), "float16", name) for name in "ab")
    c = topi.matmul(a, b)
    f = tw.build(topi.default_schedule(c, TARGET), [a, b, c], TARGET, name="f")
    source = f.imported_modules[0].get_source()
    kernel = source[source.index("extern") :]
    first = kernel[: kernel.index("tw_cp_commit();")]
    places = [int(n) for n in re.findall(r"tw_cp_async<16, \d+, (\d+)>\(b_shared", first)]
    assert len(places) % 2 == 0 and places
    assert {n + 128 for n in places if n % 256 == 0} == {n for n in places if n % 256}


@pytest.mark.parametrize(
    ("arch", "dtype", "transposed"),
    [("sm_80", "float16", True), ("sm_86", "float16", False), ("sm_90", "int8", True)],
)
def test_two_blocks_of_a_large_product_have_room(arch: str, dtype: str, transposed: bool) -> None:
    """What results pass through lies where tiles were; a multiprocessor has what a block may have
    and a kilobyte, which the system keeps of each."""
    target = tw.Target(f"cuda -arch={arch}")
    a, b = (te.placeholder((4096, 4096), dtype, name) for name in "ab")
    sums = SUMS[dtype]
    c = (topi.nn.dense if transposed else topi.nn.matmul)(a, b, out_dtype=sums)
    f = tw.build(topi.default_schedule(c, target), [a, b, c], target, name="f")
    module = f.imported_modules[0]
    code = module.device_code
    assert code is not None
    asked = {k.name: k.shared_bytes for k in code.kernels}
    usage = nvrtc.resource_usage(*nvrtc.compile_cuda(module.get_source(), arch, "cubin"))
    taken = max(asked[name] + used.shared for name, used in usage.items())
    most = target.max_shared_memory_per_block
    assert 2 * (taken + 1024) <= most + 1024
    assert 3 * taken > min(most, 128 << 10), "tiles are under way as there is room for"
