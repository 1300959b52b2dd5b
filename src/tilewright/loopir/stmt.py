"""Statements and functions of the loop IR. Node and field names are TVM's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..base.dtype import parse
from ..base.errors import OperandError
from ..base.pictured import Pictured
from . import node
from .buffer import Buffer, vector_indices
from .construct import check_predicate
from .expr import (
    FloatImm,
    IntImm,
    Node,
    PrimExpr,
    StringImm,
    Var,
    cast,
    const,
    const_int,
    convert,
)
from .iter import FOR_KINDS as FOR_KINDS
from .iter import ForKind as ForKind
from .iter import IterVar, Range
from .types import VoidType

Own = TypeVar("Own", bound="Stmt")

UNROLL_BY = "unroll_by"
"""Annotation of a loop: how many steps the device's compiler is asked to write out."""


class Stmt(Node):
    """A statement."""

    __slots__ = ()

    def with_parts(self: Own, **parts: Any) -> Own:
        """The same statement with other fields; itself where all of them are its own."""
        if all(part is getattr(self, name) for name, part in parts.items()):
            return self
        kept = {name: getattr(self, name) for name in self._fields}
        return type(self)(**{**kept, **parts})

    def __str__(self) -> str:
        return str(node._text(self))

    __repr__ = __str__


class For(Stmt):
    """Run `body` for loop_var = min, ..., min + extent - 1; an extent of 0 or less runs nothing.
    Raises OperandError where `extent` or `min` is neither a number nor an expression."""

    __slots__ = ("annotations", "body", "extent", "kind", "loop_var", "min", "thread_binding")
    schema = (
        "<loop_var:var min:expr extent:expr kind:int "
        ">body:stmt thread_binding:iter? annotations:dict"
    )

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: int,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        self.loop_var = loop_var
        self.min = _as_wide(convert(min), loop_var.dtype)
        self.extent = _as_wide(convert(extent), loop_var.dtype)
        self.kind = int(kind)
        self.body = body
        self.thread_binding = thread_binding
        self.annotations = dict(annotations) if annotations else {}

    def with_body(self, body: Stmt) -> For:
        """The same loop around another body."""
        return self.with_parts(body=body)


def _as_wide(e: PrimExpr, dtype: str) -> PrimExpr:
    """A bound of a loop in the type of its variable: a constant of int32 made as wide as that, and
    one that parts of it have widened as narrow."""
    if e.dtype == dtype:
        return e
    if (e.dtype, dtype) == ("int32", "int64") and isinstance(e, IntImm):
        return IntImm(dtype, e.value)
    if (e.dtype, dtype) != ("int64", "int32"):
        return e
    known = const_int(e)
    return e if known is not None and known >= 1 << 31 else cast(dtype, e)


class While(Stmt):
    """Run `body` as long as the condition holds."""

    __slots__ = ("body", "condition")
    schema = "condition:expr body:stmt"

    def __init__(self, condition: PrimExpr, body: Stmt, span: object = None) -> None:
        self.condition = condition
        self.body = body


class LetStmt(Stmt):
    """`body` with `var` standing for `value`. Raises OperandError where `value` is neither a number
    nor an expression."""

    __slots__ = ("body", "value", "var")
    schema = "<var:var value:expr >body:stmt"

    def __init__(self, var: Var, value: Any, body: Stmt, span: object = None) -> None:
        self.var = var
        self.value = convert(value)
        self.body = body


class AttrStmt(Stmt):
    """`body` with something said about it: "thread_extent" (node: IterVar), "pragma_*", ... Raises
    OperandError where `value` is neither a number nor an expression."""

    __slots__ = ("attr_key", "body", "node", "value")
    schema = "node:any attr_key:str value:expr body:stmt"

    def __init__(
        self, node: Any, attr_key: str, value: Any, body: Stmt, span: object = None
    ) -> None:
        self.node = node
        self.attr_key = attr_key
        self.value = convert(value)
        self.body = body


class AssertStmt(Stmt):
    """Check `condition` at run time before `body`; a failure ends the function with `message`.
    Raises OperandError where `condition` or `message` is neither a number nor an expression."""

    __slots__ = ("body", "condition", "message")
    schema = "condition:expr message:text body:stmt"

    def __init__(self, condition: Any, message: Any, body: Stmt, span: object = None) -> None:
        self.condition = convert(condition)
        self.message = convert(message)
        self.body = body


class IfThenElse(Stmt):
    """`then_case` where the condition holds, else `else_case`, if there is one. Raises OperandError
    where `condition` is neither a number nor an expression."""

    __slots__ = ("condition", "else_case", "then_case")
    schema = "condition:expr then_case:stmt else_case:stmt?"

    def __init__(
        self, condition: Any, then_case: Stmt, else_case: Stmt | None = None, span: object = None
    ) -> None:
        self.condition = convert(condition)
        self.then_case = then_case
        self.else_case = else_case


class BufferStore(Stmt):
    """Write `value` to buffer[indices]; lanes where `predicate` is false are left alone. Raises
    OperandError where `value` or one of `indices` is neither a number nor an expression, where
    `predicate` is not boolean, or has other lanes than the vector."""

    __slots__ = ("buffer", "indices", "predicate", "value")
    schema = "buffer:buffer value:expr indices:expr* predicate:expr?"

    def __init__(
        self,
        buffer: Buffer,
        value: Any,
        indices: Sequence[Any],
        predicate: PrimExpr | None = None,
        span: object = None,
    ) -> None:
        self.buffer = buffer
        self.value = convert(value)
        self.indices = tuple(convert(i) for i in indices)
        self.predicate = predicate
        if predicate is not None:
            lanes = parse(self.value.dtype).lanes
            check_predicate(predicate, lanes, "value dtype", "store a value")


class Allocate(Stmt):
    """Memory for `buffer` (its shape, dtype, scope) during `body`; at first undefined. Raises
    OperandError where the condition is false, so that the memory is never made."""

    __slots__ = ("annotations", "body", "buffer")
    schema = "<buffer:buffer >body:stmt annotations:dict"

    def __init__(self, buffer: Any, *args: Any, annotations: Any = None, **fields: Any) -> None:
        """`Allocate(buffer, body, annotations)`, or as TVM has it, by the memory's variable:
        `Allocate(buffer_var, dtype, extents, condition, body, annotations)`."""
        if isinstance(buffer, Var):
            buffer, args = _allocated(buffer, args, fields)
        values = {**dict(zip(("body", "annotations"), args)), **fields}
        self.buffer: Buffer = buffer
        self.body: Stmt = values["body"]
        self.annotations: dict[str, Any] = dict(annotations or values.get("annotations") or {})

    @property
    def buffer_var(self) -> Var:
        """The pointer to the memory."""
        return self.buffer.data

    @property
    def condition(self) -> PrimExpr:
        """Whether it is made: always."""
        return const(True)

    @property
    def extents(self) -> tuple[PrimExpr, ...]:
        """The shape, in elements."""
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        """The type of an element."""
        return self.buffer.dtype


def _allocated(data: Var, args: Sequence[Any], fields: dict[str, Any]) -> tuple[Buffer, Any]:
    """Buffer and remaining arguments of an allocation that names its memory's variable."""
    names = ("dtype", "extents", "condition", "body", "annotations")
    given = {**dict(zip(names, args)), **fields}
    fields.clear()
    if not isinstance(given["condition"], bool) and not given["condition"]:
        raise OperandError(f"the allocation of {data.name} is never made: its condition is false")
    scope = getattr(data.type_annotation, "storage_scope", "")
    buffer = Buffer(given["extents"], given["dtype"], data.name, data=data, scope=scope)
    return buffer, (given["body"], given.get("annotations"))


class SeqStmt(Stmt):
    """Statements one after another; make it with `seq`."""

    __slots__ = ("seq",)
    schema = "seq:stmt*"

    def __init__(self, seq: Sequence[Stmt], span: object = None) -> None:
        self.seq = tuple(seq)

    def __iter__(self) -> Any:
        return iter(self.seq)

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]


class Evaluate(Stmt):
    """Evaluate an expression for its effect. Raises OperandError where `value` is neither a number
    nor an expression."""

    __slots__ = ("value",)
    schema = "value:expr"

    def __init__(self, value: Any, span: object = None) -> None:
        self.value = convert(value)


class Prefetch(Stmt):
    """Bring a box of a buffer near to the processor; changes no value."""

    __slots__ = ("bounds", "buffer")
    schema = "buffer:buffer bounds:range*"

    def __init__(self, buffer: Buffer, bounds: Sequence[Range], span: object = None) -> None:
        self.buffer = buffer
        self.bounds = tuple(bounds)


class Program(Node, Pictured):
    """What a function and a module have in common: their text."""

    __slots__ = ()

    def script(self, **_: Any) -> str:
        """The program as TVMScript-style text."""
        return str(node._text(self))

    def show(self, *_: Any, **__: Any) -> None:
        """Print the program."""
        print(self)

    def __str__(self) -> str:
        return str(node._text(self))

    __repr__ = __str__


class PrimFunc(Program):
    """A function. Parameters are variables; those of `buffer_map` are handles to arrays. Raises
    OperandError where ret_type is a map of buffers, which come after it, where a parameter is
    neither a Var nor a Buffer."""

    __slots__ = ("attrs", "body", "buffer_map", "params", "_ret_type")
    schema = "params:var* body:stmt buffer_map:map attrs:dict"

    def __init__(
        self,
        params: Sequence[Var | Buffer],
        body: Stmt,
        ret_type: object = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        """A buffer among `params` stands for a handle to it. `ret_type` says of which type the
        value is, of no use here, and is kept; `span` is accepted for TVM's sake."""
        if isinstance(ret_type, Mapping):
            raise OperandError(f"PrimFunc: buffer_map comes after ret_type, which is {ret_type}")
        self.buffer_map = dict(buffer_map) if buffer_map else {}
        self.params = tuple(p if isinstance(p, Var) else self._handle(p) for p in params)
        self.body = body
        self.attrs = dict(attrs) if attrs else {}
        self._ret_type = ret_type

    def _handle(self, param: Any) -> Var:
        if hasattr(param, "asexpr") and isinstance(pointer := param.asexpr(), Var):
            return pointer  # memory of an ir_builder
        if not isinstance(param, Buffer):
            raise OperandError(f"a parameter is a Var or a Buffer, got {param!r}")
        handle = Var(param.name, "handle")
        self.buffer_map[handle] = param
        return handle

    @property
    def ret_type(self) -> Any:
        """The type of the value as it was given; that of functions without one."""
        return VoidType() if self._ret_type is None else self._ret_type

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same signature with another body."""
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self._ret_type, self.buffer_map, self.attrs)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """The same function with an attribute more (or those of a dict)."""
        new = dict(key) if isinstance(key, Mapping) else {key: value}
        return PrimFunc(
            self.params, self.body, self._ret_type, self.buffer_map, {**self.attrs, **new}
        )

    def with_attrs(self, attr_map: Mapping[str, Any]) -> PrimFunc:
        """The same function with attributes more."""
        return self.with_attr(attr_map)

    def without_attr(self, key: str) -> PrimFunc:
        """The same function without an attribute."""
        attrs = {k: v for k, v in self.attrs.items() if k != key}
        return PrimFunc(self.params, self.body, self._ret_type, self.buffer_map, attrs)

    @property
    def __name__(self) -> str:
        """The name, as functions of Python have it."""
        return self.name

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function for given values of parameters: see `loopir.specialize`. Raises UsageError
        where param_map has a key that is no parameter, or a value that does not fit it."""
        from .specialize import specialize

        return specialize(self, param_map)

    @property
    def name(self) -> str:
        """The symbol of the function: its attribute `global_symbol`, "main" without one."""
        return str(self.attrs.get("global_symbol", "main"))


BaseFunc = PrimFunc  # there is one kind of function


def seq(*stmts: Stmt | Iterable[Stmt] | None) -> Stmt:
    """One statement that runs all given in order; flattens nested ones, drops no-ops."""
    flat: list[Stmt] = []

    def add(item: Any) -> None:
        if item is None:
            return
        if isinstance(item, SeqStmt):
            flat.extend(item.seq)
        elif isinstance(item, Stmt):
            if not is_no_op(item):
                flat.append(item)
        else:
            for part in item:
                add(part)

    for s in stmts:
        add(s)
    if len(flat) == 1:
        return flat[0]
    return SeqStmt(flat) if flat else no_op()


def stmt_seq(*args: Stmt | PrimExpr) -> Stmt:
    """One statement that runs all given in order; expressions are evaluated. Raises OperandError
    where an argument is neither a number nor an expression."""
    items = [Evaluate(s) if isinstance(s, PrimExpr) else s for s in args]
    return items[0] if len(items) == 1 else SeqStmt(items)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements that a sequence consists of; of any other statement, itself."""
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]


def no_op() -> Stmt:
    """A statement that does nothing."""
    return Evaluate(0)


def is_no_op(s: Stmt | None) -> bool:
    if s is None:
        return True
    if isinstance(s, Evaluate):
        return isinstance(s.value, (IntImm, FloatImm, StringImm))
    return isinstance(s, SeqStmt) and not s.seq


def vstore(buffer: Buffer, begin: Any, value: Any, predicate: PrimExpr | None = None) -> Stmt:
    """Store a scalar or vector at index `begin` of a buffer (also `Buffer.vstore`); lanes for
    which `predicate` is false are left alone. Raises OperandError where `begin` or `value` is
    neither a number nor an expression, where `predicate` is not boolean, or has other lanes than
    the vector."""
    begin = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
    value = convert(value)
    lanes = parse(value.dtype).lanes // parse(buffer.dtype).lanes
    return BufferStore(buffer, value, vector_indices(begin, lanes), predicate)


Buffer.vstore = vstore  # type: ignore[attr-defined]  # statements stand above buffers
