"""Intrinsics for tensor cores, from schedules: results in simt, and what compilers make of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from benchmarks.gpu_kernels import TensorTiles, tensor_matmul
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.rt.drivers import nvrtc
from tilewright.topi.tensor_intrin import (
    mma_gemm,
    mma_load,
    mma_store,
    round_to_tf32,
    wmma_fill,
    wmma_gemm,
    wmma_load,
    wmma_store,
)

NUMPY = {"bfloat16": ml_dtypes.bfloat16}
SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
KINDS = [
    ("float16", "float32", "sm_75"),
    ("float16", "float16", "sm_75"),
    ("int8", "int32", "sm_75"),
    ("uint8", "int32", "sm_75"),
    ("bfloat16", "float32", "sm_80"),
]
CASES = [(*kind, shape) for kind in KINDS for shape in SHAPES]
CASES.append(("float32", "float32", "sm_80", (16, 16, 8)))


def draw(shape: Any, dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        return rng.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype)
    # few bits, so that every product and sum is exact in every type
    return (rng.integers(-8, 9, shape) / 8).astype(NUMPY.get(dtype, dtype))


def run(schedule: Any, args: list[Any], arch: str, archs: Any = ("sm_80", "sm_90")) -> Any:
    """Inputs, the output in simt, reports, and the source, which compiles without a word."""
    built = tw.build(schedule, args, f"cuda -arch={arch}", name="product")
    source = built.imported_modules[0].get_source()
    if not nvrtc.why_missing():
        for one in archs:
            assert nvrtc.compile_cuda(source, one)[1] == ""
    shapes = [tuple(int(d) for d in a.shape) for a in args]
    inputs = [draw(s, a.dtype, i) for i, (s, a) in enumerate(zip(shapes, args[:-1]))]
    out = np.zeros(shapes[-1], NUMPY.get(args[-1].dtype, args[-1].dtype))
    *_, report = built.run_simt(*inputs, out).values()  # those before it lay operands anew
    return inputs, out, report, source


def product(a: Any, b: Any) -> Any:
    wide = "int64" if a.dtype.kind in "iu" else "float64"
    return a.astype(wide) @ b.astype(wide)


@pytest.mark.parametrize(
    ("dtype", "out", "arch", "shape"), CASES, ids=lambda x: str(x).replace(" ", "")
)
def test_every_kind_of_fragment(dtype: str, out: str, arch: str, shape: Any) -> None:
    m, n, k = shape
    # stages of tiles, padded rows, four fragments of two warps each
    t = TensorTiles((2 * m, 4 * n), (2 * m, 2 * n), 2 * k, 2, shape)
    s, args = tensor_matmul(4 * m, 8 * n, 6 * k, dtype, out, t)
    (a, b), c, report, source = run(s, args, arch, ("sm_75", "sm_80", "sm_90"))
    np.testing.assert_array_equal(c.astype("float64"), product(a, b))
    assert report.findings == []
    late = arch == "sm_75"  # whose threads copy, through registers
    assert report.async_copies == (0 if late else 2 * a.size + 2 * b.size)  # by two blocks each
    assert source.count("wmma.mma.sync") > 0 and ".shared." in source


def single(a_layout: str, b_layout: str, out: str = "float32") -> Any:
    """One warp, all of A and B in fragments; layouts say how A and B are stored."""
    n, m, depth = 32, 48, 64
    a = te.placeholder((n, depth) if a_layout == "row_major" else (depth, n), "float16", "A")
    b = te.placeholder((depth, m) if b_layout == "row_major" else (m, depth), "float16", "B")
    k = te.reduce_axis((0, depth), "k")

    def element(i: Any, j: Any) -> Any:
        x = a[i, k] if a_layout == "row_major" else a[k, i]
        y = b[k, j] if b_layout == "row_major" else b[j, k]
        return te.sum(x.astype(out) * y.astype(out) if out == "float32" else x * y, axis=k)

    c = te.compute((n, m), element, name="C")
    s = te.create_schedule(c.op)
    aa, bb = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    af, bf = s.cache_read(aa, "wmma.matrix_a", [c]), s.cache_read(bb, "wmma.matrix_b", [c])
    cf = s.cache_write(c, "wmma.accumulator")
    y, x, yi, _ = s[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    block, y = s[c].split(y, nparts=1)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].tensorize(yi, wmma_store(dtype=out))
    s[cf].compute_at(s[c], block)
    y, x, yi, xi = s[cf].tile(s[cf].op.axis[0], s[cf].op.axis[1], 16, 16)
    ko, ki = s[cf].split(s[cf].op.reduce_axis[0], factor=16)
    s[cf].reorder(ko, y, x, yi, xi, ki)
    s[cf].tensorize(yi, wmma_gemm((16, 16, 16), "float16", out, a_layout, b_layout))
    for role, f, layout in (("a", af, a_layout), ("b", bf, b_layout)):
        s[f].compute_at(s[cf], ko)
        _, _, fi, _ = s[f].tile(f.op.axis[0], f.op.axis[1], 16, 16)
        s[f].tensorize(fi, wmma_load(role, layout=layout))
    for shared in (aa, bb):
        s[shared].compute_at(s[cf], ko)
        lanes = s[shared].split(s[shared].fuse(*shared.op.axis), factor=32)[1]
        s[shared].bind(lanes, te.thread_axis((0, 32), "threadIdx.x"))
    return s, [a, b, c]


@pytest.mark.parametrize("a_layout", ["row_major", "col_major"])
@pytest.mark.parametrize("b_layout", ["row_major", "col_major"])
def test_layouts(a_layout: str, b_layout: str) -> None:
    s, args = single(a_layout, b_layout)
    (a, b), c, report, source = run(s, args, "sm_75")
    a, b = (x if y == "row_major" else x.T for x, y in ((a, a_layout), (b, b_layout)))
    np.testing.assert_array_equal(c, product(a, b))
    assert report.findings == []
    assert f"wmma.mma.sync.aligned.{a_layout[:3]}.{b_layout[:3]}." in source


def test_fill_and_store_to_shared_memory() -> None:
    filled = te.compute((32, 32), lambda i, j: te.const(1.5, "float32"), name="filled")
    tile = te.compute((32, 32), lambda i, j: filled[i, j], name="tile")
    c = te.compute((32, 32), lambda i, j: tile[j, i] + (i * 32 + j).astype("float32"), name="C")
    s = te.create_schedule(c.op)
    s[filled].set_scope("wmma.accumulator")
    s[tile].set_scope("shared")
    block = s[c].split(c.op.axis[0], nparts=1)[0]
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    s[filled].compute_at(s[c], block)
    s[tile].compute_at(s[c], block)
    s[filled].tensorize(
        s[filled].tile(filled.op.axis[0], filled.op.axis[1], 16, 16)[2], wmma_fill(1.5)
    )
    s[tile].tensorize(
        s[tile].tile(tile.op.axis[0], tile.op.axis[1], 16, 16)[2], wmma_store(scope="shared")
    )
    _, out, report, source = run(s, [c], "sm_75")
    np.testing.assert_array_equal(out, np.arange(1024.0).reshape(32, 32) + 1.5)
    assert report.findings == [] and source.count("__syncthreads()") == 1


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")],
)
@pytest.mark.parametrize("stages", [1, 3])
def test_mma_on_registers(dtype: str, out: str, stages: int) -> None:
    t = TensorTiles((32, 64), (32, 32), 32, stages, unit="mma")
    s, args = tensor_matmul(64, 128, 128, dtype, out, t)
    (a, b), c, report, source = run(s, args, "sm_80", ("sm_80", "sm_90"))
    np.testing.assert_array_equal(c.astype("float64"), product(a, b))
    assert report.findings == []
    # of four steps the first two are written out, and a loop makes the last
    assert source.count("ldmatrix.sync.aligned.m8n8.x4") == 8 * (1 if stages == 1 else 3)
    # a thread holds eight elements of each of the four tiles of its warp
    assert "float C_local[32];" in source or "half C_local[32];" in source


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_mma_of_packed_operands(dtype: str) -> None:
    k = 32 // np.dtype(dtype).itemsize
    out = "int32" if dtype == "int8" else "float32"
    t = TensorTiles((32, 64), (32, 32), 2 * k, 3, (16, 16, k), "mma", packed=True, staged=True)
    s, args = tensor_matmul(64, 128, 8 * k, dtype, out, t)
    (a, b), c, report, source = run(s, args, "sm_80", ("sm_80", "sm_90"))
    np.testing.assert_array_equal(c.astype("float64"), product(a, b))
    assert report.findings == [] and "mma.sync" in source and "wmma" not in source


def test_float32_is_rounded_to_tf32() -> None:
    x = te.placeholder((8,), "float32", "x")
    y = te.compute((8,), lambda i: round_to_tf32(x[i]), name="y")
    most = float(np.finfo("float32").max)
    given = np.array([1 + 2**-11, 1 + 2**-12, -1 - 2**-11, most, np.inf, -np.inf, np.nan, 0])
    got = np.zeros(8, "float32")
    tw.build(te.create_schedule(y.op), [x, y], "llvm")(given.astype("float32"), got)
    want = [1 + 2**-10, 1, -1 - 2**-10, np.inf, np.inf, -np.inf, np.nan, 0]
    np.testing.assert_array_equal(got, np.array(want, "float32"))


def test_mma_with_b_by_columns_and_a_cast_at_the_end() -> None:
    n, m, depth = 32, 32, 64
    a, b = te.placeholder((n, depth), "float16", "A"), te.placeholder((m, depth), "float16", "B")
    k = te.reduce_axis((0, depth), "k")
    wide = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[j, k].astype("float32"), axis=k),
        name="wide",
    )
    c = te.compute((n, m), lambda i, j: wide[i, j].astype("float16"), name="C")
    s = te.create_schedule(c.op)
    s[wide].set_scope("local")
    aa, bb = s.cache_read(a, "shared", [wide]), s.cache_read(b, "shared", [wide])
    af, bf = s.cache_read(aa, "local", [wide]), s.cache_read(bb, "local", [wide])
    y, x, yi, _ = s[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    block, y = s[c].split(y, nparts=1)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    for axis in (y, x):
        s[c].unroll(axis)
    s[c].tensorize(yi, mma_store("float32", "float16"))
    s[wide].compute_at(s[c], block)
    y, x, yi, xi = s[wide].tile(wide.op.axis[0], wide.op.axis[1], 16, 16)
    ko, ki = s[wide].split(k, factor=16)
    s[wide].reorder(ko, y, x, yi, xi, ki)
    s[wide].unroll(y)
    s[wide].unroll(x)
    s[wide].tensorize(yi, mma_gemm(b_layout="col_major"))
    for f, load in ((af, mma_load("a")), (bf, mma_load("b", layout="col_major"))):
        s[f].compute_at(s[wide], ko)
        y, x, yi, _ = s[f].tile(f.op.axis[0], f.op.axis[1], 16, 16)
        s[f].unroll(y)
        s[f].unroll(x)
        s[f].tensorize(yi, load)
    for shared in (aa, bb):
        s[shared].compute_at(s[wide], ko)
        lanes = s[shared].split(s[shared].fuse(*shared.op.axis), factor=32)[1]
        s[shared].bind(lanes, te.thread_axis((0, 32), "threadIdx.x"))
    (x, y), out, report, source = run(s, [a, b, c], "sm_80")
    np.testing.assert_array_equal(out, product(x, y.T).astype("float16"))
    assert report.findings == [] and ".trans." not in source


def test_what_tensor_cores_lack() -> None:
    with pytest.raises(ScheduleError, match="float32 does not give float16"):
        wmma_gemm(dtype="float32", out_dtype="float16")
    with pytest.raises(ScheduleError, match="'a' or 'b'"):
        wmma_load("c")
    with pytest.raises(ScheduleError, match="row_major, col_major"):
        wmma_load("a", layout="rows")
    with pytest.raises(ScheduleError, match=r"mma takes one of float16, .*, not float64"):
        mma_gemm("float64", "float64")
    for dtype in ("int8", "float32"):
        with pytest.raises(ScheduleError, match=f"b of {dtype} is col_major"):
            mma_load("b", dtype)
    with pytest.raises(ScheduleError, match="operand a is row_major"):
        mma_load("a", layout="col_major")
    with pytest.raises(ScheduleError, match="not float16"):
        mma_gemm("bfloat16", "float16")
