"""Walks and rewrites by plain functions, as `tir.stmt_functor` offers them to users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from . import stmt as S
from .rewrite import Rewriter, handles
from .schema import defined_by
from .subst import substitute as _substitute
from .visit import children, free_vars, walk
from .visit import post_order_visit as _post_order_visit

Hook = Callable[[Any], Any]


def post_order_visit(node: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on each node below and including `node`, children first, each object once."""
    _post_order_visit(node.body if isinstance(node, S.PrimFunc) else node, fvisit)


def pre_order_visit(node: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on each node, parents first; what it says False to is not entered."""
    from_body = node.body if isinstance(node, S.PrimFunc) else node
    stack = [from_body]
    while stack:
        item = stack.pop()
        if fvisit(item) is not False:
            stack.extend(reversed(children(item)))


class Faithful(Rewriter):
    """Keeps statements that do nothing."""

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        new = [self.stmt(x) for x in s.seq]
        return s if all(a is b for a, b in zip(new, s.seq)) else S.SeqStmt(new)


class _Transform(Faithful):
    """Every node type goes through one handler, around the default one of its type."""

    def __init__(self, before: Hook | None, after: Hook | None, only: tuple[str, ...]) -> None:
        self.before, self.after, self.only = before, after, only

    def rewrite(self, node: Any) -> Any:
        kind = type(node)
        hooked = not self.only or kind.__name__ in self.only
        if hooked and self.before is not None:
            result = self.before(node)
            if result is not None:
                return result
        result = Faithful.table[kind](self, node)
        if hooked and self.after is not None:
            changed = self.after(result)
            if changed is not None:
                return changed
        return result


_Transform.table = dict.fromkeys(Rewriter.table, _Transform.rewrite)


def ir_transform(
    stmt: Any,
    preorder: Hook | None,
    postorder: Hook | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """Rewrite a statement (or expression) by functions.

    `preorder(node)` may return what takes the node's place, then nothing below is looked at;
    else the children are rewritten and `postorder(new_node)` may replace the result. Either returns
    None to leave the node. `only_enable` names the node types they see ("tir.Call"). Raises
    ValueError where only_enable names no type of node.
    """
    names = tuple(name.removeprefix("tir.") for name in only_enable or ())
    known = {kind.__name__ for kind in Rewriter.table}
    for name in names:
        if name not in known:
            raise ValueError(f"only_enable: there is no node type {name!r}; some: {sorted(known)}")
    return deep_call(lambda: _Transform(preorder, postorder, names).rewrite(stmt))


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """`node` with variables replaced by expressions."""
    return deep_call(_substitute, node, vmap)


def undefined_vars(node: Any, defs: Sequence[Any] = ()) -> list[Any]:
    """Variables (and data of buffers) used in a statement or expression that it does not define.

    Those in `defs` are left out; of a function, those that its parameters define.
    """
    known = set(defs)
    if isinstance(node, S.PrimFunc):
        known.update(node.params)
        for b in node.buffer_map.values():
            known.update((b.data, *b.shape, *b.strides, b.elem_offset))
        node = node.body
    return [v for v in free_vars(node, with_data=True) if v not in known]


def defines_once(func: S.PrimFunc) -> bool:
    """Whether no variable has two definitions in a function: parameters, loops, lets, buffers."""
    known: set[Any] = set()
    for var in (*func.params, *(b.data for b in func.buffer_map.values())):
        if var in known:
            return False
        known.add(var)
    for node in walk(func.body):
        for var in defined_by(node):
            if var in known:
                return False
            known.add(var)
    return True
