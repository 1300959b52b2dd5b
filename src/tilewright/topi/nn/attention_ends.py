"""What becomes of the sums of attention in one kernel (attention_kernel.py): results, or, where
blocks have parts of the keys, the sums themselves, which one more kernel joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.construct import cast
from ...loopir.expr import BufferLoad, Var, const, convert
from ...loopir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)
from ...tensor.axes import thread_axis
from ...tensor.op import domain
from ..schedules.gpu.machine import VECTOR_BYTES
from .softmax import least
from .warp_registers import SUMS, TILE

_JOINING = 128  # threads of a block that joins parts


def digits_of(index: Any, extents: Sequence[int]) -> list[Any]:
    """The digits of a number."""
    found: list[Any] = []
    for n, extent in enumerate(extents):
        step = prod(extents[n + 1 :])
        digit = O.indexdiv(index, step) if step > 1 else index
        found.append(O.indexmod(digit, extent) if n else digit)
    return found


def _in_rows(
    kernel: Any,
    out: Buffer,
    first: Callable[[Any, int], Stmt] | None,
    place: Callable[[Any, Any], list[Any]],
) -> list[Stmt]:
    """Store the sums of all rows, `first(row, h)` before those of a thread's row h; `place(row,
    column)`: where in `out`."""
    last, whole = kernel.sizes.last, place(const(0), None)[-1] is None
    widest = VECTOR_BYTES // parse(out.dtype).nbytes
    made: list[Stmt] = []
    for h in range(kernel.core.count):
        row = kernel.core.row(h)
        joined, neighbours = kernel.core.neighbours(h, gcd(widest, last) if whole else 1)
        made += joined
        stores = [] if first is None else [first(row, h)]
        for column, lanes, name, at in neighbours:
            own = kernel.registers.buffers[name]
            width = gcd(lanes, last) if whole else 1
            for n in range(0, lanes, width):
                lane = Var("lane", "int32")
                value = cast(out.dtype, BufferLoad(own, [lane + (at + n)]))
                store: Stmt = BufferStore(out, value, place(row, column + n + lane))
                kind = ForKind.VECTORIZED if width > 1 else ForKind.SERIAL
                store = For(lane, 0, width, kind, store)
                stores.append(IfThenElse(column + n < last, store) if last % TILE else store)
        body = seq(*stores)
        inside = kernel.is_row(row)
        made.append(body if inside is None else IfThenElse(inside, body))
    return made


def results(kernel: Any, out: Buffer, order: Sequence[int]) -> Callable[[], list[Stmt]]:
    """The sums of values that are weighed, over those of the weights."""

    def place(row: Any, column: Any) -> list[Any]:
        every = [*kernel.places, *digits_of(kernel.row(row), kernel.sizes.rows), column]
        return [every[d] for d in order]

    def end() -> list[Stmt]:
        core, r, none = kernel.core, kernel.registers, const(0, SUMS)
        made: list[Stmt] = []
        for h in range(core.count):
            made += core.of_row("total", h, lambda a, b: a + b)
            share = kernel.finish(r.load("total", h), const(1, SUMS))
            made.append(r.store("scale", h, share))
        for at in range(int(r.buffers["o"].shape[0])):
            share = r.load("scale", core.half("o", at))
            result = O.select(share.equal(none), none, r.load("o", at) * share)
            made.append(r.store("o", at, result))
        return [*made, *_in_rows(kernel, out, None, place)]

    return end


def partial_results(kernel: Any, sums: Buffer, marks: Buffer) -> Callable[[], list[Stmt]]:
    """(parts, rows of all batches, ...): sums of weighed values, and the largest score and the sum
    of weights."""

    def place(row: Any, column: Any) -> list[Any]:
        return [kernel.part, kernel.batch * kernel.count + kernel.row(row), column]

    def end() -> list[Stmt]:
        core, r = kernel.core, kernel.registers
        made: list[Stmt] = []
        for h in range(core.count):
            made += core.of_row("total", h, lambda a, b: a + b)

        def first(row: Any, h: int) -> Stmt:
            names = enumerate(("most", "total"))
            stores = [BufferStore(marks, r.load(x, h), place(row, n)) for n, x in names]
            return IfThenElse(core.first_of_row(), seq(*stores))

        return [*made, *_in_rows(kernel, sums, first, place)]

    return end


def joined_parts(
    kernel: Any, sums: Buffer, marks: Buffer, out: Buffer, order: Sequence[int]
) -> Stmt:
    """Results of what parts leave: a block has some rows, a thread a vector of one."""
    sizes, none = kernel.sizes, const(0, SUMS)
    count, last = prod(sizes.batch) * kernel.count, sizes.last
    lanes = gcd(VECTOR_BYTES // parse(SUMS).nbytes, last)
    each = last // lanes  # threads of a row
    rows = min(count, -(-_JOINING // each))
    axes = [
        thread_axis((0, -(-count // rows)), "blockIdx.x"),
        thread_axis((0, rows * each), "threadIdx.x"),
    ]
    block, thread = (a.var for a in axes)
    row, e = block * rows + O.indexdiv(thread, each), O.indexmod(thread, each) * lanes
    own = {
        name: decl_buffer((n,), SUMS, name, scope="local")
        for name, n in {"most": 1, "scale": 1, "total": 1, "sum": lanes}.items()
    }
    part = Var("part", "int32")

    def value(name: str, at: Any = 0) -> Any:
        return BufferLoad(own[name], [convert(at)])

    def store(name: str, x: Any, at: Any = 0) -> Stmt:
        return BufferStore(own[name], x, [convert(at)])

    def over_parts(*body: Stmt) -> Stmt:
        return For(part, 0, kernel.parts, ForKind.SERIAL, seq(*body))

    def in_vector(of: Callable[[Any], Stmt]) -> Stmt:
        lane = Var("lane", "int32")
        kind = ForKind.VECTORIZED if lanes > 1 else ForKind.SERIAL
        return For(lane, 0, lanes, kind, of(lane))

    most, weight = (BufferLoad(marks, [part, row, const(n)]) for n in (0, 1))
    scale, share = kernel.powers.of(most, least(value("most"))), value("scale")
    batch, rest = O.indexdiv(row, kernel.count), O.indexmod(row, kernel.count)
    places = [*digits_of(batch, sizes.batch), *digits_of(rest, sizes.rows)]

    def added(lane: Any) -> Stmt:
        sums_of = BufferLoad(sums, [part, row, e + lane])
        return store("sum", value("sum", lane) + value("scale") * sums_of, lane)

    def result(lane: Any) -> Stmt:
        x = O.select(share.equal(none), none, value("sum", lane) * share)
        every = [*places, e + lane]
        return BufferStore(out, cast(out.dtype, x), [every[d] for d in order])

    body = seq(
        store("most", const(float("-inf"), SUMS)),
        over_parts(store("most", O.max(value("most"), most))),
        store("total", none),
        in_vector(lambda lane: store("sum", none, lane)),
        over_parts(
            store("scale", scale),
            store("total", value("total") + value("scale") * weight),
            in_vector(added),
        ),
        store("scale", kernel.finish(value("total"), const(1, SUMS))),
        in_vector(result),
    )
    body = IfThenElse(row < count, body) if count % rows else body
    for b in own.values():
        body = Allocate(b, body)
    for axis in reversed(axes):
        body = AttrStmt(axis, "thread_extent", domain(axis).extent, body)
    return body
