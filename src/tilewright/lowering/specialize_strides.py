"""A version of vector code for arrays whose rows are contiguous."""

from __future__ import annotations

from math import prod
from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.copies import fresh_copy, walk_stmts
from ..loopir.expr import cast, const
from ..loopir.iter import THREAD_KEYS
from ..loopir.op import likely
from ..loopir.operators import logical_and
from ..loopir.rewrite import OverStatements, handles
from .fill_ahead import SCOPE
from .options import LowerOptions
from .software_pipeline import STAGES
from .statement_accesses import ASYNC_SCOPES


def specialize_strides(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """`if the last strides are 1: body with these strides; else: body`, where arguments have
    strides that are known at run time only and the function has vectorised loops. Where these are
    in kernels, the host asks whether arrays are compact, all strides those of their shapes, from
    which alignment follows; the kernels for others, which are there for what is right rather than
    fast, have no copies under way, whose code is long.

    With a stride of 1 vectors are loaded and stored at once, else they are gathered. Not in
    simple_mode.

    Needs flat buffers, in which strides are in the indices. Stands right after flatten_buffers: all
    passes after it then see which version they are in.
    """
    if options.simple_mode or options.disable_vectorize:
        return func
    strided = [b for b in func.buffer_map.values() if b.strides and type(b.strides[-1]) is E.Var]
    if not strided or not any(_is_vector_loop(s) for s in walk_stmts(func.body)):
        return func
    launched = any(
        type(s) is S.AttrStmt and s.attr_key in THREAD_KEYS for s in walk_stmts(func.body)
    )
    values: dict[E.Var, Any] = {}
    for b in strided:
        for stride, value in zip(b.strides, _compact(b)) if launched else [(b.strides[-1], 1)]:
            if type(stride) is E.Var:
                values.setdefault(stride, cast(stride.dtype, value))
    condition: Any = None
    for stride, value in values.items():
        same = E.EQ(stride, value)
        condition = same if condition is None else logical_and(condition, same)
    contiguous = fresh_copy(func.body, values)
    general = _Plain().stmt(func.body) if launched else func.body
    return func.with_body(S.IfThenElse(likely(condition), contiguous, general))


def _compact(b: Buffer) -> list[Any]:
    """The strides of a buffer without gaps."""
    return [prod(b.shape[d + 1 :], start=const(1)) for d in range(len(b.shape))]


def _is_vector_loop(s: S.Stmt) -> bool:
    return type(s) is S.For and s.kind == S.ForKind.VECTORIZED


class _Plain(OverStatements):
    """Without copies that are under way while others are used."""

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        ahead = s.attr_key in (SCOPE, STAGES, *ASYNC_SCOPES)
        return self.stmt(s.body) if ahead else super()._attr(s)
