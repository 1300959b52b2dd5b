"""The frames: one class for each statement with a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.equal import structural_equal
from ..loopir.iter import IterVar
from ..loopir.module import IRModule
from ..loopir.operators import constants_last
from ..loopir.realize import AllocateConst, DeclBuffer
from .build import Frame, builder
from .plain import plain_attributes


class PrimFuncFrame(Frame):
    """A function: parameters, attributes, body."""

    def __init__(self, private: bool = False) -> None:
        super().__init__()
        self.private = private
        self.name = ""
        self.params: list[E.Var] = []
        self.buffers: dict[E.Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}

    def arg(self, name: str, thing: Any) -> Any:
        """Add a parameter: a variable, or a buffer, for which a handle is passed. Raises UsageError
        where thing is neither a buffer nor a variable."""
        if isinstance(thing, Buffer):
            handle = E.Var(name, "handle")
            self.params.append(handle)
            self.buffers[handle] = thing
        elif isinstance(thing, E.Var):
            self.params.append(thing)
        else:
            raise UsageError(f"a parameter is a buffer or a variable, got {thing!r}")
        builder("an argument").name(name, thing)
        return thing

    def made(self) -> S.PrimFunc:
        """The function. Raises UsageError where a private one is given a global_symbol."""
        attrs = dict(self.attrs)
        if self.private and "global_symbol" in attrs:
            raise UsageError(
                f"{self.name} is private: it has no global_symbol, but T.func_attr gives it one"
            )
        if self.name and not self.private and "global_symbol" not in attrs:
            attrs = {"global_symbol": self.name, **attrs}
        return S.PrimFunc(self.params, self.stmt(), None, self.buffers, attrs)


class IRModuleFrame(Frame):
    """A module: functions by name."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: dict[str, S.PrimFunc] = {}
        self.attrs: dict[str, Any] = {}

    def made(self) -> IRModule:
        """The module. Raises UsageError where it holds what are no functions."""
        for f in self.body:
            if not isinstance(f, S.PrimFunc):
                raise UsageError("a module holds functions")
            self.functions.setdefault(f.name, f)
        return IRModule(self.functions, self.attrs)


class ForFrame(Frame):
    """One loop, or several directly in each other (T.grid). Raises OperandError where a bound of
    `domains` is neither a number nor an expression, and TilewrightError where one is a handle or
    two are vectors of different lengths."""

    def __init__(
        self,
        domains: Sequence[tuple[Any, Any]],
        kind: int,
        annotations: Mapping[str, Any] | None = None,
        thread: str = "",
    ) -> None:
        super().__init__()
        self.domains = [_typed(*d) for d in domains]
        self.kind = kind
        self.annotations = plain_attributes(annotations or {})
        self.thread = thread
        self.vars = [E.Var("v", extent.dtype) for _, extent in self.domains]

    def open(self) -> Any:
        b = builder("a loop")
        for v in self.vars:
            b.fresh(v)
        super().open()
        return self.vars[0] if len(self.vars) == 1 else list(self.vars)

    def made(self) -> S.Stmt:
        body = self.stmt()
        for var, (low, extent) in zip(reversed(self.vars), reversed(self.domains)):
            axis = None
            if self.kind == S.ForKind.THREAD_BINDING:
                axis = IterVar(None, E.Var(self.thread, var.dtype), 1, self.thread)
            body = S.For(var, low, extent, self.kind, body, axis, self.annotations)
        return body


def _typed(low: Any, extent: Any) -> tuple[E.PrimExpr, E.PrimExpr]:
    """Begin and extent of a loop in one type."""
    low, extent = E.convert(low), E.convert(extent)
    if low.dtype != extent.dtype:
        low, extent = E.match_types(low, extent)
    return low, extent


class WhileFrame(Frame):
    """A loop that runs as long as a condition holds. Raises OperandError where `condition` is
    neither a number nor an expression."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = E.convert(condition)

    def made(self) -> S.Stmt:
        return S.While(self.condition, self.stmt())


class IfFrame(Frame):
    """A choice: its body is made of Then and Else. Raises OperandError where `condition` is neither
    a number nor an expression."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = E.convert(condition)
        self.then_case: S.Stmt | None = None
        self.else_case: S.Stmt | None = None

    def made(self) -> S.Stmt:
        """The choice. Raises UsageError where T.Then is missing."""
        if self.then_case is None:
            raise UsageError("T.If needs `with T.Then():` in it")
        return S.IfThenElse(self.condition, self.then_case, self.else_case)


class BranchFrame(Frame):
    """One side of a choice."""

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = side

    def made(self) -> None:
        """Give its body to the choice around it. Raises UsageError where it does not stand directly
        in T.If."""
        around = builder(f"T.{self.side}").frames[-1:]
        if not around or not isinstance(around[0], IfFrame):
            raise UsageError(f"T.{self.side} stands directly in `with T.If(condition):`")
        setattr(around[0], "then_case" if self.side == "Then" else "else_case", self.stmt())


class LetFrame(Frame):
    """A variable that stands for a value. Raises OperandError where `value` is neither a number nor
    an expression, and UsageError where the value has another type than the variable."""

    def __init__(self, var: E.Var, value: Any) -> None:
        super().__init__()
        self.value = var
        self.bound = E.convert(value)
        if self.bound.dtype != var.dtype:
            raise UsageError(
                f"{var.name} is {var.dtype}, but its value is {self.bound.dtype}: cast it, "
                f'T.Cast("{var.dtype}", ...)'
            )

    def made(self) -> S.Stmt:
        return S.LetStmt(self.value, self.bound, self.stmt())


class AllocateFrame(Frame):
    """Memory; `value` is its variable, over which buffers are declared. Raises TilewrightError
    where `dtype` is no type such as 'float32', and OperandError where `extents` holds what is
    neither a number nor an expression."""

    def __init__(
        self, extents: Sequence[Any], dtype: str, scope: str, annotations: Mapping[str, Any] | None
    ) -> None:
        super().__init__()
        b = builder("T.allocate")
        self.value = b.fresh(E.Var("buffer", "handle"))
        self.buffer = Buffer(extents, dtype, "buffer", self.value, scope=scope)
        self.annotations = plain_attributes(annotations or {})
        b.scopes[self.value] = self.buffer.scope_name

    def made(self) -> S.Stmt:
        """The buffer of the allocation is the first declared over it that is the same view."""
        views = builder("T.allocate").views.get(self.value, [])
        found = next((v for v in views if _same_view(v, self.buffer)), self.buffer)
        if found is self.buffer:
            found.name = self.value.name
        return S.Allocate(found, self.stmt(), annotations=self.annotations)


def _same_view(b: Buffer, own: Buffer) -> bool:
    if (b.dtype, b.scope_name, len(b.shape)) != (own.dtype, own.scope_name, len(own.shape)):
        return False
    special = b.strides or not E.is_const(b.elem_offset, 0) or b.buffer_kind or b.axis_separators
    if special or (b.data_alignment, b.offset_factor) != (64, 1):
        return False
    pairs = zip(b.shape, own.shape)
    return all(structural_equal(constants_last(x), y) or structural_equal(x, y) for x, y in pairs)


class ConstantFrame(Frame):
    """Memory that holds constants."""

    def __init__(
        self, data: Any, dtype: str, extents: Sequence[Any], annotations: Mapping[str, Any] | None
    ) -> None:
        super().__init__()
        self.value = builder("T.allocate_const").fresh(E.Var("constant", "handle"))
        self.data, self.dtype, self.extents = data, dtype, extents
        self.annotations = plain_attributes(annotations or {})

    def made(self) -> S.Stmt:
        return AllocateConst(
            self.value, self.dtype, self.extents, self.data, self.stmt(), self.annotations
        )


class DeclareFrame(Frame):
    """A buffer over memory that is there."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self.value = buffer

    def made(self) -> S.Stmt:
        return DeclBuffer(self.value, self.stmt())


class OwnFrame(DeclareFrame):
    """A buffer with memory of its own; `declared` where that is a statement, too."""

    def __init__(self, buffer: Buffer, declared: bool) -> None:
        super().__init__(buffer)
        self.declared = declared

    def made(self) -> S.Stmt:
        return S.Allocate(self.value, super().made() if self.declared else self.stmt())


class AttrFrame(Frame):
    """Something said about the body."""

    def __init__(self, node: Any, key: str, said: Any, value: Any = None) -> None:
        super().__init__()
        self.node, self.key, self.said, self.value = node, key, said, value

    def made(self) -> S.Stmt:
        return S.AttrStmt(self.node, self.key, self.said, self.stmt())


class AssertFrame(Frame):
    """A check at run time before the body."""

    def __init__(self, condition: Any, message: Any) -> None:
        super().__init__()
        self.condition, self.message = condition, message

    def made(self) -> S.Stmt:
        return S.AssertStmt(self.condition, self.message, self.stmt())
