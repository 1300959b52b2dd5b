"""Tensor intrinsics of NVIDIA's tensor cores by WMMA fragments (CUDA C++ Programming Guide, "Warp
Matrix Functions").

A stage in scope "wmma.matrix_a", "wmma.matrix_b" or "wmma.accumulator" is an array of fragments:
its last two dimensions are cut into tiles of the fragment's size, and tensorize replaces the loops
over one tile. Shapes (m, n, k) and types:

    float16, to float16 or float32    (16, 16, 16), (32, 8, 16), (8, 32, 16)    sm_75
    int8, uint8, to int32             (16, 16, 16), (32, 8, 16), (8, 32, 16)    sm_75
    bfloat16, to float32              (16, 16, 16), (32, 8, 16), (8, 32, 16)    sm_80
    float32 as tf32, to float32       (16, 16, 8)                               sm_80

`layout` "row_major" is an operand with neighbours along its second index as A[i, k] and B[k, j]
have it; "col_major" is the operand stored the other way round: A[k, i], B[j, k].
"""

from __future__ import annotations

from typing import Any

from ...base.errors import ScheduleError
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import call_intrin
from ...loopir.expr import StringImm, Var, const
from ...loopir.stmt import Evaluate, Stmt
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ...tensor.reduce import sum as reduce_sum

Shape = tuple[int, int, int]

OUTPUTS = {
    "float16": ("float16", "float32"),
    "bfloat16": ("float32",),
    "float32": ("float32",),
    "int8": ("int32",),
    "uint8": ("int32",),
}
_LAYOUTS = ("row_major", "col_major")


def wmma_load(
    role: str,
    shape: Shape = (16, 16, 16),
    dtype: str = "float16",
    layout: str = "row_major",
    scope: str = "shared",
) -> Any:
    """Loads one tile of operand `role` ("a" or "b") from memory of `scope` into a fragment.

    For the stage that `cache_read(x, "wmma.matrix_a", ...)` makes; rows in memory may lie apart.
    See the CUDA C++ Programming Guide, Warp Matrix Functions. Raises ScheduleError where role is
    neither 'a' nor 'b', where `layout` is no layout of an operand, and TilewrightError where
    `dtype` is no type such as 'float32', where `scope` is not text.
    """
    if role not in ("a", "b"):
        raise ScheduleError(f"wmma_load: an operand is 'a' or 'b', not {role!r}")
    size = operand_size(role, shape, layout)
    x = placeholder(size, dtype, "x")
    y = compute(size, lambda i, j: x[i, j], name="fragment")
    source = _declare(size, dtype, scope)
    target = _declare(size, dtype, f"wmma.matrix_{role}")

    def body(ins: Any, outs: Any) -> Stmt:
        memory, f = ins[0], outs[0]
        pointer = memory.access_ptr("r")
        where = (
            f.data,
            *shape,
            tile_number(f, size),
            pointer,
            memory.strides[0],
            StringImm(layout),
        )
        return emit("tvm_load_matrix_sync", *where)

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target}, name=f"wmma_load_{role}")


def wmma_store(shape: Shape = (16, 16, 16), dtype: str = "float32", scope: str = "global") -> Any:
    """Stores one accumulator to row-major memory of `scope`, whose rows may lie apart. See the CUDA
    C++ Programming Guide, Warp Matrix Functions. Raises TilewrightError where `dtype` is no type
    such as 'float32', where `scope` is not text."""
    size = (shape[0], shape[1])
    x = placeholder(size, dtype, "x")
    y = compute(size, lambda i, j: x[i, j], name="tile")
    source = _declare(size, dtype, "wmma.accumulator")
    target = _declare(size, dtype, scope)

    def body(ins: Any, outs: Any) -> Stmt:
        f, memory = ins[0], outs[0]
        pointer = memory.access_ptr("w")
        where = (f.data, *shape, tile_number(f, size), pointer, memory.strides[0])
        return emit("tvm_store_matrix_sync", *where, StringImm("row_major"))

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target}, name="wmma_store")


def wmma_fill(value: float = 0.0, shape: Shape = (16, 16, 16), dtype: str = "float32") -> Any:
    """Fills one accumulator with a number. See the CUDA C++ Programming Guide, Warp Matrix
    Functions."""
    size = (shape[0], shape[1])
    y = compute(size, lambda i, j: const(value, dtype), name="fill")
    target = _declare(size, dtype, "wmma.accumulator")

    def body(ins: Any, outs: Any) -> Stmt:
        f = outs[0]
        return emit("tvm_fill_fragment", f.data, *shape, tile_number(f, size), const(value, dtype))

    return decl_tensor_intrin(y.op, body, binds={y: target}, name="wmma_fill")


def wmma_gemm(
    shape: Shape = (16, 16, 16),
    dtype: str = "float16",
    out_dtype: str = "float32",
    a_layout: str = "row_major",
    b_layout: str = "row_major",
) -> Any:
    """Multiplies fragments: a sum over k of products that are cast to `out_dtype`.

    For a stage made by `cache_write(c, "wmma.accumulator")` of

        compute((n, m), lambda i, j: te.sum(A[i, k].astype(out) * B[k, j].astype(out), axis=k))

    without casts where `dtype` is `out_dtype`; indices of an operand that is "col_major" are
    exchanged. See the CUDA C++ Programming Guide, Warp Matrix Functions. Raises ScheduleError, a
    TilewrightError, where tensor cores do not multiply `dtype` to `out_dtype`, or a layout is no
    layout of an operand. Whether they have the shape shows when code is made.
    """
    if out_dtype not in OUTPUTS.get(dtype, ()):
        known = ", ".join(f"{a} to {' or '.join(b)}" for a, b in OUTPUTS.items())
        raise ScheduleError(f"wmma_gemm: {dtype} does not give {out_dtype}; there are {known}")
    m, n, depth = shape
    sizes = [operand_size("a", shape, a_layout), operand_size("b", shape, b_layout)]
    a, b = placeholder(sizes[0], dtype, "a"), placeholder(sizes[1], dtype, "b")
    k = reduce_axis((0, depth), "k")

    def product(i: Any, j: Any) -> Any:
        x: Any = a[i, k] if a_layout == "row_major" else a[k, i]
        y: Any = b[k, j] if b_layout == "row_major" else b[j, k]
        if dtype != out_dtype:
            x, y = x.astype(out_dtype), y.astype(out_dtype)
        return reduce_sum(x * y, axis=k)

    c = compute((m, n), product, name="product")
    fa = _declare(sizes[0], dtype, "wmma.matrix_a")
    fb = _declare(sizes[1], dtype, "wmma.matrix_b")
    fc = _declare((m, n), out_dtype, "wmma.accumulator")

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        x, y, z = ins[0], ins[1], outs[0]
        own = (z.data, tile_number(z, (m, n)))
        pairs = (*own, x.data, tile_number(x, sizes[0]), y.data, tile_number(y, sizes[1]), *own)
        zero = const(0, out_dtype)
        fill = emit("tvm_fill_fragment", z.data, *shape, tile_number(z, (m, n)), zero)
        multiply = emit("tvm_mma_sync", *pairs)
        return multiply, fill, multiply

    return decl_tensor_intrin(c.op, body, binds={a: fa, b: fb, c: fc}, name="wmma_gemm")


def operand_size(role: str, shape: Shape, layout: str) -> tuple[int, int]:
    """Rows and columns of an operand's tile as it lies in memory."""
    if layout not in _LAYOUTS:
        raise ScheduleError(f"a layout is one of {', '.join(_LAYOUTS)}, not {layout!r}")
    m, n, k = shape
    rows, columns = (m, k) if role == "a" else (k, n)
    return (rows, columns) if layout == "row_major" else (columns, rows)


def _declare(size: tuple[int, int], dtype: str, scope: str) -> Buffer:
    """A tile whose rows may lie apart, at any multiple of 8 elements."""
    stride = Var("stride", "int32")
    return decl_buffer(size, dtype, "tile", None, [stride, 1], None, scope, 32, 8)


def tile_number(f: Buffer, size: tuple[int, int]) -> Any:
    """The number of a fragment among those of its array, row of tiles by row of tiles."""
    rows, columns = size
    stride, offset = f.strides[0], f.elem_offset
    line = stride * rows
    return offset // line * (stride // columns) + offset % line // columns


def emit(name: str, *args: Any) -> Stmt:
    """A call of tir.`name` as a statement."""
    return Evaluate(call_intrin("handle", f"tir.{name}", *args))
