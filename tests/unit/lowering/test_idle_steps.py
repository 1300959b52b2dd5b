"""Tiles beyond the edge of an array of symbolic size are not run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.lowering import evaluator
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.calls import call_pure_extern
from tilewright.loopir.iter import IterVar
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.partition_loops import partition_loops

SERIAL, UNROLLED = S.ForKind.SERIAL, S.ForKind.UNROLLED
PIECE, TILE = 15, 5
"""Tiles of a piece of rows, and rows of a tile."""


def rows_in_tiles(seen: bool, virtual: bool = False) -> S.PrimFunc:
    """Rows below n of B, in pieces of tiles, each of which first computes something of its own,
    which is stored where others see it, or in the tile alone. `virtual`: the rows of a tile are
    those of virtual threads."""
    n, p, i, r = E.Var("n"), E.Var("p"), E.Var("i"), E.Var("r")
    out, sums = Buffer((400,), "int32", "B"), Buffer((400 if seen else 1,), "int32", "T")
    row = p * (PIECE * TILE) + i * TILE + r
    place = p * PIECE + i if seen else E.const(0)
    ahead = S.BufferStore(sums, call_pure_extern("int32", "triple", i), [place])
    guarded = S.IfThenElse(op.likely(row < n), S.BufferStore(out, row + 1, [row]))
    body: S.Stmt = S.seq(ahead, S.For(r, 0, TILE, UNROLLED, guarded))
    if virtual:
        thread = IterVar(None, r, IterVar.ThreadIndex, "vthread")
        body = S.seq(ahead, S.AttrStmt(thread, "virtual_thread", TILE, guarded))
    if not seen:
        body = S.Allocate(sums, body)
    tiles = S.For(i, 0, PIECE, SERIAL, body)
    whole = E.FloorDiv(n + (PIECE * TILE - 1), E.const(PIECE * TILE))
    func_body = S.For(p, 0, whole, S.ForKind.PARALLEL, tiles)
    buffers = [out, sums] if seen else [out]
    params = [E.Var(b.name, "handle") for b in buffers]
    return S.PrimFunc((*params, n), func_body, None, dict(zip(params, buffers)))


@pytest.mark.parametrize("n", [1, 4, 5, 6, 23, 74, 75, 76, 150, 299])
@pytest.mark.parametrize("seen", [False, True])
def test_tiles_beyond_the_edge(n: int, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    func = rows_in_tiles(seen)
    new = partition_loops(func, LowerOptions())
    calls: list[int] = []

    def triple(x: int) -> int:
        calls.append(x)
        return x * 3

    monkeypatch.setitem(evaluator.EXTERN, "triple", triple)
    data = {"B": np.zeros(400, "int32"), "T": np.zeros(400, "int32")}
    want = evaluator.run(func, data, {"n": n})
    before = len(calls)
    got = evaluator.run(new, data, {"n": n})
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    pieces = -(-n // (PIECE * TILE))
    assert before == pieces * PIECE
    assert len(calls) - before == (before if seen else -(-n // TILE))


@pytest.mark.parametrize("n", [1, 5, 23, 75, 80, 150])
@pytest.mark.parametrize("serial", [False, True])
def test_pieces_of_rows_and_columns_in_one_loop(n: int, serial: bool) -> None:
    """What is known of a part of it does not hold in another, nor of the loops within: columns are
    five, in pieces of three."""
    var, f, i, r, c = (E.Var(name) for name in "nfirc")
    out = Buffer((2000,), "int32", "B")
    row = E.FloorDiv(f, E.const(2)) * (PIECE * TILE) + i * TILE + r
    column = E.FloorMod(f, E.const(2)) * 3 + c
    place = row * 5 + column
    store: S.Stmt = S.BufferStore(out, E.BufferLoad(out, [place]) + place + 1, [place])
    store = S.IfThenElse(op.likely(column < 5), S.IfThenElse(op.likely(row < var), store))
    body: S.Stmt = S.For(r, 0, TILE, UNROLLED, S.For(c, 0, 3, SERIAL, store))
    whole = E.FloorDiv(var + (PIECE * TILE - 1), E.const(PIECE * TILE)) * 2
    kind = SERIAL if serial else S.ForKind.PARALLEL
    body = S.For(f, 0, whole, kind, S.For(i, 0, PIECE, SERIAL, body))
    param = E.Var("B", "handle")
    func = S.PrimFunc((param, var), body, None, {param: out})
    got = evaluator.run(
        partition_loops(func, LowerOptions()), {"B": np.zeros(2000, "int32")}, {"n": n}
    )
    want = np.where(np.arange(2000) < n * 5, np.arange(2000) + 1, 0)
    np.testing.assert_array_equal(got["B"], want)


def test_rows_of_virtual_threads() -> None:
    body = partition_loops(rows_in_tiles(False, virtual=True), LowerOptions()).body
    ends = [x.extent for x in walk(body) if type(x) is S.For]
    assert len(ends) > 2  # those that are full, and the rest
    assert "r" not in {x.name for e in ends for x in walk(e) if isinstance(x, E.Var)}
