"""inject_double_buffer, inject_prefetch, inject_rolling_buffer: work ahead and work kept."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import as_a, int_of
from tests.unit.lowering.builders import K, checked, function, lines, loop, nodes
from tilewright import te
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.lowering.inject_double_buffer import inject_double_buffer
from tilewright.lowering.inject_prefetch import inject_prefetch
from tilewright.lowering.inject_rolling_buffer import inject_rolling_buffer
from tilewright.lowering.options import LowerOptions

A = Buffer((64,), "float32", "A")
B = Buffer((64,), "float32", "B")
DATA = {"A": np.arange(64, dtype="float32"), "B": np.zeros(64, "float32")}


def tile(tmp: Buffer, i: E.Var, source: Buffer = A) -> S.Stmt:
    """Fill tmp[0:4] for step i, then use it."""
    fill = loop("j", 4, lambda j: S.BufferStore(tmp, source[i * 4 + j], [j]))
    use = loop("j", 4, lambda j: S.BufferStore(B, tmp[3 - j] + 1.0, [i * 4 + j]))
    attr = S.AttrStmt(tmp, "double_buffer_scope", 1, fill)
    return S.Allocate(tmp, S.seq(attr, use))


def double(extent: object, kind: int = K.SERIAL, source: Buffer = A) -> S.Stmt:
    tmp = Buffer((4,), "float32", "T")
    return loop("i", extent, lambda i: tile(tmp, i, source), kind)


@pytest.mark.parametrize("split", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_double_buffer_keeps_values(split: int, n: int) -> None:
    options = LowerOptions(double_buffer_split_loop=split)
    new = checked(inject_double_buffer, function(double(n), A, B), DATA, options)
    symbolic = E.Var("n")
    func = function(double(symbolic), A, B, scalars=(symbolic,))
    for value in (0, n):
        new = checked(inject_double_buffer, func, DATA, options, n=value)
    assert int(nodes(new, S.Allocate)[0].buffer.shape[0]) == 8
    assert not nodes(new, S.AttrStmt)


def test_double_buffer_fills_ahead() -> None:
    new = inject_double_buffer(function(double(8), A, B), LowerOptions())
    text = "\n".join(lines(new))
    first, main, last = as_a(S.SeqStmt, as_a(S.Allocate, new.body).body).seq
    assert type(new.body) is S.Allocate and "T_1[j" in str(first)
    assert type(main) is S.For and int_of(main.extent) == 7
    fill, use = as_a(S.SeqStmt, main.body).seq
    assert "(i + 1) % 2 * 4" in str(fill) and "i % 2 * 4" in str(use)
    assert "A" not in {x.buffer.name for x in nodes(last, E.BufferLoad)}, text


@pytest.mark.parametrize("n", [0, -3])
def test_an_empty_loop_fills_nothing_beforehand(n: int) -> None:
    new = checked(inject_double_buffer, function(double(n), A, B), DATA)
    assert type(new.body) is S.For and int(nodes(new, S.Allocate)[0].buffer.shape[0]) == 4


def test_double_buffer_with_a_condition() -> None:
    options = LowerOptions(double_buffer_split_loop=0)
    new = inject_double_buffer(function(double(8), A, B), options)
    (guard,) = nodes(new, S.IfThenElse)
    assert "T.likely(i + 1 < 8)" in str(guard.condition)


def test_no_double_buffer_where_it_would_be_wrong() -> None:
    for body in (double(8, K.PARALLEL), double(8, source=B)):
        new = checked(inject_double_buffer, function(body, A, B), DATA)
        assert int(nodes(new, S.Allocate)[0].buffer.shape[0]) == 4
        assert not nodes(new, S.AttrStmt)


def test_two_double_buffers_in_one_loop() -> None:
    one, two = Buffer((4,), "float32", "T"), Buffer((4,), "float32", "U")

    def body_of(i: E.Var) -> S.Stmt:
        fills = []
        for b, k in ((one, 0), (two, 3)):
            fill = loop("j", 4, lambda j, b=b, k=k: S.BufferStore(b, A[i * 4 + (j + k) % 4], [j]))
            fills.append(S.AttrStmt(b, "double_buffer_scope", 1, fill))
        use = loop("j", 4, lambda j: S.BufferStore(B, one[j] * two[j], [i * 4 + j]))
        return S.Allocate(one, S.Allocate(two, S.seq(*fills, use)))

    new = checked(inject_double_buffer, function(loop("i", 5, body_of), A, B), DATA)
    assert [int(s.buffer.shape[0]) for s in nodes(new, S.Allocate)] == [8, 8]


def test_double_buffer_filled_for_a_double_buffer() -> None:
    inner, outer = Buffer((2,), "float32", "T"), Buffer((2,), "float32", "U")

    def body_of(i: E.Var) -> S.Stmt:
        first = loop("j", 2, lambda j: S.BufferStore(inner, A[i * 2 + j], [j]))
        second = loop("j", 2, lambda j: S.BufferStore(outer, inner[1 - j] + 1.0, [j]))
        fill = S.seq(S.AttrStmt(inner, "double_buffer_scope", 1, first), second)
        fill = S.AttrStmt(outer, "double_buffer_scope", 1, S.Allocate(inner, fill))
        use = loop("j", 2, lambda j: S.BufferStore(B, outer[j] * 2.0, [i * 2 + j]))
        return S.Allocate(outer, S.seq(fill, use))

    new = checked(inject_double_buffer, function(loop("i", 6, body_of), A, B), DATA)
    sizes = {s.buffer.name: int(s.buffer.shape[0]) for s in nodes(new, S.Allocate)}
    assert sizes == {"T": 2, "U": 4}


# -- prefetch


def prefetches(func: S.PrimFunc) -> list[E.Call]:
    return [c for c in nodes(func, E.Call) if c.op.name == "tir.prefetch"]


def test_prefetch_asks_for_each_line_of_the_region_once() -> None:
    wide = Buffer((8, 64), "float32", "A")
    out = Buffer((8, 64), "float32", "B")

    def body_of(i: E.Var) -> S.Stmt:
        inner = loop("j", 40, lambda j: S.BufferStore(out, wide[i, j] + wide[i, j + 8], [i, j]))
        return S.AttrStmt(wide, "prefetch_scope", 2, inner)

    func = function(loop("i", 5, body_of), wide, out)
    data = {n: np.ones((8, 64), "float32") for n in "AB"}
    new = checked(inject_prefetch, func, data)
    (call,) = prefetches(new)
    (row, line) = nodes(new, S.For)[1:3]
    assert int(row.extent) == 1 and int(line.extent) == 3
    (load,) = (as_a(E.BufferLoad, a) for a in as_a(E.Call, call.args[0]).args)
    assert "i + 2" in str(load.indices[0]) and "* 16" in str(load.indices[1])
    assert not nodes(new, S.AttrStmt)


def test_prefetch_of_an_unbounded_region_is_left_out() -> None:
    ints = Buffer((8,), "int32", "I")

    def body_of(i: E.Var) -> S.Stmt:
        return S.AttrStmt(A, "prefetch_scope", 1, S.BufferStore(B, A[ints[i]], [i]))

    func = function(loop("i", 5, body_of), A, B, ints)
    new = checked(inject_prefetch, func, {**DATA, "I": np.arange(8, dtype="int32")})
    assert not nodes(new, S.AttrStmt) and len(prefetches(new)) <= 1


def test_prefetch_of_rows_that_narrow_indices_choose() -> None:
    bytes_, rows = Buffer((8,), "int8", "I"), Buffer((4, 8), "float32", "A")

    def body_of(i: E.Var) -> S.Stmt:
        inner = loop("j", 8, lambda j: S.BufferStore(B, rows[bytes_[i], j], [j]))
        return S.AttrStmt(rows, "prefetch_scope", 1, inner)

    func = function(loop("i", 7, body_of), rows, B, bytes_)
    data = {"A": np.ones((4, 8), "float32"), "B": DATA["B"], "I": np.arange(8, dtype="int8") % 4}
    new = checked(inject_prefetch, func, data)
    assert len(prefetches(new)) == 1
    for made in nodes(new, S.For):
        assert made.loop_var.dtype == "int32" == made.extent.dtype


def chosen_rows(rows: Buffer, *chain: Buffer) -> S.PrimFunc:
    """Sums of rows that indices choose, of a loop over all indices, asked for one step ahead."""

    def body_of(i: E.Var) -> S.Stmt:
        row = i
        for indices in chain:
            row = indices[row]
        inner = loop("j", 8, lambda j: S.BufferStore(B, rows[row, j], [j]))
        return S.AttrStmt(rows, "prefetch_scope", 1, inner)

    return function(loop("i", 8, body_of), rows, B, *chain)


def test_prefetch_reads_no_index_that_is_not_there() -> None:
    """The last step asks for nothing: there is no index after it. The evaluator would say so."""
    rows, first, second = Buffer((4, 8), "float32", "A"), *(Buffer((8,), "int32", n) for n in "IJ")
    data = {"A": np.ones((4, 8), "float32"), "B": DATA["B"], "I": np.arange(8, dtype="int32")[::-1]}
    for chain in ((first,), (first, second)):
        data["J"] = np.arange(8, dtype="int32") % 4
        if len(chain) == 1:
            data["I"] = data["J"]
        new = checked(inject_prefetch, chosen_rows(rows, *chain), data)
        assert len(prefetches(new)) == 1
        assert len(nodes(new, S.IfThenElse)) == len(chain)


def test_prefetch_of_what_is_chosen_by_what_is_written_is_left_out() -> None:
    rows, first = Buffer((4, 8), "float32", "A"), Buffer((8,), "int32", "I")
    func = chosen_rows(rows, first)
    func = func.with_body(S.seq(S.BufferStore(first, 0, [0]), func.body))
    assert not prefetches(inject_prefetch(func, LowerOptions()))


def test_prefetch_of_a_region_of_a_size_that_is_read_is_left_out() -> None:
    """What a thread outside its guard would read to find out need not exist."""
    data, indices = Buffer((961,), "int32", "A"), Buffer((961,), "int32", "I")

    def body_of(i: E.Var) -> S.Stmt:
        read = data[E.Min(indices[i + 960], 960)] + data[i + 960]
        return S.AttrStmt(
            data, "prefetch_scope", 0, S.IfThenElse(i < 1, S.BufferStore(A, read, [0]))
        )

    func = function(loop("i", 3, body_of), data, indices, A)
    assert not prefetches(inject_prefetch(func, LowerOptions()))


def test_prefetch_statement() -> None:
    from tilewright.loopir.iter import Range

    body = S.seq(S.Prefetch(A, [Range(0, 33)]), S.BufferStore(B, A[0], [0]))
    new = checked(inject_prefetch, function(body, A, B), DATA)
    assert int(nodes(new, S.For)[0].extent) == 3 and len(prefetches(new)) == 1


# -- rolling buffers

P_ROWS, WIDTH = 12, 6
IN = Buffer((P_ROWS, WIDTH), "float32", "A")
OUT = Buffer((10, WIDTH), "float32", "B")
IMAGE = {
    "A": np.random.default_rng(0).integers(-9, 9, (P_ROWS, WIDTH)).astype("float32"),
    "B": np.zeros((10, WIDTH), "float32"),
}


def stencil(step: int = 1, rows: int = 3, minimum: object = None, source: Buffer = IN) -> S.Stmt:
    """Row sums of a buffer of `rows` rows that moves down by `step` a step."""
    tmp = Buffer((rows, WIDTH), "float32", "T")

    def body_of(i: E.Var) -> S.Stmt:
        low = i * step if minimum is None else minimum(i)  # type: ignore[operator]
        fill = loop(
            "r",
            rows,
            lambda r: loop(
                "c", WIDTH, lambda c: S.BufferStore(tmp, source[low + r, c] * 2.0, [r, c])
            ),
        )
        attr = S.AttrStmt(tmp, "rolling_buffer_scope", op.tvm_tuple(low, 0), fill)
        total = tmp[0, 0]
        for r in range(1, rows):
            total = total + tmp[r, r]
        return S.Allocate(tmp, S.seq(attr, S.BufferStore(OUT, total, [i, 0])))

    return loop("i", 10 // step if step > 1 else 10, body_of)


def test_rolling_buffer_computes_new_rows_only() -> None:
    new = checked(inject_rolling_buffer, function(stencil(), IN, OUT), IMAGE)
    assert type(new.body) is S.Allocate
    (guard,) = nodes(new, S.IfThenElse)
    assert str(guard.condition) == "i == 0 or r >= 2"
    assert "(r + i) % 3" in str(guard.then_case)


def test_rolling_by_two_of_four_rows() -> None:
    new = checked(inject_rolling_buffer, function(stencil(2, 4), IN, OUT), IMAGE)
    (guard,) = nodes(new, S.IfThenElse)
    assert str(guard.condition) == "i == 0 or r >= 2"


def test_no_rolling_where_nothing_is_shared_or_known() -> None:
    bodies = (
        stencil(3, 3),
        stencil(minimum=lambda i: i // 2),
        stencil(source=OUT.with_(shape=(P_ROWS, WIDTH))),
    )
    for body in bodies[:2]:
        new = checked(inject_rolling_buffer, function(body, IN, OUT), IMAGE)
        assert not nodes(new, S.IfThenElse) and not nodes(new, S.AttrStmt)
    new = inject_rolling_buffer(function(bodies[2], IN, OUT), LowerOptions())
    assert not nodes(new, S.IfThenElse)


def test_two_slots_of_a_64_bit_size_have_a_size_of_its_type() -> None:
    n = te.var("n", "int64")
    a = te.placeholder((9, n), name="a")
    b = te.compute((9, n), lambda i, j: a[i, j] + 1.0, name="b")
    s = te.create_schedule(b.op)
    copy = s[s.cache_read(a, "global", [b])]
    copy.compute_at(s[b], b.op.axis[0])
    copy.double_buffer()
    func = tvm.lower(s, [a, b])["main"]  # verified after each pass
    sizes = [x.buffer.shape[0] for x in nodes(func, S.Allocate)]
    assert sizes and all(size.dtype == "int64" for size in sizes)
