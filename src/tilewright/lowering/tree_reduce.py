"""Add up the steps of a short reduction as a tree, half of what is left at a time, as vectors.

    with pragma_tree_reduce: for k in range(8): y = y + f(k)

becomes, with a buffer of 8 elements that lives in a register,

    for k in vectorized(8): t[k] = f(k)
    for k in vectorized(4): t[k] = t[k] + t[k + 4]
    for k in vectorized(2): t[k] = t[k] + t[k + 2]
    t[0] = t[0] + t[1]; y = y + t[0]

A chain of additions waits for each of them; the tree has as many levels as the extent has bits.
The order of the operations is another one, which the pragma permits.
"""

from __future__ import annotations

from typing import Any

from ..arith.same import same_expr
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import walk_stmts
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.expr import const, const_int
from ..loopir.rewrite import Rewriter, handles
from ..loopir.visit import uses_var, walk
from .options import LowerOptions

PRAGMA = "tree_reduce"
MOST = 64
_KEY = f"pragma_{PRAGMA}"
_ASSOCIATIVE = (E.Add, E.Mul, E.Max, E.Min)


def tree_reduce(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Rewrite the loops under AttrStmt "pragma_tree_reduce", and remove these.

    A loop is one of 2 to 64 steps whose body is one store `y = y + f`, or with max, min or times,
    to an element that is the same in all steps, and f reads nothing of y's buffer. Others stay.

    Needs flat buffers. Stands before vectorize_loops, which makes the vectors.
    """
    if not any(type(s) is S.AttrStmt and s.attr_key == _KEY for s in walk_stmts(func.body)):
        return func
    return func.with_body(_Trees().stmt(func.body))


class _Trees(Rewriter):
    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key != _KEY:
            return super()._attr(s)
        tree = _tree(s.body) if type(s.body) is S.For else None
        return self.stmt(s.body) if tree is None else tree


def _tree(loop: S.For) -> S.Stmt | None:
    store, extent, var = loop.body, const_int(loop.extent), loop.loop_var
    if type(store) is not S.BufferStore or store.predicate is not None:
        return None
    if extent is None or not 2 <= extent <= MOST or loop.kind != S.ForKind.SERIAL:
        return None
    if any(uses_var(i, lambda v: v is var) for i in store.indices):
        return None
    step = _step(store)
    if step is None:
        return None
    kind, term = step
    lanes = Buffer((extent,), store.value.dtype, f"{store.buffer.name}.tree", scope="local")
    first = S.BufferStore(lanes, term, [var - loop.min])
    parts: list[S.Stmt] = [S.For(var, loop.min, loop.extent, S.ForKind.VECTORIZED, first)]
    while extent > 1:
        half = extent // 2
        extent -= half
        k, zero = E.Var(var.name, var.dtype), const(0, var.dtype)
        fold = S.BufferStore(lanes, kind(lanes[k], lanes[k + extent]), [k])
        steps = const(half, var.dtype)
        parts.append(S.For(k, zero, steps, S.ForKind.VECTORIZED, fold))
    own = E.BufferLoad(store.buffer, store.indices)
    total = kind(own, lanes[const(0, var.dtype)])
    parts.append(S.BufferStore(store.buffer, total, store.indices))
    return S.Allocate(lanes, S.seq(parts))


def _step(store: S.BufferStore) -> tuple[type, Any] | None:
    """The operation of `y = y + f`, and f."""
    value: Any = store.value
    if type(value) not in _ASSOCIATIVE or side_effect(value) > CallEffectKind.ReadState:
        return None
    for own, term in ((value.a, value.b), (value.b, value.a)):
        reads = (x for x in walk(term) if type(x) is E.BufferLoad)
        if _same_element(own, store) and not any(_one_buffer(x, store) for x in reads):
            return type(value), term
    return None


def _same_element(load: Any, store: S.BufferStore) -> bool:
    if type(load) is not E.BufferLoad or load.predicate is not None:
        return False
    pairs = zip(load.indices, store.indices)
    return _one_buffer(load, store) and all(same_expr(a, b) for a, b in pairs)


def _one_buffer(load: E.BufferLoad, store: S.BufferStore) -> bool:
    return load.buffer.data is store.buffer.data
