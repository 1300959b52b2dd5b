"""How the statements of realize.py print, in the forms that TVMScript has for them or would."""

from __future__ import annotations

from typing import Any

from . import realize as R


def _producer_store(p: Any, s: R.ProducerStore, last: bool) -> None:
    p.begin(f"{s.producer.name}[")
    p.exprs(s.indices)
    p.out.append("] = ")
    p.expr(s.value)
    p.end(s)


def _box(p: Any, name: str, s: Any, scope: str, last: bool) -> None:
    at = len(p.out)
    p.out.append(f"{p.pad if last else ''}T.realize({name}[")
    for n, r in enumerate(s.bounds):
        p.out.append(", " if n else "")
        p.expr(r.min)
        p.out.append(":")
        p.expr(r.min + r.extent)
    p.out.append(f'], "{scope}"')
    if not getattr(s.condition, "value", 0):
        p.out.append(", ")
        p.expr(s.condition)
    p.out.append(")")
    p.rest(s, None, last, at)


def _producer_realize(p: Any, s: R.ProducerRealize, last: bool) -> None:
    _box(p, s.producer.name, s, s.storage_scope, last)


def _buffer_realize(p: Any, s: R.BufferRealize, last: bool) -> None:
    p.names.alias(s.buffer.data, f"{p.buffer_name(s.buffer)}.data")
    _box(p, p.buffer_name(s.buffer), s, s.buffer.scope_name, last)


def _decl_buffer(p: Any, s: R.DeclBuffer, last: bool) -> None:
    p.view(s, "T.decl_buffer(", p.names.get(s.buffer.data), last)


def _allocate_const(p: Any, s: R.AllocateConst, last: bool) -> None:
    def text() -> None:
        p.out.append(f'T.allocate_const({s.values().ravel().tolist()}, "{s.dtype}", [')
        p.exprs(s.extents)
        p.out.append("])")

    p.scoped(s, text, s.buffer_var, s.buffer_var.name, last)


STATEMENTS: dict[type, Any] = {
    R.ProducerStore: _producer_store,
    R.ProducerRealize: _producer_realize,
    R.BufferRealize: _buffer_realize,
    R.DeclBuffer: _decl_buffer,
    R.AllocateConst: _allocate_const,
}
