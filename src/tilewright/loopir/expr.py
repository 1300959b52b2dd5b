"""Expressions: immutable nodes with a dtype, identity hash, and Python's operators.

`a + b` folds constants and makes both sides one type (int with float gives float, the wider of
two widths, scalars are broadcast to vectors). `==` and `!=` make EQ and NE nodes whose truth value
is `same_as`, so that expressions can stand in lists; use `same_as` or `structural_equal` for
questions. Node and field names are TVM's. See SEMANTICS.md for what each operation means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.dtype import canonical, parse
from ..base.errors import OperandError
from .construct import Known as Known
from .construct import cast as cast
from .construct import check_predicate
from .construct import const as const
from .construct import const_int as const_int
from .construct import convert as convert
from .construct import is_const as is_const
from .construct import lanes_of as lanes_of
from .construct import match_types as match_types
from .fold import checked_float, checked_int, round_float
from .named_op import Op as Op
from .node import Node as Node
from .node import PrimExpr as PrimExpr
from .node import set_printer as set_printer
from .operators import ExprOps
from .types import PrimType, Type, dtype_of

if TYPE_CHECKING:
    from .buffer import Buffer


class Var(PrimExpr):
    """A variable; two variables are the same only if they are the same object. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""

    __slots__ = ("_type", "name")
    schema = "name:str"

    def __init__(self, name: str = "v", dtype: Any = "int32", span: object = None) -> None:
        self.name = name
        if isinstance(dtype, Type):
            self._type = dtype
            self.dtype = dtype_of(dtype)
        else:
            self.dtype = canonical(dtype)

    @property
    def type_annotation(self) -> Type:
        """The type: of a pointer that of its elements too, where it was given."""
        given: Type | None = getattr(self, "_type", None)
        return given or PrimType(self.dtype)


class SizeVar(Var):
    """A variable known to be zero or more, such as a dimension. Raises TilewrightError where
    `dtype` is no type such as 'float32'."""

    __slots__ = ()

    def __init__(self, name: str = "size", dtype: Any = "int32", span: object = None) -> None:
        super().__init__(name, dtype)


class IntImm(PrimExpr):
    """A constant of an integer type or bool; OperandError where the type has no such value. Raises
    TilewrightError where `dtype` is no type such as 'float32'."""

    __slots__ = ("value",)
    schema = "value:int"

    def __init__(self, dtype: str, value: int, span: object = None) -> None:
        self.dtype = canonical(dtype)
        self.value = checked_int(self.dtype, int(value))

    @property
    def number(self) -> int:
        """The value, as of a FloatImm."""
        return self.value

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0


class FloatImm(PrimExpr):
    """A constant of a float type; `value` is as it was given, `number` what programs compute with.

    OperandError where a finite value is out of the range of float16 or float32. Raises
    TilewrightError where `dtype` is no type such as 'float32'.
    """

    __slots__ = ("value",)
    schema = "value:float"

    def __init__(self, dtype: str, value: float, span: object = None) -> None:
        self.dtype = canonical(dtype)
        self.value = checked_float(self.dtype, float(value))

    @property
    def number(self) -> float:
        """The value rounded to the type."""
        return round_float(self.dtype, self.value)

    def __float__(self) -> float:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0


class StringImm(PrimExpr):
    """A constant text; an argument of calls."""

    __slots__ = ("value",)
    schema = "value:str"

    def __init__(self, value: str, span: object = None) -> None:
        self.dtype = "handle"
        self.value = value

    def __eq__(self, other: Any) -> Any:
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def astype(self, dtype: str, span: object = None) -> PrimExpr:
        """OperandError: text is no number."""
        raise OperandError(
            f"Can't cast a handle to other types: {self.value!r} is text, no {dtype}"
        )

    __hash__ = ExprOps.__hash__


_OPERANDS = """Raises OperandError where `a` or `b` is neither a number nor an expression, and
TilewrightError where one is a number, the other a handle. Expressions have to be of one type."""
"""What every class of two operands says of them."""


class BinaryOp(PrimExpr):
    """An operation on two values of one type that gives that type."""

    __slots__ = ("a", "b")
    schema = "a:expr b:expr"
    abstract = True
    fold_name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = f"{cls.__doc__}\n\n{_OPERANDS}"

    def __init__(self, a: Any, b: Any, span: object = None) -> None:
        if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
            a, b = match_types(a, b)
        self.a = a
        self.b = b
        self.dtype = a.dtype


class Add(BinaryOp):
    """a + b."""

    __slots__ = ()
    fold_name = "add"


class Sub(BinaryOp):
    """a - b."""

    __slots__ = ()
    fold_name = "sub"


class Mul(BinaryOp):
    """a * b."""

    __slots__ = ()
    fold_name = "mul"


class Div(BinaryOp):
    """Quotient: exact for floats, rounded towards zero for integers."""

    __slots__ = ()
    fold_name = "div"


class Mod(BinaryOp):
    """Remainder of the division rounded towards zero; has the sign of `a`."""

    __slots__ = ()
    fold_name = "mod"


class FloorDiv(BinaryOp):
    """Integer quotient rounded down."""

    __slots__ = ()
    fold_name = "floordiv"


class FloorMod(BinaryOp):
    """Remainder of the division rounded down; has the sign of `b`."""

    __slots__ = ()
    fold_name = "floormod"


class Min(BinaryOp):
    """The smaller of two; NaN if either is NaN."""

    __slots__ = ()
    fold_name = "min"


class Max(BinaryOp):
    """The larger of two; NaN if either is NaN."""

    __slots__ = ()
    fold_name = "max"


class CmpOp(PrimExpr):
    """A comparison of two values of one type; gives bool (or a vector of bool)."""

    __slots__ = ("a", "b")
    schema = "a:expr b:expr"
    abstract = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = f"{cls.__doc__}\n\n{_OPERANDS}"

    def __init__(self, a: Any, b: Any, span: object = None) -> None:
        if not (isinstance(a, PrimExpr) and isinstance(b, PrimExpr)):
            a, b = match_types(a, b)
        self.a = a
        self.b = b
        self.dtype = _bool_like(a.dtype)


class EQ(CmpOp):
    """a == b."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is self.b


class NE(CmpOp):
    """a != b."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is not self.b


class LT(CmpOp):
    """a < b."""

    __slots__ = ()


class LE(CmpOp):
    """a <= b."""

    __slots__ = ()


class GT(CmpOp):
    """a > b."""

    __slots__ = ()


class GE(CmpOp):
    """a >= b."""

    __slots__ = ()


class And(CmpOp):
    """Logical and; both sides may be evaluated."""

    __slots__ = ()


class Or(CmpOp):
    """Logical or; both sides may be evaluated."""

    __slots__ = ()


class Not(PrimExpr):
    """The opposite of a condition. Raises OperandError where `a` is neither a number nor an
    expression."""

    __slots__ = ("a",)
    schema = "a:expr"

    def __init__(self, a: Any, span: object = None) -> None:
        self.a = convert(a)
        self.dtype = self.a.dtype


class Select(PrimExpr):
    """`true_value` where condition holds, else `false_value`; both are evaluated. Raises
    OperandError where `condition`, `false_value` or `true_value` is neither a number nor an
    expression, and TilewrightError where `false_value` and `true_value` are vectors of different
    lengths or one is a handle."""

    __slots__ = ("condition", "false_value", "true_value")
    schema = "condition:expr true_value:expr false_value:expr"

    def __init__(
        self, condition: Any, true_value: Any, false_value: Any, span: object = None
    ) -> None:
        self.condition = convert(condition)
        self.true_value, self.false_value = match_types(true_value, false_value)
        self.dtype = self.true_value.dtype


class Cast(PrimExpr):
    """A value converted to another type. Raises TilewrightError where `dtype` is no type such as
    'float32', and OperandError where `value` is neither a number nor an expression."""

    __slots__ = ("value",)
    schema = "value:expr"

    def __init__(self, dtype: str, value: Any, span: object = None) -> None:
        self.dtype = canonical(dtype)
        self.value = convert(value)


class Ramp(PrimExpr):
    """The vector base, base + stride, ... of `lanes` integers. Raises OperandError where `lanes` is
    not constant, nor vscale() times a constant, where `base` or `stride` is neither a number nor an
    expression, and TilewrightError where `base` and `stride` are vectors of different lengths or
    one is a handle."""

    __slots__ = ("base", "lanes", "stride")
    schema = "base:expr stride:expr lanes:count"

    def __init__(self, base: Any, stride: Any, lanes: Any, span: object = None) -> None:
        self.base, self.stride = match_types(base, stride)
        self.lanes, count = lanes_of(lanes)
        self.dtype = parse(self.base.dtype).with_lanes(count)


class Broadcast(PrimExpr):
    """A scalar in every lane of a vector. Raises OperandError where `value` is neither a number nor
    an expression, where `lanes` is not constant, nor vscale() times a constant."""

    __slots__ = ("lanes", "value")
    schema = "value:expr lanes:count"

    def __init__(self, value: Any, lanes: Any, span: object = None) -> None:
        self.value = convert(value)
        self.lanes, count = lanes_of(lanes)
        self.dtype = parse(self.value.dtype).with_lanes(count)


class Shuffle(PrimExpr):
    """The lanes at constant `indices` of the concatenation of `vectors`. Raises OperandError where
    `vectors` holds what is neither a number nor an expression."""

    __slots__ = ("indices", "vectors")
    schema = "vectors:expr* indices:count*"

    def __init__(self, vectors: Sequence[Any], indices: Sequence[Any], span: object = None) -> None:
        self.vectors = tuple(convert(v) for v in vectors)
        self.indices = tuple(Known(i) for i in indices)
        self.dtype = parse(self.vectors[0].dtype).with_lanes(len(self.indices))


class Let(PrimExpr):
    """`body` with `var` standing for `value`. Raises OperandError where `body` or `value` is
    neither a number nor an expression."""

    __slots__ = ("body", "value", "var")
    schema = "<var:var value:expr >body:expr"

    def __init__(self, var: Var, value: Any, body: Any, span: object = None) -> None:
        self.var = var
        self.value = convert(value)
        self.body = convert(body)
        self.dtype = self.body.dtype


class Call(PrimExpr):
    """An operation by name: an intrinsic of op.py, or an external function (`tir.call_extern`).
    Raises TilewrightError where `dtype` is no type such as 'float32', and OperandError where an
    argument is neither a number nor an expression."""

    __slots__ = ("args", "op")
    schema = "op:op args:expr*"

    def __init__(
        self, dtype: str | None, op: Any, args: Sequence[Any], span: object = None
    ) -> None:
        self.dtype = canonical(dtype) if dtype else "int32"
        self.op = op if isinstance(op, Op) else Op.named(op)
        self.args = tuple(convert(a) for a in args)


class BufferLoad(PrimExpr):
    """A read of a buffer; the last index may be a vector. Where `predicate` is false, 0 is read.
    Raises OperandError where `indices` holds what is neither a number nor an expression, where
    `predicate` is not boolean, or has other lanes than the vector."""

    __slots__ = ("buffer", "indices", "predicate")
    schema = "buffer:buffer indices:expr* predicate:expr?"

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[Any],
        predicate: PrimExpr | None = None,
        span: object = None,
    ) -> None:
        self.buffer = buffer
        self.indices = tuple(convert(i) for i in indices)
        self.predicate = predicate
        lanes = parse(self.indices[-1].dtype).lanes if self.indices else 1
        t = parse(buffer.dtype)
        self.dtype = t.with_lanes(lanes * t.lanes)
        if predicate is not None:
            check_predicate(predicate, lanes * t.lanes, "load indices", "load a vector")


def _bool_like(dtype: str) -> str:
    lanes = parse(dtype).lanes
    return "bool" if lanes == 1 else f"boolx{lanes}"
