"""A hash of what a computation is, whatever its operations and axes are called.

Two computations with the same hash have the same operations in the same order with the same shapes,
elements and attributes, so that rows found for one fit the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..loopir.expr import Call, FloatImm, IntImm, Let, PrimExpr, Shuffle, StringImm, Var, const_int
from ..loopir.iter import CommReducer, IterVar, ProducerLoad, Reduce
from ..loopir.visit import children, post_order_visit
from ..tensor.op import ComputeOp, Operation, PlaceholderOp, domain
from ..tensor.serial import program_key
from ..tensor.tensor import Tensor

VERSION = "1"


def structure_hash(ops: Sequence[Operation], tensors: Sequence[Tensor]) -> str:
    """MD5 of the structure of `ops` (producers first) with `tensors` as arguments, in hex.

    Where an operation is no compute operation (scan, extern, tensor intrinsic) names count too.
    TilewrightError where attributes of such a computation hold what has no form as data.
    """
    if all(isinstance(op, (PlaceholderOp, ComputeOp)) for op in ops):
        text = _Structure(ops).text(tensors)
    else:
        text = program_key(tensors)
    return hashlib.md5(f"{VERSION} {text}".encode(), usedforsecurity=False).hexdigest()


class _Structure:
    """Numbers for equal parts: an expression's number stands for its text in numbers of parts."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.places = {op: n for n, op in enumerate(ops)}
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.vars: dict[Var, str] = {}
        self.lines = [self.op(op) for op in ops]

    def text(self, tensors: Sequence[Tensor]) -> str:
        parts = [self.tensor(t) for t in tensors]
        return repr((list(self.numbers), self.lines, parts))

    def tensor(self, t: Tensor) -> Any:
        return ("tensor", self.places.get(t.op, -1), t.value_index)

    def op(self, op: Operation) -> Any:
        if isinstance(op, PlaceholderOp):
            return ("placeholder", [const_int(n) for n in op.shape], op.dtype)
        assert isinstance(op, ComputeOp)
        for n, axis in enumerate((*op.axis, *op.reduce_axis)):
            self.vars[axis.var] = f"axis{n}"
        extents = [self.axis(a) for a in (*op.axis, *op.reduce_axis)]
        body = [self.expr(e) for e in op.body]
        attrs = sorted((str(k), self.plain(v)) for k, v in op.attrs.items())
        return ("compute", extents, len(op.axis), body, attrs)

    def axis(self, axis: IterVar) -> Any:
        dom = domain(axis)
        return (const_int(dom.min), const_int(dom.extent))

    def expr(self, e: PrimExpr) -> int:
        """The number of an expression."""
        found: dict[int, int] = {}

        def visit(x: Any) -> None:
            key = (type(x).__name__, str(x.dtype), *self.own(x))
            key += tuple(found[id(c)] for c in children(x))
            found[id(x)] = self.numbers.setdefault(key, len(self.numbers))

        post_order_visit(e, visit)
        return found[id(e)]

    def own(self, x: Any) -> tuple[Any, ...]:
        """What tells a node from others with the same parts."""
        if isinstance(x, (IntImm, StringImm)):
            return (x.value,)
        if isinstance(x, FloatImm):
            return (x.number.hex(),)
        if isinstance(x, Var):
            return (self.vars.setdefault(x, f"free{len(self.vars)}"),)
        if isinstance(x, ProducerLoad):
            return self.tensor(x.producer)[1:]  # type: ignore[no-any-return]
        if isinstance(x, Call):
            return (x.op.name,)
        if isinstance(x, Reduce):
            return (x.value_index, len(x.source), *self.combiner(x.combiner))
        if isinstance(x, Let):
            return (self.expr(x.var),)
        if isinstance(x, Shuffle):
            return x.indices
        return (getattr(x, "lanes", 0),)

    def combiner(self, c: CommReducer) -> tuple[Any, ...]:
        for kind, side in (("lhs", c.lhs), ("rhs", c.rhs)):
            for n, var in enumerate(side):
                self.vars[var] = f"{kind}{n}"
        return tuple(self.expr(e) for e in (*c.result, *c.identity_element))

    def plain(self, value: Any) -> str:
        """An attribute as text; of an object that is no data only its type."""
        if isinstance(value, Tensor):
            return repr(self.tensor(value))
        if isinstance(value, Operation):
            return repr(("op", self.places.get(value, -1)))
        if isinstance(value, PrimExpr):
            return f"expr {self.expr(value)}"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(self.plain, value))}]"
        if isinstance(value, Mapping):
            pairs = sorted((str(k), self.plain(v)) for k, v in value.items())
            return repr(pairs)
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        return type(value).__name__
