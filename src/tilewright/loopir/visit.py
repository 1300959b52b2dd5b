"""Reading the IR: children of a node, walks without recursion, free variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import expr as E
from . import iter as I
from . import stmt as S

Children = Callable[[Any], tuple[Any, ...]]


def _none(_: Any) -> tuple[Any, ...]:
    return ()


def _ab(e: Any) -> tuple[Any, ...]:
    return (e.a, e.b)


def _load(e: E.BufferLoad) -> tuple[Any, ...]:
    return e.indices if e.predicate is None else (*e.indices, e.predicate)


def _store(s: S.BufferStore) -> tuple[Any, ...]:
    parts = (*s.indices, s.value)
    return parts if s.predicate is None else (*parts, s.predicate)


def _branch(s: S.IfThenElse) -> tuple[Any, ...]:
    if s.else_case is None:
        return (s.condition, s.then_case)
    return (s.condition, s.then_case, s.else_case)


CHILDREN: dict[type, Children] = {
    **dict.fromkeys((E.Var, E.SizeVar, E.IntImm, E.FloatImm, E.StringImm), _none),
    **dict.fromkeys((E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod), _ab),
    **dict.fromkeys((E.Min, E.Max, E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or), _ab),
    E.Not: lambda e: (e.a,),
    E.Cast: lambda e: (e.value,),
    E.Select: lambda e: (e.condition, e.true_value, e.false_value),
    E.Ramp: lambda e: (e.base, e.stride),
    E.Broadcast: lambda e: (e.value,),
    E.Shuffle: lambda e: e.vectors,
    E.Let: lambda e: (e.value, e.body),
    E.Call: lambda e: e.args,
    E.BufferLoad: _load,
    I.ProducerLoad: lambda e: e.indices,
    I.Reduce: lambda e: (*e.source, *e.init, e.condition),
    S.For: lambda s: (s.min, s.extent, s.body),
    S.While: lambda s: (s.condition, s.body),
    S.LetStmt: lambda s: (s.value, s.body),
    S.AttrStmt: lambda s: (s.value, s.body),
    S.AssertStmt: lambda s: (s.condition, s.body),
    S.IfThenElse: _branch,
    S.BufferStore: _store,
    S.Allocate: lambda s: (s.body,),
    S.SeqStmt: lambda s: s.seq,
    S.Evaluate: lambda s: (s.value,),
    S.Prefetch: lambda s: tuple(x for r in s.bounds for x in (r.min, r.extent)),
}


def children(node: Any) -> tuple[Any, ...]:
    """The expressions and statements directly below a node, in the order of evaluation."""
    return CHILDREN[type(node)](node)


def walk(node: Any) -> Iterator[Any]:
    """Every node below and including `node`, parents first; shared nodes come once per use."""
    stack = [node]
    table = CHILDREN
    while stack:
        item = stack.pop()
        yield item
        below = table[type(item)](item)
        if below:
            stack.extend(reversed(below))


def nodes(node: Any) -> Iterator[Any]:
    """Every distinct node below and including `node`, parents first; each object once."""
    seen: set[int] = set()
    stack = [node]
    table = CHILDREN
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        below = table[type(item)](item)
        if below:
            stack.extend(reversed(below))


def post_order_visit(node: Any, visitor: Callable[[Any], None]) -> None:
    """Call `visitor` on each node below and including `node`, children first, each object once."""
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(node, False)]
    while stack:
        item, done = stack.pop()
        if done:
            visitor(item)
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        stack.append((item, True))
        stack.extend((c, False) for c in reversed(children(item)))


def tree_size(node: Any) -> int:
    """How many nodes `node` has with shared ones counted once per use: the length of its text."""
    sizes: dict[int, int] = {}

    def visit(item: Any) -> None:
        sizes[id(item)] = 1 + sum(sizes[id(c)] for c in children(item))

    post_order_visit(node, visit)
    return sizes[id(node)]


def uses_var(node: Any, predicate: Callable[[E.Var], bool]) -> bool:
    """Whether a variable for which `predicate` holds is read below `node`."""
    return any(isinstance(x, E.Var) and predicate(x) for x in nodes(node))


def free_vars(node: Any, with_data: bool = False) -> list[E.Var]:
    """Variables read below `node` and not defined in it, in order of first appearance.

    `with_data` counts the data variables of buffers that are read or written.
    """
    found: dict[E.Var, None] = {}
    bound: set[E.Var] = set()
    for x in nodes(node):
        if isinstance(x, E.Var):
            found.setdefault(x)
        elif isinstance(x, (E.Let, S.LetStmt)):
            bound.add(x.var)
        elif isinstance(x, S.For):
            bound.add(x.loop_var)
        elif isinstance(x, S.Allocate):
            bound.add(x.buffer.data)
            for extent in x.buffer.shape:
                found.update(dict.fromkeys(free_vars(extent)))
        elif isinstance(x, S.AttrStmt) and isinstance(x.node, I.IterVar):
            bound.add(x.node.var)
        elif isinstance(x, I.Reduce):
            bound.update(a.var for a in x.axis)
        elif with_data and isinstance(x, (E.BufferLoad, S.BufferStore)):
            found.setdefault(x.buffer.data)
    return [v for v in found if v not in bound]
