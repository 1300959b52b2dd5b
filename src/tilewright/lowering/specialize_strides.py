"""A version of vector code for arrays whose rows are contiguous."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.copies import fresh_copy, walk_stmts
from ..loopir.expr import const
from ..loopir.iter import THREAD_KEYS
from ..loopir.op import likely
from ..loopir.operators import logical_and
from .options import LowerOptions


def specialize_strides(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`if the last strides are 1: body with these strides; else: body`, where arguments have
    strides that are known at run time only and the function has vectorised loops.

    With a stride of 1 vectors are loaded and stored at once, else they are gathered. Not in
    simple_mode, and not in device code.

    Needs flat buffers, in which strides are in the indices. Stands right after flatten_buffers: all
    passes after it then see which version they are in.
    """
    if options.simple_mode or options.disable_vectorize:
        return func
    strides: dict[E.Var, None] = {}
    for b in func.buffer_map.values():
        if b.strides and type(b.strides[-1]) is E.Var:
            strides.setdefault(b.strides[-1])
    if not strides or not _has_vector_loops(func.body):
        return func
    condition: Any = None
    for stride in strides:
        one = E.EQ(stride, const(1, stride.dtype))
        condition = one if condition is None else logical_and(condition, one)
    values = {stride: const(1, stride.dtype) for stride in strides}
    contiguous = fresh_copy(func.body, values)
    return func.with_body(S.IfThenElse(likely(condition), contiguous, func.body))


def _has_vector_loops(body: S.Stmt) -> bool:
    found = False
    for s in walk_stmts(body):
        if type(s) is S.AttrStmt and s.attr_key in THREAD_KEYS:
            return False
        found = found or (type(s) is S.For and s.kind == S.ForKind.VECTORIZED)
    return found
