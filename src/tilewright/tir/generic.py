"""`tvm.tir.generic`: arithmetic as functions."""

from ..loopir.expr import cast as _cast
from ..loopir.expr import convert as _convert
from ..loopir.node import PrimExpr
from ..loopir.op import add as add
from ..loopir.op import floordiv as floordiv
from ..loopir.op import multiply as multiply
from ..loopir.op import subtract as subtract
from ..loopir.operators import ExprLike


def cast(src: ExprLike, dtype: str, span: object = None) -> PrimExpr:
    """An expression in another type. Raises TilewrightError where `dtype` is no type such as
    'float32', and OperandError where `src` is neither a number nor an expression."""
    return _cast(dtype, _convert(src))


def divide(lhs: ExprLike, rhs: ExprLike, span: object = None) -> PrimExpr:
    """The quotient of floats; of integers, rounded towards zero. Raises TilewrightError where the
    divisor is the constant 0."""
    from ..loopir.op import div

    return div(lhs, rhs)
