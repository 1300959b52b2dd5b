"""Functions for given values of some of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.deep import deep_call
from ..base.errors import UsageError
from . import stmt as S
from .buffer import Buffer
from .copies import Copier
from .equal import structural_equal
from .expr import PrimExpr, Var, cast, convert
from .functor import Faithful
from .realize import DeclBuffer
from .rewrite import Rewriter, handles


class _Signature(Copier):
    """Replaces variables everywhere, in descriptions of buffers too.

    `lets`: pointers that become expressions; they are defined where a buffer over them is declared,
    or for the whole body.
    """

    def __init__(self, values: Mapping[Var, Any], lets: Mapping[Var, Any]) -> None:
        super().__init__(values)
        self.lets = dict(lets)

    _seq = Faithful._seq

    @handles(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> Any:
        value = self.lets.pop(s.buffer.data, None)
        result = Rewriter.table[DeclBuffer](self, s)
        return result if value is None else S.LetStmt(s.buffer.data, self.expr(value), result)

    def buffer(self, b: Buffer) -> Buffer:
        found = self.buffers.get(b)
        if found is None:
            new = {
                "data": self.values.get(b.data, b.data),
                "shape": self.exprs(b.shape),
                "strides": self.exprs(b.strides),
                "elem_offset": self.expr(b.elem_offset),
            }
            if all(value is getattr(b, name) for name, value in new.items()):
                return b
            found = self.buffers[b] = b.with_(**new)
        return found

    def function(self, func: S.PrimFunc, params: list[Var]) -> S.PrimFunc:
        """The function with those of its parameters, by what takes their place."""
        new = {self.values.get(p, p): self.buffer(b) for p, b in func.buffer_map.items()}
        body = self.stmt(func.body)
        for var, value in self.lets.items():
            body = S.LetStmt(var, self.expr(value), body)
        return S.PrimFunc([self.values.get(p, p) for p in params], body, None, new, func.attrs)


def specialize(func: S.PrimFunc, param_map: Mapping[Var, Any]) -> S.PrimFunc:
    """The function for given values of parameters; these are no parameters of it any more.

    param_map: numbers or expressions for scalar parameters, buffers for handles of arrays. What a
    buffer gives as extents, strides, offset and memory takes the place of the variables that the
    function has there. UsageError: no parameter, or a buffer that does not fit.
    """
    values: dict[Any, Any] = {}
    for param, given in param_map.items():
        if not any(param is p for p in func.params):
            raise UsageError(f"specialize: {param} is no parameter of {func.name}")
        old = func.buffer_map.get(param)
        if isinstance(given, Buffer) and old is not None:
            _match(values, param, old, given)
        elif old is None and not isinstance(given, Buffer):
            _bind(values, param, convert(given), param)
        else:
            raise UsageError(f"specialize: {given} does not fit the parameter {param}")
    if not values:
        return func
    lets = {v: e for v, e in values.items() if v.dtype == "handle" and not isinstance(e, Var)}
    kept = [p for p in func.params if p in func.buffer_map or p not in values]
    rewriter = _Signature({v: e for v, e in values.items() if v not in lets}, lets)
    result: S.PrimFunc = deep_call(rewriter.function, func, kept)
    return result


def _match(values: dict[Any, Any], param: Var, old: Buffer, new: Buffer) -> None:
    """Note what the description of a buffer says of the variables in another."""
    for name in ("dtype", "ndim", "scope_name", "data_alignment", "offset_factor"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            raise UsageError(f"specialize: {name} of {param} is {was}, that of the buffer {now}")
    if len(old.strides) != len(new.strides):
        raise UsageError(f"specialize: {param} has strides {old.strides}, the buffer {new.strides}")
    _bind(values, old.data, new.data, param)
    for was, now in zip((*old.shape, *old.strides), (*new.shape, *new.strides)):
        _bind(values, was, now, param)
    _bind(values, old.elem_offset, new.elem_offset, param)


def _bind(values: dict[Any, Any], was: PrimExpr, now: PrimExpr, param: Var) -> None:
    if structural_equal(was, now):
        return
    if not isinstance(was, Var):
        raise UsageError(f"specialize: {was} in the description of {param} cannot become {now}")
    now = now if was.dtype == "handle" else cast(was.dtype, now)
    if was in values and not structural_equal(values[was], now):
        raise UsageError(f"specialize: {was} is {values[was]} and {now}, by {param}")
    values[was] = now
