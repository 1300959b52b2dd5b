"""Tensor intrinsics of NVIDIA's tensor cores by mma and ldmatrix (PTX ISA, "Matrix Fragments for
mma.m16n8k16"), from sm_80 on.

Tiles of 16 x 16 x 16, of bytes 16 x 16 x 32, of float32 16 x 16 x 8, which take two instructions.
Of float32 those see tf32, 10 bits of mantissa: what is multiplied has to be rounded before
(`round_to_tf32`), as instructions would leave the other bits out. Fragments are arrays in
scope "local", of which a thread uses a 32nd of each tile's elements, from the start; lowering cuts
off the rest (trim_fragments). Loops over tiles must be unrolled for that, and threadIdx.x has 32
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dtype import parse
from ...base.errors import ScheduleError
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import call_intrin
from ...loopir.construct import cast
from ...loopir.expr import Broadcast, StringImm, Var, const
from ...loopir.iter import IterVar
from ...loopir.op import if_then_else, isfinite, reinterpret
from ...loopir.stmt import AttrStmt, Evaluate, Stmt, seq
from ...tensor.axes import reduce_axis, thread_axis
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ...tensor.reduce import sum as reduce_sum
from .wmma import OUTPUTS, tile_number

SIZE = 16
_ROW = 32  # bytes of a tile along the reduction
_LANES = 32
_TILE = (SIZE, SIZE)
_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "tf32", "int8": "int8", "uint8": "uint8",
}  # fmt: skip
_NAMES = {"float16": "fp16", "float32": "fp32", "int32": "int32"}


def mma_load(
    role: str, dtype: str = "float16", layout: str = "row_major", scope: str = "shared"
) -> Any:
    """Loads a tile of operand `role` ("a" or "b") from shared memory by ldmatrix.

    `layout`: "row_major" as A[i, k] and B[k, j] have it, for "b" also "col_major", B[j, k], the
    only one for bytes and float32: ldmatrix transposes pairs of bytes. Rows must start at multiples
    of 16 bytes. See the PTX ISA, mma and ldmatrix. Raises ScheduleError where there is no operand
    of that role in that layout, where dtype is none of those that mma takes, and TilewrightError
    where `dtype` is no type such as 'float32', where `scope` is not text.
    """
    _check(dtype)
    if role not in ("a", "b") or layout not in ("row_major", "col_major"):
        raise ScheduleError(f"mma_load: there is no operand {role!r} in {layout!r}")
    if role == "a" and layout != "row_major":
        raise ScheduleError("mma_load: operand a is row_major; store A with k as its last index")
    across = role == "b" and layout == "row_major"
    if across and parse(dtype).nbytes != 2:
        raise ScheduleError(
            f"mma_load: b of {dtype} is col_major; store B with k as its last index"
        )
    size = (SIZE, depth(dtype))
    x = placeholder(size, dtype, "x")
    y = compute(size, lambda i, j: x[i, j], name="fragment")
    source, target = _declare(dtype, scope, size), _declare(dtype, "local", size)
    half = depth(dtype) // 2

    def body(ins: Any, outs: Any) -> Stmt:
        memory, f = ins[0], outs[0]
        lane, around = _lane()
        low, high = lane % SIZE, lane // SIZE * half
        if role == "b" and layout == "col_major":  # four matrices: k within n
            low, high = lane % 8 + lane // SIZE * 8, lane // 8 % 2 * half
        start = low * memory.strides[0] + high
        pointer = memory.access_ptr("r")
        args = (across, 4, StringImm(".b16"), f.data, _start(f, size), pointer, start)
        return around(Evaluate(call_intrin(dtype, "tir.ptx_ldmatrix", *args)))

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target}, name=f"mma_load_{role}")


def mma_gemm(
    dtype: str = "float16", out_dtype: str = "float32", b_layout: str = "row_major"
) -> Any:
    """Multiplies fragments of 16 x 16 x 16 by two m16n8k16, of bytes 16 x 16 x 32 by two m16n8k32,
    of float32 16 x 16 x 8 by two m16n8k8; see wmma_gemm for the expression. See the PTX ISA, mma
    and ldmatrix. Raises ScheduleError where dtype does not give out_dtype, where dtype is none of
    those that mma takes, and TilewrightError where `dtype` is no type such as 'float32'."""
    _check(dtype)
    if out_dtype not in OUTPUTS[dtype]:
        raise ScheduleError(f"mma_gemm: {dtype} gives {OUTPUTS[dtype]}, not {out_dtype}")
    steps = depth(dtype)
    size_b = (steps, SIZE) if b_layout == "row_major" else (SIZE, steps)
    a, b = placeholder((SIZE, steps), dtype, "a"), placeholder(size_b, dtype, "b")
    k = reduce_axis((0, steps), "k")

    def product(i: Any, j: Any) -> Any:
        x: Any = a[i, k]
        y: Any = b[k, j] if b_layout == "row_major" else b[j, k]
        if dtype != out_dtype:
            x, y = x.astype(out_dtype), y.astype(out_dtype)
        return reduce_sum(x * y, axis=k)

    c = compute(_TILE, product, name="product")
    fa, fb = _declare(dtype, "local", (SIZE, steps)), _declare(dtype, "local", size_b)
    fc = _declare(out_dtype, "local")
    kind = [StringImm(x) for x in (_TYPES[dtype], _TYPES[dtype], _NAMES[out_dtype])]

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        x, y, z = ins[0], ins[1], outs[0]
        lanes = Broadcast(const(0, out_dtype), _part(_TILE))
        fill = z.vstore([0, _start(z) - z.elem_offset], lanes)
        shape = [StringImm(t) for t in (f"m16n8k{steps}", "row", "col")]
        halves = []
        for n in range(2):
            half = _start(y, size_b) + _part(size_b) // 2 * n
            places = (x.data, _start(x, (SIZE, steps)), y.data, half)
            own = (z.data, _start(z) + 4 * n)
            call = call_intrin(out_dtype, "tir.ptx_mma", *shape, *kind, *places, *own, False)
            halves.append(Evaluate(call))
        multiply = seq(*halves)
        return multiply, fill, multiply

    return decl_tensor_intrin(c.op, body, binds={a: fa, b: fb, c: fc}, name="mma_gemm")


def mma_store(dtype: str = "float32", out_dtype: str | None = None, scope: str = "global") -> Any:
    """Stores an accumulator of `dtype` to memory, row-major, as `out_dtype` where that is given:
    then the stage's expression is a cast. See the PTX ISA, mma and ldmatrix. Raises TilewrightError
    where `dtype` is no type such as 'float32', where `scope` is not text."""
    out = out_dtype or dtype
    x = placeholder(_TILE, dtype, "x")
    y = compute(_TILE, lambda i, j: x[i, j] if out == dtype else x[i, j].astype(out), name="tile")
    source, target = _declare(dtype, "local"), _declare(out, scope)

    def body(ins: Any, outs: Any) -> Stmt:
        f, memory = ins[0], outs[0]
        lane, around = _lane()
        stores = []
        for n in range(2):
            for m in range(2):
                place = _start(f) - f.elem_offset + (4 * n + 2 * m)
                pair = f.vload([0, place], f"{dtype}x2")
                value = pair if out == dtype else cast(f"{out}x2", pair)
                row, column = lane // 4 + 8 * m, lane % 4 * 2 + 8 * n
                stores.append(memory.vstore([row, column], value))
        return around(seq(*stores))

    return decl_tensor_intrin(y.op, body, binds={x: source, y: target}, name="mma_store")


def round_to_tf32(x: Any) -> Any:
    """A float32 to the nearest one with 10 bits of mantissa, halves away from zero: what
    `cvt.rna.tf32` makes of it. Raises OperandError where `x` is neither a number nor an expression,
    and TilewrightError where the types are not of the same width, where `x` is a handle or a vector
    of another length."""
    bits = reinterpret("uint32", x)
    rounded = reinterpret("float32", (bits + const(0x1000, "uint32")) & const(0xFFFFE000, "uint32"))
    return if_then_else(isfinite(x), rounded, x)


def depth(dtype: str) -> int:
    """Steps of the reduction in a tile."""
    return _ROW // parse(dtype).nbytes


def _check(dtype: str) -> None:
    if dtype not in _TYPES:
        known = ", ".join(_TYPES)
        raise ScheduleError(f"mma takes one of {known}, not {dtype}; see wmma for others")


def _declare(dtype: str, scope: str, size: tuple[int, int] = _TILE) -> Buffer:
    stride = Var("stride", "int32")
    return decl_buffer(size, dtype, "tile", None, [stride, 1], None, scope, 16, 8)


def _part(size: tuple[int, int]) -> int:
    """Elements of a tile that a thread holds."""
    return size[0] * size[1] // _LANES


def _start(f: Buffer, size: tuple[int, int] = _TILE) -> Any:
    """Where a thread's part of a tile begins: one tile behind the other."""
    return tile_number(f, size) * _part(size)


def _lane() -> tuple[Any, Callable[[Stmt], Stmt]]:
    """The number of a thread in its warp, and what declares it around a statement."""
    axis: IterVar = thread_axis((0, _LANES), "threadIdx.x")
    return axis.var, lambda body: AttrStmt(axis, "thread_extent", const(_LANES), body)
