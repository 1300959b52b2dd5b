"""Build statements in program order: `tir.ir_builder`.

ib = tir.ir_builder.create()
a = ib.buffer_ptr(A)
with ib.for_range(0, n, name="i") as i:
    with ib.if_scope(i < m):
        a[i] = a[i] + 1.0
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError
from . import stmt as S
from .buffer import Buffer
from .expr import (
    BufferLoad,
    FloatImm,
    IntImm,
    PrimExpr,
    StringImm,
    Var,
    cast,
    const_int,
    convert,
)
from .op import floordiv, floormod, likely

Open = Callable[[S.Stmt], S.Stmt]  # a statement that waits for its body

_KINDS = {
    "serial": S.ForKind.SERIAL,
    "parallel": S.ForKind.PARALLEL,
    "vectorize": S.ForKind.VECTORIZED,
    "vectorized": S.ForKind.VECTORIZED,
    "unroll": S.ForKind.UNROLLED,
    "unrolled": S.ForKind.UNROLLED,
}


class BufferVar:
    """Memory to read and write by `[]`, with one flat index or one for each dimension."""

    def __init__(self, builder: IRBuilder, buffer: Buffer, content_type: str) -> None:
        self._builder = builder
        self._buffer = buffer
        self.dtype = content_type

    def asobject(self) -> Buffer:
        """The buffer; `asobject().data` is the variable of its memory."""
        return self._buffer

    def asexpr(self) -> PrimExpr:
        """As an argument, the pointer."""
        return self._buffer.data

    def _indices(self, index: Any) -> list[PrimExpr]:
        given = list(index) if isinstance(index, (tuple, list)) else [index]
        at = [convert(i) for i in given]
        shape = self._buffer.shape
        if len(at) == 1 and len(shape) > 1:
            rest, at = at[0], []
            for extent in reversed(shape[1:]):
                at.append(floormod(rest, extent))
                rest = floordiv(rest, extent)
            at = [rest, *reversed(at)]
        if len(at) != len(shape):
            raise TilewrightError(
                f"buffer {self._buffer.name} has {len(shape)} dimensions, got {len(at)} indices"
            )
        return at

    def __getitem__(self, index: Any) -> PrimExpr:
        return BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self._indices(index)
        lanes = parse(at[-1].dtype).lanes if at else 1
        wanted = parse(self.dtype).with_lanes(lanes * parse(self.dtype).lanes)
        e = convert(value)
        if e.dtype != wanted:
            number = isinstance(e, (IntImm, FloatImm))
            if not number and e.dtype != parse(self.dtype).element:
                raise ValueError(
                    f"data type does not match content type {e.dtype} vs {wanted}; "
                    f'convert it: value.astype("{wanted}")'
                )
            e = cast(wanted, e)
        self._builder.emit(S.BufferStore(self._buffer, e, at))


class IRBuilder:
    """Collects statements; scopes are `with` blocks."""

    def __init__(self) -> None:
        self._scopes: list[list[S.Stmt | Open]] = [[]]

    def _close(self) -> S.Stmt:
        """The statement that the innermost scope holds, and leave it."""
        result: S.Stmt | None = None
        for item in reversed(self._scopes.pop()):
            if isinstance(item, S.Stmt):
                result = item if result is None else S.seq(item, result)
            else:
                result = item(S.no_op() if result is None else result)
        return S.no_op() if result is None else result

    def emit(self, stmt: Any) -> None:
        """Add a statement, an expression to evaluate, or a function from body to statement. Raises
        OperandError where `stmt` is neither a number nor an expression, and TilewrightError where
        stmt is neither a statement nor an expression."""
        if isinstance(stmt, (S.Stmt, PrimExpr)):
            self._scopes[-1].append(stmt if isinstance(stmt, S.Stmt) else S.Evaluate(stmt))
        elif callable(stmt):
            self._scopes[-1].append(stmt)
        else:
            raise TilewrightError(f"emit takes a statement or an expression, got {stmt!r}")

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Say something about the rest of the scope, such as "thread_extent" of a thread axis.
        Raises OperandError where `value` is neither a number nor an expression."""
        text = StringImm(value) if isinstance(value, str) else convert(value)
        if isinstance(node, Buffer):  # what is said of memory names its variable
            node = node.data
        self.emit(lambda body: S.AttrStmt(node, attr_key, text, body))

    @contextmanager
    def _scope(self, finish: Callable[[S.Stmt], S.Stmt], value: Any) -> Iterator[Any]:
        self._scopes.append([])
        yield value
        self.emit(finish(self._close()))

    def for_range(
        self,
        begin: Any,
        end: Any,
        name: str = "i",
        dtype: str | None = None,
        kind: str = "serial",
        for_type: str | None = None,
    ) -> AbstractContextManager[Var]:
        """A loop over begin, ..., end - 1; gives its variable.

        `kind` (or `for_type`): "serial", "parallel", "vectorize" or "unroll". Raises ValueError
        where kind is unknown, and OperandError where `begin` or `end` is neither a number nor an
        expression, and TilewrightError where `dtype` is no type such as 'float32'.
        """
        kind = for_type or kind
        if kind not in _KINDS:
            raise ValueError(f"Unknown kind {kind!r}; one of {', '.join(_KINDS)}")
        low, high = convert(begin), convert(end)
        index = canonical(dtype) if dtype else (high if const_int(low) == 0 else low + high).dtype
        low, high = cast(index, low), cast(index, high)
        var = Var(name, index)
        extent = high if const_int(low) == 0 else high - low
        return self._scope(lambda body: S.For(var, low, extent, _KINDS[kind], body), var)

    def while_loop(self, condition: Any) -> AbstractContextManager[None]:
        """Repeat the block while the condition holds."""
        return self._scope(lambda body: S.While(convert(condition), body), None)

    def if_scope(self, cond: Any) -> AbstractContextManager[None]:
        """Run the block if the condition holds."""
        return self._scope(lambda body: S.IfThenElse(cond, body), None)

    def else_scope(self) -> AbstractContextManager[None]:
        """Run the block if the condition of the `if_scope` right before it does not hold."""
        before = self._scopes[-1]
        branch = before[-1] if before else None
        if not isinstance(branch, S.IfThenElse) or branch.else_case is not None:
            raise RuntimeError("else_scope can only follow an if_scope")
        before.pop()
        return self._scope(
            lambda body: S.IfThenElse(branch.condition, branch.then_case, body), None
        )

    def new_scope(self) -> AbstractContextManager[None]:
        """A block: what is declared inside holds inside only."""
        return self._scope(lambda body: body, None)

    def let(self, var_name: str, value: Any) -> Var:
        """A variable for a value, in the rest of the scope. Raises OperandError where `value` is
        neither a number nor an expression."""
        e = convert(value)
        var = Var(var_name, e.dtype)
        self.emit(lambda body: S.LetStmt(var, e, body))
        return var

    def allocate(
        self,
        dtype: Any,
        shape: Any,
        name: str = "buf",
        axis_separators: Sequence[int] | None = None,
        scope: str = "",
    ) -> BufferVar:
        """Memory for the rest of the scope. Raises TilewrightError where `dtype` is no type such as
        'float32'."""
        extents = list(shape) if isinstance(shape, (tuple, list)) else [shape]
        buffer = Buffer(
            extents, dtype, name, scope=scope, axis_separators=tuple(axis_separators or ())
        )
        self.emit(lambda body: S.Allocate(buffer, body))
        return BufferVar(self, buffer, buffer.dtype)

    def pointer(self, content_type: Any, name: str = "ptr", scope: str = "") -> BufferVar:
        """A pointer that is defined elsewhere. Raises TilewrightError where `content_type` is no
        type such as 'float32'."""
        buffer = Buffer([1], content_type, name, scope=scope)
        return BufferVar(self, buffer, buffer.dtype)

    def buffer_ptr(self, buf: Buffer, shape: Sequence[Any] | None = None) -> BufferVar:
        """A buffer to read and write; `shape` views it by other dimensions. Raises TilewrightError
        where buf is no buffer, and OperandError where `shape` holds what is neither a number nor an
        expression."""
        if not isinstance(buf, Buffer):
            raise TilewrightError(f"buffer_ptr takes a buffer, got {buf!r}")
        view = buf if shape is None else buf.with_(shape=[convert(d) for d in shape])
        return BufferVar(self, view, buf.dtype)

    def likely(self, expr: Any) -> PrimExpr:
        """Mark a condition as mostly true. Raises OperandError where `expr` is neither a number nor
        an expression."""
        return likely(expr)

    def get(self) -> S.Stmt:
        """The statement built; the builder is empty afterwards."""
        if len(self._scopes) != 1:
            raise RuntimeError("cannot call get inside construction scope")
        result = self._close()
        self._scopes = [[]]
        return result


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()
