"""What becomes of the sums of attention in one kernel (attention_cores.py): results, or, where
blocks have parts of the keys, the sums themselves, which one more kernel joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...loopir import op as O
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.construct import cast
from ...loopir.expr import BufferLoad, Var, const
from ...loopir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
    vstore,
)
from ...tensor.axes import thread_axis
from ...tensor.op import domain
from .attention_plan import ROWS, WARP_ROWS
from .softmax import least
from .warp_registers import LANES, PART, QUAD, SUMS, TILE

Pair = Callable[[Any, Any, int, int], Stmt]


def digits_of(index: Any, extents: Sequence[int]) -> list[Any]:
    """The digits of a number."""
    found: list[Any] = []
    for n, extent in enumerate(extents):
        step = prod(extents[n + 1 :])
        digit = O.indexdiv(index, step) if step > 1 else index
        found.append(O.indexmod(digit, extent) if n else digit)
    return found


def _in_rows(kernel: Any, first: Callable[[Any, int], Stmt] | None, pair: Pair) -> list[Stmt]:
    """`pair(row, column, at, h)` of all neighbours that a thread has: those of a row of the block
    at a column, in half h of its registers, from `at` on; `first(row, h)` before those of a row."""
    made: list[Stmt] = []
    for h in (0, 1):
        row = kernel.warp * WARP_ROWS + O.indexdiv(kernel.lane, QUAD) + h * 8
        stores = [] if first is None else [first(row, h)]
        for e in range(kernel.wide):
            for n in (0, 1):
                column = e * TILE + n * 8 + kernel.lane % QUAD * 2
                stores.append(pair(row, column, e * PART + n * 4 + h * 2, h))
        body = seq(*stores)
        if kernel.count % ROWS:
            body = IfThenElse(kernel.block * ROWS + row < kernel.count, body)
        made.append(body)
    return made


def _stored(
    kernel: Any,
    out: Buffer,
    place: Callable[[Any], list[Any]],
    column: Any,
    at: int,
    whole: bool,
) -> Stmt:
    """Two neighbours in registers, to where they belong; `whole`: these are neighbours, too."""
    last, r = kernel.sizes.last, kernel.registers
    if whole:
        pair = r.buffers["o"].vload([const(at)], f"{SUMS}x2")
        store = vstore(out, place(column), cast(f"{out.dtype}x2", pair))
        return IfThenElse(column < last, store) if last % TILE else store
    stores = []
    for n in (0, 1):
        store = BufferStore(out, cast(out.dtype, r.load("o", at + n)), place(column + n))
        stores.append(IfThenElse(column + n < last, store) if last % TILE else store)
    return seq(*stores)


def results(kernel: Any, out: Buffer, order: Sequence[int]) -> Callable[[], list[Stmt]]:
    """The sums of values that are weighed, over those of the weights."""

    def end() -> list[Stmt]:
        r, none = kernel.registers, const(0, SUMS)
        made: list[Stmt] = []
        for h in (0, 1):
            made += r.of_quad("total", h, lambda a, b: a + b)
            share = kernel.finish(r.load("total", h), const(1, SUMS))
            made.append(r.store("scale", h, share))
        whole = kernel.sizes.last % 2 == 0 and order[-1] == len(order) - 1

        def pair(row: Any, column: Any, at: int, h: int) -> Stmt:
            axes = [*kernel.places, *digits_of(kernel.row(row), kernel.sizes.rows)]
            share = r.load("scale", h)

            def place(e: Any) -> list[Any]:
                every = [*axes, e]
                return [every[d] for d in order]

            ends = [O.select(share.equal(none), none, r.load("o", at + n) * share) for n in (0, 1)]
            two = [r.store("o", at + n, ends[n]) for n in (0, 1)]
            return seq(*two, _stored(kernel, out, place, column, at, whole))

        return [*made, *_in_rows(kernel, None, pair)]

    return end


def partial_results(kernel: Any, sums: Buffer, marks: Buffer) -> Callable[[], list[Stmt]]:
    """(parts, rows of all batches, ...): sums of weighed values, and the largest score and the sum
    of weights."""

    def end() -> list[Stmt]:
        r = kernel.registers
        made = [s for h in (0, 1) for s in r.of_quad("total", h, lambda a, b: a + b)]

        def at_row(row: Any) -> list[Any]:
            return [kernel.part, kernel.batch * kernel.count + kernel.block * ROWS + row]

        def first(row: Any, h: int) -> Stmt:
            names = enumerate(("most", "total"))
            stores = [BufferStore(marks, r.load(x, h), [*at_row(row), n]) for n, x in names]
            return IfThenElse((kernel.lane % QUAD).equal(0), seq(*stores))

        def pair(row: Any, column: Any, at: int, h: int) -> Stmt:
            even = kernel.sizes.last % 2 == 0
            return _stored(kernel, sums, lambda e: [*at_row(row), e], column, at, even)

        return [*made, *_in_rows(kernel, first, pair)]

    return end


def joined_parts(
    kernel: Any, sums: Buffer, marks: Buffer, out: Buffer, order: Sequence[int]
) -> Stmt:
    """Results of what parts leave: a block has a row, a thread an element of it."""
    sizes, none = kernel.sizes, const(0, SUMS)
    count, last = prod(sizes.batch) * kernel.count, sizes.last
    axes = [
        thread_axis((0, count), "blockIdx.x"),
        thread_axis((0, -(-last // LANES) * LANES), "threadIdx.x"),
    ]
    row, e = (a.var for a in axes)
    names = ("most", "scale", "total", "sum")
    own = {name: decl_buffer((1,), SUMS, name, scope="local") for name in names}
    part = Var("part", "int32")

    def value(name: str) -> Any:
        return BufferLoad(own[name], [const(0)])

    def store(name: str, x: Any) -> Stmt:
        return BufferStore(own[name], x, [const(0)])

    def over_parts(*body: Stmt) -> Stmt:
        return For(part, 0, kernel.parts, ForKind.SERIAL, seq(*body))

    most, weight = (BufferLoad(marks, [part, row, const(n)]) for n in (0, 1))
    scale, share = kernel.powers.of(most, least(value("most"))), value("scale")
    batch, rest = O.indexdiv(row, kernel.count), O.indexmod(row, kernel.count)
    every = [*digits_of(batch, sizes.batch), *digits_of(rest, sizes.rows), e]
    result = O.select(share.equal(none), none, value("sum") * share)
    body = seq(
        store("most", const(float("-inf"), SUMS)),
        over_parts(store("most", O.max(value("most"), most))),
        *(store(name, none) for name in ("total", "sum")),
        over_parts(
            store("scale", scale),
            store("total", value("total") + value("scale") * weight),
            store("sum", value("sum") + value("scale") * BufferLoad(sums, [part, row, e])),
        ),
        store("scale", kernel.finish(value("total"), const(1, SUMS))),
        BufferStore(out, cast(out.dtype, result), [every[d] for d in order]),
    )
    body = IfThenElse(e < last, body) if last % LANES else body
    for b in own.values():
        body = Allocate(b, body)
    for axis in reversed(axes):
        body = AttrStmt(axis, "thread_extent", domain(axis).extent, body)
    return body
