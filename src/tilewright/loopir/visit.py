"""Reading the IR: children of a node, walks without recursion, free variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..base.deep import set_children
from . import expr as E
from . import iter as I
from . import realize as R
from . import stmt as S
from .schema import children_getter, classes, defined_by, scopes_of

Children = Callable[[Any], tuple[Any, ...]]


# the order of evaluation, where it is not that of the fields
EVALUATED: dict[type, tuple[str, ...]] = {
    S.BufferStore: ("indices", "value", "predicate"),
    R.ProducerStore: ("indices", "value"),
}
CHILDREN: dict[type, Children] = {
    kind: children_getter(kind, EVALUATED.get(kind, ()))
    for root in (E.PrimExpr, S.Stmt)
    for kind in classes(root)
}


_SILENT: frozenset[type] = frozenset(
    kind
    for root in (E.PrimExpr, S.Stmt)
    for kind in classes(root)
    if scopes_of(kind.schema) is None
    and not issubclass(kind, (E.Var, S.Allocate, S.AttrStmt, E.BufferLoad, S.BufferStore))
)
"""Classes of nodes that are no variables, and neither define one nor hold one by themselves."""


def _below(item: Any) -> tuple[Any, ...]:
    getter = CHILDREN.get(type(item))
    return () if getter is None else getter(item)


set_children(_below)


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
    table, add, pop, push = CHILDREN, seen.add, stack.pop, stack.extend
    while stack:
        item = pop()
        key = id(item)
        if key in seen:
            continue
        add(key)
        yield item
        below = table[type(item)](item)
        if below:
            push(below[::-1])


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


def statements(node: Any) -> Iterator[Any]:
    """Every statement below and including `node`, a statement, parents first."""
    stack = [node]
    table = CHILDREN
    while stack:
        item = stack.pop()
        yield item
        below = table[type(item)](item)
        stack.extend([x for x in reversed(below) if isinstance(x, S.Stmt)])


def free_vars(node: Any, with_data: bool = False) -> list[E.Var]:
    """Variables read below `node` and not defined in it, in order of first appearance.

    `with_data` counts the data variables of buffers that are read or written.
    """
    found, bound = used_vars(node, with_data)
    return [v for v in found if v not in bound]


def used_vars(node: Any, with_data: bool = False) -> tuple[dict[E.Var, None], set[E.Var]]:
    """The variables read below `node`, in order of first appearance, and those defined in it."""
    found: dict[E.Var, None] = {}
    bound: set[E.Var] = set()
    for x in nodes(node):
        if isinstance(x, E.Var):
            found.setdefault(x)
            continue
        if type(x) in _SILENT:
            continue
        bound.update(defined_by(x))
        if isinstance(x, S.Allocate):
            for extent in x.buffer.shape:
                found.update(dict.fromkeys(free_vars(extent)))
        elif isinstance(x, S.AttrStmt) and isinstance(x.node, I.IterVar):
            bound.add(x.node.var)
        elif with_data and isinstance(x, (E.BufferLoad, S.BufferStore)):
            found.setdefault(x.buffer.data)
    return found, bound
