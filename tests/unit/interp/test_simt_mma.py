"""Matrix operations of warps, against NumPy; register layouts against the PTX ISA's tables."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, sync, zeros
from tilewright import tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import run_kernel
from tilewright.interp.simt_ptx import a_places, b_places, c_places
from tilewright.loopir.calls import call_intrin


def data(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype in ("int8", "uint8"):
        return rng.integers(0 if dtype == "uint8" else -128, 127, shape).astype(dtype)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return rng.integers(-8, 8, shape).astype(kind)


def wmma(sizes, operand, result, b_layout="row_major", fill=True, threads=64, shared=True):
    """Two warps, each a tile of C = A B by two steps in k."""
    m, n, k_size = sizes

    def write(ib, k):
        def fragment(name, kind, shape, dtype):
            return ib.allocate(dtype, shape, name, scope=f"wmma.{kind}")

        a = fragment("fa", "matrix_a", m * k_size, operand)
        b = fragment("fb", "matrix_b", k_size * n, operand)
        c = fragment("fc", "accumulator", m * n, result)
        staged: Any = (
            ib.allocate(operand, (2 * m * k_size,), "s", scope="shared") if shared else None
        )
        warp = k.tx // 32

        def call(name, frag, *args):
            memory = frag.asobject().data
            ib.emit(call_intrin("handle", f"tir.{name}", memory, m, n, k_size, 0, *args))

        if fill:
            call("tvm_fill_fragment", c, tir.const(0, result))
        with ib.for_range(0, 2, name="ko") as ko:
            if shared:
                with ib.for_range(0, 2 * m * k_size // threads, name="i") as i:
                    e = i * threads + k.tx
                    row, column = e // k_size, e % k_size
                    staged[e] = k.A[row * 2 * k_size + ko * k_size + column]
                sync(ib)
                source = staged[warp * m * k_size].buffer
                address = source.access_ptr("r", offset=warp * m * k_size)
                call("tvm_load_matrix_sync", a, address, k_size, tir.StringImm("row_major"))
                sync(ib)
            else:
                at = warp * m * 2 * k_size + ko * k_size
                address = k.A_buffer.access_ptr("r", offset=at)
                call("tvm_load_matrix_sync", a, address, 2 * k_size, tir.StringImm("row_major"))
            down = b_layout == "col_major"
            at = ko * k_size if down else ko * k_size * n
            address = k.B_buffer.access_ptr("r", offset=at)
            stride = 2 * k_size if down else n
            call("tvm_load_matrix_sync", b, address, stride, tir.StringImm(b_layout))
            pairs = [x for f in (c, a, b, c) for x in (f.asobject().data, 0)]
            ib.emit(call_intrin("handle", "tir.tvm_mma_sync", *pairs))
        address = k.C_buffer.access_ptr("w", offset=warp * m * n)
        call("tvm_store_matrix_sync", c, address, n, tir.StringImm("row_major"))

    arrays = {
        "A": (operand, 2 * m * 2 * k_size),
        "B": (operand, 2 * k_size * n),
        "C": (result, 2 * m * n),
    }
    return make_kernel(write, arrays, (threads,))


CASES = [
    ((16, 16, 16), "float16", "float32"),
    ((16, 16, 16), "float16", "float16"),
    ((32, 8, 16), "float16", "float32"),
    ((16, 16, 16), "bfloat16", "float32"),
    ((16, 16, 8), "float32", "float32"),
    ((16, 16, 16), "int8", "int32"),
]


@pytest.mark.parametrize(("sizes", "operand", "result"), CASES)
@pytest.mark.parametrize("layout", ["row_major", "col_major"])
def test_wmma(sizes, operand, result, layout):
    m, n, k = sizes
    a, b = data((2 * m, 2 * k), operand, 1), data((2 * k, n), operand, 2)
    c = zeros(2 * m * n, result)
    stored = np.ascontiguousarray(b if layout == "row_major" else b.T)
    kernel = wmma(sizes, operand, result, layout)
    run_kernel(kernel, None, [a, stored, c])
    expected = (a.astype("float64") @ b.astype("float64")).astype(result)
    np.testing.assert_array_equal(c.reshape(2 * m, n), expected)


def test_tf32_has_ten_bits():
    sizes = (16, 16, 8)
    a = np.full((32, 16), 1 + 2.0**-12, "float32")
    b, c = np.eye(16, dtype="float32"), zeros(512)
    run_kernel(wmma(sizes, "float32", "float32"), None, [a, b, c])
    assert (c == 1).all()
    a[:] = 1 + 2.0**-10
    run_kernel(wmma(sizes, "float32", "float32"), None, [a, b, c])
    assert (c == a[0, 0]).all()


def test_fragments_that_nobody_filled():
    sizes = (16, 16, 16)
    args = data((32, 32), "float16", 1), data((32, 16), "float16", 2), zeros(512)
    kernel = wmma(sizes, "float16", "float32", fill=False)
    assert kinds(kernel, *args) == ["unwritten memory"]


def test_matrices_out_of_bounds():
    sizes = (16, 16, 16)
    args = data((32, 32), "float16", 1), data((32, 16), "float16", 2), zeros(511)
    kernel = wmma(sizes, "float16", "float32", shared=False)
    assert kinds(kernel, *args) == ["out of bounds"]


def test_warps_that_are_not_whole():
    kernel = make_kernel(_fill_in_branch(32), {"A": ("float32", 1)}, (48,))
    with pytest.raises(TilewrightError, match="whole warps of 32 threads, not of 48"):
        kinds(kernel, zeros(1))
    kernel = make_kernel(_fill_in_branch(16), {"A": ("float32", 1)}, (64,))
    assert kinds(kernel, zeros(1)) == ["barrier under divergence"]
    kernel = make_kernel(_fill_in_branch(32), {"A": ("float32", 1)}, (64,))
    assert kinds(kernel, zeros(1)) == []


def _fill_in_branch(limit):
    def write(ib, k):
        f = ib.allocate("float32", 256, "f", scope="wmma.accumulator")
        with ib.if_scope(k.tx < limit):
            args = (f.asobject().data, 16, 16, 16, 0, tir.const(0.0, "float32"))
            ib.emit(call_intrin("handle", "tir.tvm_fill_fragment", *args))

    return write


# -- mma on registers

PTX = [
    (8, "float16", "float16", "fp16", "fp16"),
    (16, "float16", "float32", "fp16", "fp32"),
    (16, "bfloat16", "float32", "bf16", "fp32"),
    (8, "float32", "float32", "tf32", "fp32"),
    (4, "float32", "float32", "tf32", "fp32"),
    (16, "int8", "int32", "int8", "int32"),
    (32, "int8", "int32", "int8", "int32"),
]


def test_register_layouts():
    """The formulas of the PTX ISA for m16n8k16 of 16-bit types and m16n8k32 of 8-bit ones."""
    lane = np.arange(32)
    group, inside = lane // 4, lane % 4
    row, column = a_places(16, 2)
    for i in range(8):
        low = i < 2 or 4 <= i < 6
        np.testing.assert_array_equal(row[i], group if low else group + 8)
        np.testing.assert_array_equal(column[i], inside * 2 + (i & 1) + (8 if i >= 4 else 0))
    row, column = b_places(16, 2)
    for i in range(4):
        np.testing.assert_array_equal(row[i], inside * 2 + (i & 1) + (8 if i >= 2 else 0))
        np.testing.assert_array_equal(column[i], group)
    row, column = a_places(32, 1)
    for i in range(16):
        low = i < 4 or 8 <= i < 12
        np.testing.assert_array_equal(row[i], group if low else group + 8)
        np.testing.assert_array_equal(column[i], inside * 4 + (i & 3) + (16 if i >= 8 else 0))
    row, column = c_places()
    for i in range(4):
        np.testing.assert_array_equal(row[i], group + (0 if i < 2 else 8))
        np.testing.assert_array_equal(column[i], inside * 2 + (i & 1))


@pytest.mark.parametrize(("k_size", "operand", "result", "name", "result_name"), PTX)
def test_ptx_mma(k_size, operand, result, name, result_name):
    item = np.dtype(ml_dtypes.bfloat16 if operand == "bfloat16" else operand).itemsize
    places = a_places(k_size, item), b_places(k_size, item), c_places()
    counts = [len(p[0]) for p in places]

    def write(ib, k):
        a, b, c = [
            ib.allocate(t, (count,), n, scope="local")
            for t, count, n in zip((operand, operand, result), counts, "abc")
        ]
        for source, target, count in ((k.A, a, counts[0]), (k.B, b, counts[1])):
            with ib.for_range(0, count, name="i") as i:
                target[i] = source[i * 32 + k.tx]
        with ib.for_range(0, 4, name="i") as i:
            c[i] = tir.const(1, result)
        text = [f"m16n8k{k_size}", "row", "col", name, name, result_name]
        pairs = [x for r in (a, b, c) for x in (r.asobject().data, 0)]
        ib.emit(call_intrin(result, "tir.ptx_mma", *map(tir.StringImm, text), *pairs, False))
        with ib.for_range(0, 4, name="i") as i:
            k.C[i * 32 + k.tx] = c[i]

    x, y = data((16, k_size), operand, 4), data((k_size, 8), operand, 5)
    arrays = {"A": (operand, 32 * counts[0]), "B": (operand, 32 * counts[1]), "C": (result, 128)}
    out = zeros(128, result)
    args = [np.ascontiguousarray(m[p]).reshape(-1) for m, p in zip((x, y), places)]
    run_kernel(make_kernel(write, arrays), None, [*args, out])
    expected = (x.astype("float64") @ y.astype("float64") + 1).astype(result)
    np.testing.assert_array_equal(out.reshape(4, 32), expected[places[2]])


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, flip):
    def write(ib, k):
        s = ib.allocate("float16", (256,), "s", scope="shared")
        r = ib.allocate("float16", (2 * count,), "r", scope="local")
        with ib.for_range(0, 8, name="i") as i:
            s[i * 32 + k.tx] = k.A[i * 32 + k.tx]
        sync(ib)
        args = (flip, count, tir.StringImm(".b16"), r.asobject().data, 0, s.asobject().data)
        ib.emit(call_intrin("float16", "tir.ptx_ldmatrix", *args, (k.tx % (8 * count)) * 8))
        with ib.for_range(0, 2 * count, name="i") as i:
            k.B[i * 32 + k.tx] = r[i]

    a = np.arange(256).astype("float16")
    b = zeros(64 * count, "float16")
    kernel = make_kernel(write, {"A": ("float16", 256), "B": ("float16", 64 * count)})
    run_kernel(kernel, None, [a, b])
    tiles = a.reshape(4, 8, 8)
    lane = np.arange(32)
    for j in range(count):
        tile = tiles[j].T if flip else tiles[j]
        for i in range(2):
            expected = tile[lane // 4, lane % 4 * 2 + i]
            np.testing.assert_array_equal(b.reshape(-1, 32)[2 * j + i], expected)


def test_shapes_that_are_not_known():
    def write(shape):
        def body(ib, k):
            r = ib.allocate("float16", (8,), "r", scope="local")
            text = map(tir.StringImm, [shape, "row", "col", "fp16", "fp16", "fp16"])
            pairs = [r.asobject().data, 0] * 3
            ib.emit(call_intrin("float16", "tir.ptx_mma", *text, *pairs, False))

        return make_kernel(body, {"A": ("float32", 1)})

    with pytest.raises(TilewrightError, match="knows ptx_mma of shapes m16n8k"):
        kinds(write("m8n8k4"), zeros(1))
    with pytest.raises(TilewrightError, match="k = 4 on float16"):
        kinds(write("m16n8k4"), zeros(1))
