"""Tensor intrinsics by WMMA under TVM's names and arguments, tiles of any rank.

`strides_*` are those of the tile in the buffer that an intrinsic reads or fills, `shape` is
(m, n, k). topi.tensor_intrin has intrinsics that find strides by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import call_intrin
from ...loopir.expr import StringImm, const
from ...loopir.stmt import Evaluate, Stmt
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin

Shape = tuple[int, int, int]


def intrin_wmma_load_matrix_A(
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    A_shape: Sequence[int],
    C_shape: Sequence[int],
    in_dtype: str,
) -> Any:
    """Loads a tile of A from shared memory, row_major or col_major."""
    tile = (shape[0], shape[2]) if layout == "row_major" else (shape[2], shape[0])
    return _load("wmma.matrix_a", strides_dst, strides_from, shape, layout, tile, A_shape, in_dtype)


def intrin_wmma_load_matrix_W(
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    A_shape: Sequence[int],
    C_shape: Sequence[int],
    in_dtype: str,
) -> Any:
    """Loads a tile of B, the weight, from shared memory, row_major or col_major."""
    tile = (shape[2], shape[1]) if layout == "row_major" else (shape[1], shape[2])
    return _load("wmma.matrix_b", strides_dst, strides_from, shape, layout, tile, A_shape, in_dtype)


def _load(
    scope: str,
    strides_dst: Sequence[Any],
    strides_from: Sequence[Any],
    shape: Shape,
    layout: str,
    tile: tuple[int, int],
    size: Sequence[int],
    dtype: str,
) -> Any:
    x = placeholder(tuple(size), dtype, "A")
    y = compute(tuple(size), lambda *i: x(*i), name="C")
    source = _declare(size, dtype, "shared", strides_from)
    target = _declare(size, dtype, scope, strides_dst)

    def body(ins: Any, outs: Any) -> Stmt:
        place = _number(outs[0], tile)
        rest = (ins[0].access_ptr("r"), strides_from[0], StringImm(layout))
        return _emit("tvm_load_matrix_sync", outs[0].data, *shape, place, *rest)

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
    """Stores an accumulator, row_major."""
    x = placeholder(tuple(A_shape), out_dtype, "A")
    y = compute(tuple(C_shape), lambda *i: x(*i), name="C")
    source = _declare(A_shape, out_dtype, "wmma.accumulator", strides_from)
    target = _declare(C_shape, out_dtype, C_scope, strides_dst)

    def body(ins: Any, outs: Any) -> Stmt:
        place = _number(ins[0], (shape[0], shape[1]))
        rest = (outs[0].access_ptr("w"), strides_dst[0], StringImm("row_major"))
        return _emit("tvm_store_matrix_sync", ins[0].data, *shape, place, *rest)

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
    """Multiplies fragments; `CL_compute` is the product of `AL_gemm` and `WL_gemm`."""
    m, n, k = shape
    a, w, c = AL_gemm.op.output(0), WL_gemm.op.output(0), CL_compute.op.output(0)
    binds = {
        AL_gemm: _declare(a.shape, a.dtype, "wmma.matrix_a", strides_A),
        WL_gemm: _declare(w.shape, w.dtype, "wmma.matrix_b", strides_W),
        CL_compute: _declare(c.shape, c.dtype, "wmma.accumulator", strides_Conv),
    }

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        x, y, z = ins[0], ins[1], outs[0]
        place = _number(z, (m, n))
        fill = _emit("tvm_fill_fragment", z.data, m, n, k, place, const(0, c.dtype))
        pairs = (x.data, _number(x, (m, k)), y.data, _number(y, (k, n)))
        multiply = _emit("tvm_mma_sync", z.data, place, *pairs, z.data, place)
        return multiply, fill, multiply

    return decl_tensor_intrin(CL_compute.op, body, binds=binds)


def _declare(shape: Sequence[Any], dtype: str, scope: str, strides: Sequence[Any]) -> Buffer:
    return decl_buffer(tuple(shape), dtype, "tile", None, list(strides), None, scope, 32, 8)


def _number(f: Buffer, tile: tuple[int, int]) -> Any:
    """The number of a fragment in its array, in which tiles lie row of tiles by row of tiles."""
    rows, columns = tile
    stride, offset = f.strides[0], f.elem_offset
    line = stride * rows
    return offset // line * (stride // columns) + offset % line // columns


def _emit(name: str, *args: Any) -> Stmt:
    return Evaluate(call_intrin("handle", f"tir.{name}", *args))
