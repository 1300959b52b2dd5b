"""Statements, functions and modules of the loop IR. Node and field names are TVM's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import OperandError, TilewrightError
from .buffer import Buffer, vector_indices
from .expr import BufferLoad, Node, PrimExpr, Var, cast, const_int, convert
from .iter import IterVar, Range


class UnknownNameError(TilewrightError, KeyError, ValueError):
    """A module has no function of that name."""

    __str__ = Exception.__str__


class Stmt(Node):
    """A statement."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(_text(self))

    __repr__ = __str__


class ForKind:
    """How a loop runs."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4
    NAMES = ("serial", "parallel", "vectorized", "unroll", "thread_binding")


class For(Stmt):
    """Run `body` for loop_var = min, ..., min + extent - 1; an extent of 0 or less runs nothing."""

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
    ) -> None:
        self.loop_var = loop_var
        self.min = _narrowed(convert(min), loop_var.dtype)
        self.extent = _narrowed(convert(extent), loop_var.dtype)
        self.kind = kind
        self.body = body
        self.thread_binding = thread_binding
        self.annotations = dict(annotations) if annotations else {}

    def with_body(self, body: Stmt) -> For:
        """The same loop around another body."""
        if body is self.body:
            return self
        binding, said = self.thread_binding, self.annotations
        return For(self.loop_var, self.min, self.extent, self.kind, body, binding, said)


def _narrowed(e: PrimExpr, dtype: str) -> PrimExpr:
    """A bound of a loop in the type of its variable, where parts of it have widened it."""
    if (e.dtype, dtype) != ("int64", "int32"):
        return e
    known = const_int(e)
    return e if known is not None and known >= 1 << 31 else cast(dtype, e)


class While(Stmt):
    """Run `body` as long as the condition holds."""

    __slots__ = ("body", "condition")
    schema = "condition:expr body:stmt"

    def __init__(self, condition: PrimExpr, body: Stmt) -> None:
        self.condition = condition
        self.body = body


class LetStmt(Stmt):
    """`body` with `var` standing for `value`."""

    __slots__ = ("body", "value", "var")
    schema = "<var:var value:expr >body:stmt"

    def __init__(self, var: Var, value: Any, body: Stmt, span: object = None) -> None:
        self.var = var
        self.value = convert(value)
        self.body = body


class AttrStmt(Stmt):
    """`body` with something said about it: "thread_extent" (node: IterVar), "pragma_*", ..."""

    __slots__ = ("attr_key", "body", "node", "value")
    schema = "node:any attr_key:str value:expr body:stmt"

    def __init__(self, node: Any, attr_key: str, value: Any, body: Stmt) -> None:
        self.node = node
        self.attr_key = attr_key
        self.value = convert(value)
        self.body = body


class AssertStmt(Stmt):
    """Check `condition` at run time before `body`; a failure ends the function with `message`."""

    __slots__ = ("body", "condition", "message")
    schema = "condition:expr message:text body:stmt"

    def __init__(self, condition: Any, message: Any, body: Stmt) -> None:
        self.condition = convert(condition)
        self.message = convert(message)
        self.body = body


class IfThenElse(Stmt):
    """`then_case` where the condition holds, else `else_case`, if there is one."""

    __slots__ = ("condition", "else_case", "then_case")
    schema = "condition:expr then_case:stmt else_case:stmt?"

    def __init__(
        self, condition: Any, then_case: Stmt, else_case: Stmt | None = None, span: object = None
    ) -> None:
        self.condition = convert(condition)
        self.then_case = then_case
        self.else_case = else_case


class BufferStore(Stmt):
    """Write `value` to buffer[indices]; lanes where `predicate` is false are left alone."""

    __slots__ = ("buffer", "indices", "predicate", "value")
    schema = "buffer:buffer value:expr indices:expr* predicate:expr?"

    def __init__(
        self,
        buffer: Buffer,
        value: Any,
        indices: Sequence[Any],
        predicate: PrimExpr | None = None,
    ) -> None:
        self.buffer = buffer
        self.value = convert(value)
        self.indices = tuple(convert(i) for i in indices)
        self.predicate = predicate


class Allocate(Stmt):
    """Memory for `buffer` (its shape, dtype, scope) during `body`; at first undefined."""

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
        return self.buffer.data

    @property
    def extents(self) -> tuple[PrimExpr, ...]:
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        return self.buffer.dtype


def _allocated(data: Var, args: Sequence[Any], fields: dict[str, Any]) -> tuple[Buffer, Any]:
    """Buffer and remaining arguments of an allocation that names its memory's variable."""
    names = ("dtype", "extents", "condition", "body", "annotations")
    given = {**dict(zip(names, args)), **fields}
    fields.clear()
    if not isinstance(given["condition"], bool) and not given["condition"]:
        raise OperandError(f"the allocation of {data.name} is never made: its condition is false")
    buffer = Buffer(given["extents"], given["dtype"], data.name, data=data)
    return buffer, (given["body"], given.get("annotations"))


class SeqStmt(Stmt):
    """Statements one after another; make it with `seq`."""

    __slots__ = ("seq",)
    schema = "seq:stmt*"

    def __init__(self, seq: Sequence[Stmt]) -> None:
        self.seq = tuple(seq)

    def __iter__(self) -> Any:
        return iter(self.seq)

    def __len__(self) -> int:
        return len(self.seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]


class Evaluate(Stmt):
    """Evaluate an expression for its effect."""

    __slots__ = ("value",)
    schema = "value:expr"

    def __init__(self, value: Any) -> None:
        self.value = convert(value)


class Prefetch(Stmt):
    """Bring a box of a buffer near to the processor; changes no value."""

    __slots__ = ("bounds", "buffer")
    schema = "buffer:buffer bounds:range*"

    def __init__(self, buffer: Buffer, bounds: Sequence[Range]) -> None:
        self.buffer = buffer
        self.bounds = tuple(bounds)


class PrimFunc(Node):
    """A function. Parameters are variables; those of `buffer_map` are handles to arrays."""

    __slots__ = ("attrs", "body", "buffer_map", "params")
    schema = "params:var* body:stmt buffer_map:map attrs:dict"

    def __init__(
        self,
        params: Sequence[Var | Buffer],
        body: Stmt,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        *,
        ret_type: object = None,
        span: object = None,
    ) -> None:
        """A buffer among `params` stands for a handle to it. `ret_type` and `span` are accepted for
        TVM's sake."""
        self.buffer_map = dict(buffer_map) if buffer_map else {}
        self.params = tuple(p if isinstance(p, Var) else self._handle(p) for p in params)
        self.body = body
        self.attrs = dict(attrs) if attrs else {}

    def _handle(self, param: Any) -> Var:
        if not isinstance(param, Buffer):
            raise OperandError(f"a parameter is a Var or a Buffer, got {param!r}")
        handle = Var(param.name, "handle")
        self.buffer_map[handle] = param
        return handle

    def with_body(self, body: Stmt) -> PrimFunc:
        """The same signature with another body."""
        if body is self.body:
            return self
        return PrimFunc(self.params, body, self.buffer_map, self.attrs)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """The same function with an attribute more (or those of a dict)."""
        new = dict(key) if isinstance(key, Mapping) else {key: value}
        return PrimFunc(self.params, self.body, self.buffer_map, {**self.attrs, **new})

    def without_attr(self, key: str) -> PrimFunc:
        """The same function without an attribute."""
        attrs = {k: v for k, v in self.attrs.items() if k != key}
        return PrimFunc(self.params, self.body, self.buffer_map, attrs)

    @property
    def name(self) -> str:
        return str(self.attrs.get("global_symbol", "main"))

    def script(self, **_: Any) -> str:
        """The function as TVMScript-style text."""
        return str(_text(self))

    def show(self, *_: Any, **__: Any) -> None:
        """Print the function."""
        print(self)

    def __str__(self) -> str:
        return str(_text(self))

    __repr__ = __str__


class GlobalVar(str):
    """The name of a function in a module."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        return str(self)


class IRModule(Node):
    """Functions by name."""

    __slots__ = ("functions",)
    schema = "functions:functions"

    def __init__(self, functions: Mapping[str, PrimFunc] | None = None) -> None:
        self.functions: dict[str, PrimFunc] = {
            GlobalVar(k): f for k, f in (functions or {}).items()
        }

    @staticmethod
    def from_expr(expr: PrimFunc | IRModule) -> IRModule:
        """A module of one function, under the function's own name."""
        return expr if isinstance(expr, IRModule) else IRModule({expr.name: expr})

    def __getitem__(self, name: str) -> PrimFunc:
        found = self.functions.get(GlobalVar(name))
        if found is None:
            has = ", ".join(self.functions) or "none"
            raise UnknownNameError(f"the module has no function {name!r}; it has: {has}")
        return found

    def __setitem__(self, name: str, func: PrimFunc) -> None:
        """Put a function under a name, in the place of the one there."""
        self.functions[GlobalVar(name)] = func

    update_func = __setitem__

    def __contains__(self, name: str) -> bool:
        return name in self.functions

    def __len__(self) -> int:
        return len(self.functions)

    def update(self, other: IRModule | Mapping[str, PrimFunc]) -> None:
        """Add the functions of another module; those of the same name are replaced."""
        more = other.functions if isinstance(other, IRModule) else other
        self.functions.update((GlobalVar(k), f) for k, f in more.items())

    def get_global_var(self, name: str) -> GlobalVar:
        """The key of a function; it must be there."""
        self[name]
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """The functions' names."""
        return [GlobalVar(name) for name in self.functions]

    def show(self, *_: Any, **__: Any) -> None:
        """Print the module."""
        print(self)

    def script(self, **_: Any) -> str:
        """The module as TVMScript-style text."""
        return str(_text(self))

    def __str__(self) -> str:
        return str(_text(self))

    __repr__ = __str__


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
    """One statement that runs all given in order; expressions are evaluated."""
    return seq(*(Evaluate(s) if isinstance(s, PrimExpr) else s for s in args))


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
        return not isinstance(s.value, BufferLoad) and s.value._fields != ("op", "args")
    return isinstance(s, SeqStmt) and not s.seq


def vstore(buffer: Buffer, begin: Any, value: Any) -> Stmt:
    """Store a scalar or vector at index `begin` of a buffer (also `Buffer.vstore`)."""
    begin = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
    value = convert(value)
    lanes = parse(value.dtype).lanes // parse(buffer.dtype).lanes
    return BufferStore(buffer, value, vector_indices(begin, lanes))


Buffer.vstore = vstore  # type: ignore[attr-defined]  # statements stand above buffers

_text: Any = object.__repr__


def set_printer(printer: Any) -> None:
    """How `str(stmt)` is made; printer.py sets it, since it stands above this module."""
    global _text
    _text = printer
