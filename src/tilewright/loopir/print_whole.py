"""`node.script()`: the text of a node by itself, after what it takes from around it."""

from __future__ import annotations

from typing import Any

from ..base.deep import deep_call
from .buffer import Buffer, BufferRegion
from .iter import CommReducer, IterVar, Range
from .node import PrimExpr, set_speller
from .print_buffer import fresh
from .print_scopes import place_buffers
from .printer import Printer, script
from .stmt import Program, Stmt
from .types import PointerType
from .visit import free_vars, nodes

_ITER_TYPES = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized",
    "Parallelized", "Tensorized",
)  # fmt: skip


class _Whole(Printer):
    """Declares variables and buffers, then prints the node."""

    def variables(self, found: Any, known: set[Any]) -> None:
        """A line for each variable that has no name yet."""
        for v in found:
            if v in known or self.names.get(v) is not None:
                continue
            kind, text = v.type_annotation, fresh(v)
            if isinstance(kind, PointerType):
                text = kind.script()
            self.begin(f"{self.names.define(v, v.name)} = {text}\n")

    def buffers(self, found: Any) -> None:
        """A line for each buffer, after those for the variables in its description."""
        for b in dict.fromkeys(found):
            described = (*b.shape, *b.strides, b.elem_offset)
            self.variables([v for e in described for v in free_vars(e)], set())
            self.declare(b)

    def statement(self, s: Stmt) -> None:
        self.places = place_buffers(s, ())
        own = {b.data for at in self.places.values() for b in at}
        self.variables(free_vars(s, with_data=True), own)
        self.block(s, False)

    def expression(self, e: PrimExpr) -> None:
        self.buffers(x.buffer for x in nodes(e) if isinstance(getattr(x, "buffer", None), Buffer))
        self.variables(free_vars(e), set())
        self.expr(e)

    def axis(self, a: IterVar) -> None:
        self.variables([a.var], set())
        self.out.append("T.iter_var(")
        self.expr(a.var)
        self.out.append(", ")
        self.any(a.dom)
        self.out.append(f', "{_ITER_TYPES[a.iter_type]}", "{a.thread_tag}")')

    def reducer(self, r: CommReducer) -> None:
        names = ", ".join(self.names.define(v, v.name) for v in (*r.lhs, *r.rhs))
        self.out.append(f"T.comm_reducer(lambda {names}: ")
        many = len(r.result) > 1
        self.out.append("(" if many else "")
        self.exprs(r.result)
        self.out.append("), [" if many else ", [")
        self.exprs(r.identity_element)
        self.out.append("])")


def _text(node: Any, verbose_expr: bool) -> str:
    if isinstance(node, Program) or (isinstance(node, PrimExpr) and not verbose_expr):
        return script(node)
    p = _Whole({})
    if isinstance(node, Stmt):
        p.statement(node)
    elif isinstance(node, PrimExpr):
        p.expression(node)
    elif isinstance(node, Buffer):
        p.buffers([node])
        p.out.append(node.name)
    elif isinstance(node, BufferRegion):
        p.buffers([node.buffer])
        parts = [f"{r.min}:{r.min + r.extent}" for r in node.region]
        p.out.append(f"{node.buffer.name}[{', '.join(parts)}]")
    elif isinstance(node, IterVar):
        p.axis(node)
    elif isinstance(node, Range):
        p.out.append(f"T.Range({node.min}, {node.min + node.extent})")
    elif isinstance(node, CommReducer):
        p.reducer(node)
    else:
        p.any(node)
    return "".join(p.out).rstrip("\n")


set_speller(lambda node, verbose_expr: deep_call(_text, node, verbose_expr))
