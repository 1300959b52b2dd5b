"""The loops of a function as a tree: extents, how each runs, what is stored where."""

from __future__ import annotations

import math
from typing import Any

from ..base.deep import deep_call, recursive
from ..base.dtype import parse
from ..loopir import stmt as S
from ..loopir.expr import const_int
from ..loopir.iter import THREAD_KEYS, IterVar
from ..loopir.names import legal_name
from ..loopir.visit import children

Tree = dict[str, Any]
"""A node: `kind` (loop, thread, memory, store, condition, note, call), `text`, `how` (of loops:
serial, parallel, vectorized, unrolled, ...), `extent`, `detail`, `runs` and `children`."""

DEEPEST = 200
"""Levels of nested statements that a tree shows."""
_SHOWN = 160
_QUIET = frozenset(("pragma_debug_skip_region", "from_legacy_te_schedule"))
HOW: dict[int, str] = {
    S.ForKind.SERIAL: "serial",
    S.ForKind.PARALLEL: "parallel",
    S.ForKind.VECTORIZED: "vectorized",
    S.ForKind.UNROLLED: "unrolled",
    S.ForKind.THREAD_BINDING: "thread",
}


def loop_tree(func: S.PrimFunc) -> list[Tree]:
    """The loops of a function, outermost first."""
    found: list[Tree] = deep_call(_tree, func.body, 1.0, 0)
    return found


@recursive
def _tree(s: Any, runs: float, depth: int) -> list[Tree]:
    if isinstance(s, S.SeqStmt):
        return [t for part in s.seq for t in _tree(part, runs, depth)]
    if depth > DEEPEST:
        return [_made("note", "what is nested deeper is not shown", runs)]
    node = _node(s, runs)
    steps = runs * (node["extent"] or 1) if node and node.get("extent") else runs
    below = [t for c in children(s) if isinstance(c, S.Stmt) for t in _tree(c, steps, depth + 1)]
    if node is None:
        return below
    if node["kind"] == "memory":  # holds for all that follows beside it
        return [node, *below]
    if below:
        node["children"] = below
    return [node]


def _node(s: Any, runs: float) -> Tree | None:
    if isinstance(s, S.For):
        return _loop(s, runs)
    if isinstance(s, S.AttrStmt):
        return _attribute(s, runs)
    if isinstance(s, S.Allocate):
        b = s.buffer
        sizes = [const_int(d) for d in b.shape]
        known = all(d is not None for d in sizes)
        size = math.prod(d or 0 for d in sizes) * parse(b.dtype).nbytes if known else None
        shape = ", ".join(map(str, b.shape))
        return _made(
            "memory", f"{legal_name(b.name)}: {b.dtype}[{shape}]", runs, how=b.scope(), bytes=size
        )
    if isinstance(s, S.BufferStore):
        indices = ", ".join(map(str, s.indices))
        text = f"{legal_name(s.buffer.name)}[{indices}] = {s.value}"
        return _made("store", text, runs, how=s.buffer.scope())
    if isinstance(s, S.IfThenElse):
        return _made("condition", f"if {s.condition}", runs)
    if isinstance(s, S.AssertStmt):
        return _made("condition", f"requires {s.condition}", runs)
    if isinstance(s, S.Evaluate):
        return _made("call", str(s.value), runs)
    if isinstance(s, S.LetStmt):
        return _made("note", f"{legal_name(s.var.name)} = {s.value}", runs)
    if isinstance(s, S.While):
        return _made("loop", f"while {s.condition}", runs, how="while")
    if isinstance(s, S.Prefetch):
        return _made("call", f"prefetch {legal_name(s.buffer.name)}", runs)
    return None


def _loop(s: S.For, runs: float) -> Tree:
    extent = const_int(s.extent)
    how = HOW.get(s.kind, "serial")
    tag = s.thread_binding.thread_tag if s.thread_binding is not None else ""
    more = [f"{k} = {v}" for k, v in s.annotations.items()]
    return _made(
        "loop", legal_name(s.loop_var.name), runs, how=tag or how, extent=extent,
        size=str(s.extent), detail=", ".join(more),
    )  # fmt: skip


def _attribute(s: S.AttrStmt, runs: float) -> Tree | None:
    if s.attr_key in _QUIET:
        return None
    if s.attr_key in THREAD_KEYS and isinstance(s.node, IterVar):
        extent = const_int(s.value)
        tag = s.node.thread_tag or s.node.var.name
        name = legal_name(s.node.var.name)
        return _made("thread", name, runs, how=tag, extent=extent, size=str(s.value))
    return _made("note", f"{s.attr_key} = {s.value}", runs)


def _made(kind: str, text: str, runs: float, **more: Any) -> Tree:
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    facts = {k: v for k, v in more.items() if v not in (None, "")}
    return {"kind": kind, "text": cut, "runs": runs, "extent": None, **facts}
