"""What tensors are described with: ranges, iteration variables, reductions, reads of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from . import node
from .expr import IntImm, Node, PrimExpr, Var, const, convert
from .operators import ExprOps

THREAD_KEYS = ("thread_extent", "virtual_thread")  # of AttrStmt: threads run its body


class ProducerLoad(PrimExpr):
    """A read of a tensor, before it is decided where its values are kept. Raises OperandError where
    `indices` holds what is neither a number nor an expression."""

    __slots__ = ("indices", "producer")
    schema = "producer:any indices:expr*"

    def __init__(self, producer: Any, indices: Sequence[Any], span: object = None) -> None:
        self.producer = producer
        self.indices = tuple(convert(i) for i in indices)
        self.dtype = producer.dtype


class Range(Node):
    """The integers min, ..., min + extent - 1. Raises OperandError where `begin` or `end` is
    neither a number nor an expression."""

    __slots__ = ("extent", "min")
    schema = "min:expr extent:expr"

    def __init__(self, begin: Any, end: Any = None, span: object = None) -> None:
        if end is None:
            begin, end = 0, begin
        self.min = convert(begin)
        end = convert(end)
        zero = isinstance(self.min, IntImm) and self.min.value == 0
        if not zero or self.min.dtype == end.dtype:
            self.extent = end if zero else end - self.min
        else:
            self.min, self.extent = const(0, end.dtype), end

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: object = None) -> Range:
        """The range of `extent` integers from `min_value` on. Raises OperandError where `extent` or
        `min_value` is neither a number nor an expression."""
        result = Range.__new__(Range)
        result.min = convert(min_value)
        result.extent = convert(extent)
        return result

    def __repr__(self) -> str:
        return str(node._text(self))


class ForKind(IntEnum):
    """How a loop runs."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


FOR_KINDS = ("serial", "parallel", "vectorized", "unroll", "thread_binding")  # as text has them


class IterVar(ExprOps, Node):
    """A loop variable of a tensor's computation, with its domain and kind. Raises OperandError
    where `dom` is neither a number nor an expression."""

    __slots__ = ("dom", "iter_type", "thread_tag", "var")
    schema = "dom:range? var:var iter_type:int thread_tag:str"

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    Opaque = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8
    KINDS = (
        "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque",
        "Unrolled", "Vectorized", "Parallelized", "Tensorized",
    )  # fmt: skip

    def __init__(
        self,
        dom: Any,
        var: Var | str,
        iter_type: int,
        thread_tag: str = "",
        span: object = None,
    ) -> None:
        if dom is not None and not isinstance(dom, Range):
            dom = Range(*dom) if isinstance(dom, (tuple, list)) else Range(dom)
        self.dom: Range | None = dom
        if isinstance(var, str):
            var = Var(var, dom.extent.dtype if dom is not None else "int32")
        self.var = var
        self.iter_type = iter_type
        self.thread_tag = thread_tag

    @property
    def dtype(self) -> str:
        """The integer type of the axis' variable."""
        return self.var.dtype

    def asexpr(self) -> PrimExpr:
        """The variable."""
        return self.var

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, IterVar):
            return self is other
        return ExprOps.__eq__(self, other)

    __hash__ = ExprOps.__hash__

    def __repr__(self) -> str:
        return str(node._text(self))


class CommReducer(Node):
    """A commutative, associative operation on one or several values, with its identity."""

    __slots__ = ("identity_element", "lhs", "result", "rhs")
    schema = "<lhs:var* <rhs:var* >result:expr* >identity_element:expr*"

    def __init__(
        self,
        lhs: Sequence[Var],
        rhs: Sequence[Var],
        result: Sequence[PrimExpr],
        identity_element: Sequence[PrimExpr],
        span: object = None,
    ) -> None:
        self.lhs = tuple(lhs)
        self.rhs = tuple(rhs)
        self.result = tuple(result)
        self.identity_element = tuple(identity_element)

    def __repr__(self) -> str:
        return str(node._text(self))


def _exprs(values: Sequence[Any]) -> tuple[PrimExpr, ...]:
    """Values as expressions: the same tuple where they are, which several results share."""
    whole = tuple(values)
    if all(isinstance(v, PrimExpr) for v in whole):
        return whole
    return tuple(convert(v) for v in whole)


class Reduce(PrimExpr):
    """Value `value_index` of combining `source` over `axis` where `condition` holds."""

    __slots__ = ("axis", "combiner", "condition", "init", "source", "value_index")
    schema = (
        "combiner:reducer >source:expr* >init:expr* <axis:iter* >condition:expr value_index:int"
    )

    arguments: ClassVar[Mapping[str, str]] = {"src": "source", "rdom": "axis"}

    def __init__(
        self,
        combiner: CommReducer,
        src: Sequence[Any],
        rdom: Sequence[IterVar],
        condition: PrimExpr,
        value_index: int = 0,
        init: Sequence[Any] | None = None,
        span: object = None,
    ) -> None:
        self.combiner = combiner
        self.source = _exprs(src)
        self.axis = tuple(rdom)
        self.condition = condition
        self.value_index = value_index
        self.init = _exprs(init or ())
        self.dtype = self.source[value_index].dtype
