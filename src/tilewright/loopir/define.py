"""Definitions of variables that are those of one place only: `ConvertSSA`, `renew_defs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.deep import deep_call
from . import expr as E
from . import realize as R
from . import stmt as S
from .buffer import Buffer
from .functor import Faithful
from .iter import THREAD_KEYS, IterVar
from .rewrite import handles
from .schema import defined_by, scopes_of
from .visit import children, free_vars


def define_once(func: S.PrimFunc, seen: set[Any] | None = None) -> S.PrimFunc:
    """`func` with a new variable for each definition of one that is defined elsewhere.

    `seen`: the variables that other functions define, to which those of this one are added. Uses
    are those of the innermost definition around them. A thread variable is one of the function,
    however often it is launched. Gives `func` itself where nothing is defined twice.
    """
    return _Definitions(set() if seen is None else seen).function(func)


def renew_defs(func: S.PrimFunc) -> S.PrimFunc:
    """The same function, of which every variable and buffer that it defines is a new one."""
    result: S.PrimFunc = deep_call(_Definitions(None).function, func)
    return result


def definition_problem(functions: Iterable[S.PrimFunc]) -> str | None:
    """What is wrong with the places of definitions in the functions of a module, if anything: a
    variable has two of them, or is used after its scope has ended."""
    seen: set[Any] = set()
    for func in functions:
        sizes = [x for b in func.buffer_map.values() for x in (*b.shape, *b.strides, b.elem_offset)]
        data = [b.data for b in func.buffer_map.values()]
        signature = dict.fromkeys((*func.params, *data, *sizes))
        problem = _Places(seen, [v for v in signature if isinstance(v, E.Var)]).problem(func.body)
        if problem is not None:
            return f"{func.name}: TIR is ill-formed, due to {problem}"
    return None


class _Places:
    """A walk with an explicit stack, on which a tuple of variables ends their scope."""

    def __init__(self, seen: set[Any], signature: list[E.Var]) -> None:
        self.seen, self.active = seen, set(signature)
        self.threads: set[Any] = set()
        self.twice = next((v for v in signature if v in seen), None)
        self.nested = False
        seen.update(signature)

    def problem(self, body: S.Stmt) -> str | None:
        stack: list[Any] = [body]
        while stack and self.twice is None:
            item = stack.pop()
            if isinstance(item, tuple):
                self.active.difference_update(item)
            elif isinstance(item, E.Var):
                if item not in self.active and item in self.seen:
                    return (
                        f"invalid use of a variable. Invalid use of undefined variable {item.name} "
                        "at a place behind its definition: it is no longer in-scope."
                    )
            else:
                stack.extend(self._below(item))
        if self.twice is None:
            return None
        nested = "nested " if self.nested else ""
        return f"multiple {nested}definitions of variable {self.twice.name}"

    def _below(self, node: Any) -> list[Any]:
        """What is to be visited below a node, last first."""
        if type(node) is S.AttrStmt and node.attr_key in THREAD_KEYS:
            defined: tuple[Any, ...] = (node.node.var,)
            if node.node.var not in self.threads:
                self._define(node.node.var)
            if self.twice is None:
                self.threads.update(defined)
                self.active.update(defined)
            return [defined, node.body, node.value]
        scopes = scopes_of(node.schema)
        if scopes is None:
            return list(reversed(children(node)))
        defined = defined_by(node)
        outside = {id(x) for name in scopes.outside for x in _items(getattr(node, name))}
        parts = children(node)
        for var in defined:
            self._define(var)
        inside = [x for x in reversed(parts) if id(x) not in outside]
        return [defined, *inside, *(x for x in reversed(parts) if id(x) in outside)]

    def _define(self, var: Any) -> None:
        if var in self.seen:
            self.twice, self.nested = var, var in self.active
        else:
            self.seen.add(var)
            self.active.add(var)


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class _Definitions(Faithful):
    """`seen` is None where everything gets a new variable."""

    def __init__(self, seen: set[Any] | None) -> None:
        self.seen = seen
        self.names: dict[E.Var, E.Var] = {}
        self.buffers: dict[tuple[Any, ...], Buffer] = {}
        self.axes: dict[E.Var, IterVar] = {}

    def function(self, func: S.PrimFunc) -> S.PrimFunc:
        params = tuple([self._define(p) for p in func.params])
        for b in func.buffer_map.values():
            described = (b.data, *b.shape, *b.strides, b.elem_offset)
            for var in (v for part in described for v in free_vars(part)):
                if var not in self.names:
                    self._define(var)
        buffers = {self.names[k]: self.buffer(b) for k, b in func.buffer_map.items()}
        body = self.stmt(func.body)
        same = all(a is b for a, b in zip(params, func.params))
        if same and body is func.body and all(buffers[k] is b for k, b in func.buffer_map.items()):
            return func
        return S.PrimFunc(params, body, None, buffers, func.attrs)

    def _define(self, var: E.Var) -> E.Var:
        """The variable that takes the place of one from here on."""
        new = var
        if self.seen is None or var in self.seen:
            new = type(var)(var.name, var.type_annotation)
        if self.seen is not None:
            self.seen.add(new)
        self.names[var] = new
        return new

    @contextmanager
    def _inside(self, var: E.Var) -> Iterator[E.Var]:
        outer = self.names.get(var)
        yield self._define(var)
        if outer is None:
            del self.names[var]
        else:
            self.names[var] = outer

    @handles(E.Var, E.SizeVar)
    def _var(self, e: E.Var) -> Any:
        return self.names.get(e, e)

    def buffer(self, b: Buffer) -> Buffer:
        data, offset = self.names.get(b.data, b.data), self.expr(b.elem_offset)
        shape, strides = self.exprs(b.shape), self.exprs(b.strides)
        if data is b.data and offset is b.elem_offset and shape is b.shape and strides is b.strides:
            return b
        parts = (b.elem_offset, *b.shape, *b.strides)
        key = (b, data, *(self.names.get(v, v) for part in parts for v in free_vars(part)))
        if key not in self.buffers:
            self.buffers[key] = b.with_(data=data, shape=shape, strides=strides, elem_offset=offset)
        return self.buffers[key]

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        low, extent = self.expr(s.min), self.expr(s.extent)
        with self._inside(s.loop_var) as var:
            body = self.stmt(s.body)
        return s.with_parts(loop_var=var, min=low, extent=extent, body=body)

    @handles(S.LetStmt, E.Let)
    def _let_of(self, s: Any) -> Any:
        value = self.expr(s.value)
        with self._inside(s.var) as var:
            body = self.table[type(s.body)](self, s.body)
        same = var is s.var and value is s.value and body is s.body
        return s if same else type(s)(var, value, body)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        with self._inside(s.buffer.data):
            buffer, body = self.buffer(s.buffer), self.stmt(s.body)
        return s.with_parts(buffer=buffer, body=body)

    @handles(R.AllocateConst)
    def _allocate_const(self, s: R.AllocateConst) -> Any:
        extents = self.exprs(s.extents)
        with self._inside(s.buffer_var) as var:
            body = self.stmt(s.body)
        if var is s.buffer_var and body is s.body and extents is s.extents:
            return s
        return R.AllocateConst(var, s.dtype, extents, s.data, body, s.annotations)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        node, value = s.node, self.expr(s.value)
        if s.attr_key in THREAD_KEYS and isinstance(node, IterVar):
            node = self._axis(node)
        elif isinstance(node, Buffer):
            node = self.buffer(node)
        elif isinstance(node, E.Var):
            node = self.expr(node)
        body = self.stmt(s.body)
        return s.with_parts(node=node, value=value, body=body)

    def _axis(self, axis: IterVar) -> IterVar:
        known = self.axes.get(axis.var)
        if known is None:
            var = self._define(axis.var)
            same = var is axis.var
            known = axis if same else IterVar(axis.dom, var, axis.iter_type, axis.thread_tag)
            self.axes[axis.var] = known
        return axis if known.var is axis.var else known
