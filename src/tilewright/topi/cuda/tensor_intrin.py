"""Tensor intrinsics by WMMA under TVM's names and arguments, tiles of any rank.

`strides_*` are those of the tile in the buffer that an intrinsic reads or fills, `shape` is
(m, n, k). topi.tensor_intrin has intrinsics that find strides by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.expr import StringImm, const
from ...loopir.stmt import Stmt
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ..tensor_intrin.wmma import Shape, emit, operand_size, tile_number


def intrin_wmma_load_matrix_A(
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    A_shape: Sequence[int],
    C_shape: Sequence[int],
    in_dtype: str,
) -> Any:
    """Loads a tile of A from shared memory, row_major or col_major. See the CUDA C++ Programming
    Guide, Warp Matrix Functions. Raises ScheduleError where `layout` is no layout of an operand."""
    return _load("a", strides_dst, strides_from, shape, layout, A_shape, in_dtype)


def intrin_wmma_load_matrix_W(
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    A_shape: Sequence[int],
    C_shape: Sequence[int],
    in_dtype: str,
) -> Any:
    """Loads a tile of B, the weight, from shared memory, row_major or col_major. See the CUDA C++
    Programming Guide, Warp Matrix Functions. Raises ScheduleError where `layout` is no layout of an
    operand."""
    return _load("b", strides_dst, strides_from, shape, layout, A_shape, in_dtype)


def _load(
    role: str,
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    size: Sequence[int],
    dtype: str,
) -> Any:
    x = placeholder(tuple(size), dtype, "A")
    y = compute(tuple(size), lambda *i: x(*i), name="C")
    source = _declare(size, dtype, "shared", strides_from)
    target = _declare(size, dtype, f"wmma.matrix_{role}", strides_dst)
    tile = operand_size(role, shape, layout)

    def body(ins: Any, outs: Any) -> Stmt:
        place = tile_number(outs[0], tile)
        rest = (ins[0].access_ptr("r"), strides_from[0], StringImm(layout))
        return emit("tvm_load_matrix_sync", outs[0].data, *shape, place, *rest)

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target})


def intrin_wmma_store_matrix(
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    out_dtype: str,
    A_shape: Sequence[int],
    C_shape: Sequence[int],
    C_scope: str = "global",
) -> Any:
    """Stores an accumulator, row_major. See the CUDA C++ Programming Guide, Warp Matrix Functions.
    Raises TilewrightError where `out_dtype` is no type such as 'float32', where `C_scope` is not
    text."""
    x = placeholder(tuple(A_shape), out_dtype, "A")
    y = compute(tuple(C_shape), lambda *i: x(*i), name="C")
    source = _declare(A_shape, out_dtype, "wmma.accumulator", strides_from)
    target = _declare(C_shape, out_dtype, C_scope, strides_dst)

    def body(ins: Any, outs: Any) -> Stmt:
        place = tile_number(ins[0], (shape[0], shape[1]))
        rest = (outs[0].access_ptr("w"), strides_dst[0], StringImm("row_major"))
        return emit("tvm_store_matrix_sync", ins[0].data, *shape, place, *rest)

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target})


def intrin_wmma_gemm(
    AL_gemm: Any,
    WL_gemm: Any,
    CL_compute: Any,
    strides_A: Sequence[Any],
    strides_W: Sequence[Any],
    strides_Conv: Sequence[Any],
    shape: Shape,
) -> Any:
    """Multiplies fragments; `CL_compute` is the product of `AL_gemm` and `WL_gemm`. See the CUDA
    C++ Programming Guide, Warp Matrix Functions."""
    m, n, k = shape
    a, w, c = AL_gemm.op.output(0), WL_gemm.op.output(0), CL_compute.op.output(0)
    binds = {
        AL_gemm: _declare(a.shape, a.dtype, "wmma.matrix_a", strides_A),
        WL_gemm: _declare(w.shape, w.dtype, "wmma.matrix_b", strides_W),
        CL_compute: _declare(c.shape, c.dtype, "wmma.accumulator", strides_Conv),
    }

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        x, y, z = ins[0], ins[1], outs[0]
        place = tile_number(z, (m, n))
        fill = emit("tvm_fill_fragment", z.data, m, n, k, place, const(0, c.dtype))
        pairs = (x.data, tile_number(x, (m, k)), y.data, tile_number(y, (k, n)))
        multiply = emit("tvm_mma_sync", z.data, place, *pairs, z.data, place)
        return multiply, fill, multiply

    return decl_tensor_intrin(CL_compute.op, body, binds=binds)


def _declare(shape: Sequence[Any], dtype: str, scope: str, strides: Sequence[Any]) -> Buffer:
    return decl_buffer(tuple(shape), dtype, "tile", None, list(strides), None, scope, 32, 8)
