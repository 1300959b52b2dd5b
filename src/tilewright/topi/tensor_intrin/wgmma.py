"""The tensor intrinsics of Hopper's warp groups: a whole tile of a product, from arrays on the
device to sums in registers, by wgmma and TMA (sm_90a), and some of its columns from there to shared
memory.

The product is one opaque piece for the whole reduction: its stages of shared memory turn with
barriers that count bytes, which no passes know how to place, so it brings its own barriers and
`sync_threads` leaves it alone. One thread starts the copies of a step; each warp group of 128
threads multiplies 64 rows of the tile, a step while the next ones are on their way. A stage is
filled again when all warps have waited for the products that read it. `specialized`: the thread
that copies is one of a warp group of its own, which waits for the others at barriers too, so that
these never wait for each other; else it is one of those that multiply, and all meet after each
step.

Blocks of a cluster (`cluster`), which lie below or beside each other, read the same lines of one
operand: each brings a part of them to all, so that the second-level cache is asked once. A stage is
filled again when the warps of all have waited. Or each multiplies a part of the reduction for what
all of them make (`joined`), and they add up their sums in each other's shared memory, each those of
its own columns: a reduction that is cut without a kernel that joins it.

A block may make several tiles (`persistent`, the pragma "persistent_blocks"): the warp group that
copies goes on with the next one while the others store their sums, and barriers count on. Or all
steps of all tiles are shared evenly (`stream`, stream-K): a block begins and ends within a tile.

Operands are read by tensor maps, which give zeros beyond the edges of the arrays: the tile may
reach over them, and a reduction need not divide.

Sums are an array in scope "local" of the tile's shape, of which a thread uses as many elements as
it has sums, from the start; lowering cuts off the rest (trim_fragments).
"""

from __future__ import annotations

from typing import Any

from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.expr import FloorDiv, FloorMod, Var, const
from ...loopir.stmt import AttrStmt, IfThenElse, Stmt, seq
from ...tensor.axes import reduce_axis, thread_axis
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ...tensor.reduce import sum as reduce_sum
from .warp_group_tile import SUMS, WarpGroupTile
from .wgmma_body import Body


def wgmma_tile(tile: WarpGroupTile) -> Any:
    """The intrinsic of the product; its output is a tile in registers. The block has
    `tile.block_threads` threads along threadIdx.x. See the PTX ISA, wgmma."""
    m, n, k = tile.there, tile.columns, tile.length or tile.extents[2]
    sums = SUMS[tile.dtype]
    one = () if tile.batch is None else (1,)
    size_a = (*one, m, k) if tile.along[0] else (*one, k, m)
    size_b = (*one, n, k) if tile.along[1] else (*one, k, n)
    a, b = placeholder(size_a, tile.dtype, "a"), placeholder(size_b, tile.dtype, "b")
    axis = reduce_axis((0, k), "k")

    def product(*at: Any) -> Any:
        *lead, i, j = at
        x: Any = a[(*lead, i, axis)] if tile.along[0] else a[(*lead, axis, i)]
        y: Any = b[(*lead, j, axis)] if tile.along[1] else b[(*lead, axis, j)]
        return reduce_sum(x.astype(sums) * y.astype(sums), axis=axis)

    c = compute((*one, m, n), product, name="product")
    binds = {
        a: _declare(size_a, tile.dtype, "global"),
        b: _declare(size_b, tile.dtype, "global"),
        c: _declare((*one, m, n), sums, "local"),
    }

    steps = [] if tile.windows is None else [Var("stride", "int32") for _ in tile.windows.dims[1:]]

    def body(ins: Any, outs: Any) -> Stmt:
        return Body(tile, ins[0], ins[1], outs[0], steps[::-1]).whole()

    views = None if tile.windows is None else {a: steps}
    return decl_tensor_intrin(c.op, body, "wgmma_tile", binds, clips=True, views=views)


def wgmma_store(tile: WarpGroupTile, columns: int) -> Any:
    """The intrinsic that stores so many columns of a tile in registers, a multiple of 8, to shared
    memory, in pairs. See the PTX ISA, wgmma, "Register Fragments"."""
    sums = SUMS[tile.dtype]
    one = () if tile.batch is None else (1,)
    shape = (*one, tile.held, columns)
    x = placeholder(shape, sums, "x")

    def element(*at: Any) -> Any:
        *lead, four, row, j = at
        return x[(*lead, four * 4 + row, j)]

    if tile.fours:
        kept: tuple[int, ...] = (*one, tile.held // 4, 4, columns)
        y = compute(kept, element, name="columns")
    else:
        kept = shape
        y = compute(shape, lambda *at: x[at], name="columns")
    axis = thread_axis((0, tile.block_threads), "threadIdx.x")
    t: Any = axis.var
    row = FloorDiv(t, const(32)) * 16 + FloorDiv(FloorMod(t, const(32)), const(4))
    column = FloorMod(t, const(4)) * 2
    lead = [0] * len(one)

    def body(ins: Any, outs: Any) -> Stmt:
        registers, memory = ins[0], outs[0]
        first: Any = registers.elem_offset  # the number of the first column
        halves: list[Stmt] = []
        for below in (0, 8):
            made: list[Stmt] = []
            at: Any = row + below
            rows = [FloorDiv(at, const(4)), FloorMod(at, const(4))] if tile.fours else [at]
            for n in range(0, columns, 8):
                place = FloorDiv(first, const(2)) - first + (n // 2 + below // 4)
                value = registers.vload([*lead, 0, place], f"{sums}x2")
                made.append(memory.vstore([*lead, *rows, column + n], value))
            is_there = at < tile.held
            halves.append(seq(made) if tile.held == tile.rows else IfThenElse(is_there, seq(made)))
        store = IfThenElse(t < tile.threads, seq(halves))
        return AttrStmt(axis, "thread_extent", const(tile.block_threads), store)

    binds = {x: _declare(shape, sums, "local"), y: _declare(kept, sums, "shared")}
    return decl_tensor_intrin(y.op, body, "wgmma_store", binds)


def _declare(shape: tuple[int, ...], dtype: str, scope: str) -> Buffer:
    offset = Var("offset", "int32")
    strides = [*(Var("stride", "int32") for _ in shape[1:]), 1]
    return decl_buffer(shape, dtype, "tile", None, strides, offset, scope)
