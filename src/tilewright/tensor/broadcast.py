"""Element-wise operations on tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtype import canonical
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import operators as O
from ..loopir.expr import IntImm, PrimExpr
from . import compute as C
from . import tensor as T
from .extents import same_extent

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: O.binary(E.Add, a, b),
    "subtract": lambda a, b: O.binary(E.Sub, a, b),
    "multiply": lambda a, b: O.binary(E.Mul, a, b),
    "divide": O.divide,
    "floor_divide": lambda a, b: O.binary(E.FloorDiv, a, b),
    "floor_mod": lambda a, b: O.binary(E.FloorMod, a, b),
    "maximum": lambda a, b: O.binary(E.Max, a, b),
    "minimum": lambda a, b: O.binary(E.Min, a, b),
    "left_shift": lambda a, b: O.bitwise("tir.shift_left", a, b),
    "right_shift": lambda a, b: O.bitwise("tir.shift_right", a, b),
    "bitwise_and": lambda a, b: O.bitwise("tir.bitwise_and", a, b),
    "bitwise_or": lambda a, b: O.bitwise("tir.bitwise_or", a, b),
    "bitwise_xor": lambda a, b: O.bitwise("tir.bitwise_xor", a, b),
    "less": lambda a, b: O.compare(E.LT, a, b),
    "less_equal": lambda a, b: O.compare(E.LE, a, b),
    "greater": lambda a, b: O.compare(E.GT, a, b),
    "greater_equal": lambda a, b: O.compare(E.GE, a, b),
    "equal": lambda a, b: O.compare(E.EQ, a, b),
    "not_equal": lambda a, b: O.compare(E.NE, a, b),
}


def apply(name: str, a: Any, b: Any) -> T.Tensor:
    """The operation `BINARY[name]` on two operands, at least one of which is a tensor.

    Gives a tensor (operation `T_<name>`); in the function of a `compute`, whose
    elements are no tensors, an expression where a tensor without dimensions meets one that is no
    constant.
    """
    function = BINARY[name]
    for one, other in ((a, b), (b, a)) if C.in_element.get() else ():
        if isinstance(one, T.Tensor) and not one.shape and _is_element(other):
            x, y = (one(), other) if one is a else (other, one())
            element: Any = function(x, y)
            return element
    try:
        return broadcast(function, a, b, name=f"T_{name}")
    except TypeError:
        return NotImplemented


def _is_element(x: Any) -> bool:
    return isinstance(x, O.ExprOps) and not E.is_const(x)


def broadcast(
    function: Callable[..., Any], *operands: Any, name: str = "T_elemwise", tag: str = ""
) -> T.Tensor:
    """`function` of the elements of tensors (and scalars) broadcast to one shape. The tag is
    "broadcast" for several tensors, "elemwise" for one, where none is given.

    Raises TilewrightError where shapes do not fit.
    """
    values = [x if isinstance(x, T.Tensor) else _scalar(x) for x in operands]
    shape: tuple[PrimExpr, ...] = ()
    tensors = [v for v in values if isinstance(v, T.Tensor)]
    for tensor in tensors:
        shape = broadcast_shape(shape, tensor.shape)
    tag = tag or ("broadcast" if len(tensors) > 1 else "elemwise")

    def element(*axes: Any) -> Any:
        return function(
            *(read_broadcast(v, axes, shape) if isinstance(v, T.Tensor) else v for v in values)
        )

    result: T.Tensor = C.compute(shape, element, name, tag, varargs_names=C.ax_names(len(shape)))
    return result


def _scalar(x: Any) -> Any:
    return x if isinstance(x, (bool, int, float)) else E.convert(x)


def broadcast_shape(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """The shape that both `a` and `b` broadcast to, aligned at the last dimension."""
    if len(a) < len(b):
        a, b = b, a
    shape = list(a)
    skip = len(a) - len(b)
    for i, y in enumerate(b):
        x = a[skip + i]
        if _is_one(x):
            shape[skip + i] = y
        elif _is_one(y) or same_extent(x, y) or isinstance(y, IntImm) != isinstance(x, IntImm):
            # an unknown extent next to a known one must be equal to it: the built function checks
            shape[skip + i] = y if isinstance(y, IntImm) and not _is_one(y) else x
        else:
            raise TilewrightError(
                f"Incompatible broadcast dims: {x} and {y} in: {list(a)} and {list(b)}"
            )
    return tuple(shape)


def read_broadcast(tensor: T.Tensor, axes: Sequence[Any], shape: Sequence[PrimExpr]) -> PrimExpr:
    """The element of `tensor` that stands at `axes` of the broadcast result."""
    skip = len(shape) - tensor.ndim
    indices = []
    for i, extent in enumerate(tensor.shape):
        repeated = _is_one(extent) and not _is_one(shape[skip + i])
        indices.append(0 if repeated else axes[skip + i])
    return tensor(*indices)


def _is_one(extent: PrimExpr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def elementwise(name: str, tensor: Any, function: Callable[[Any], Any]) -> T.Tensor:
    """`function` of every element; operation `T_<name>`, tag "elemwise"."""
    return broadcast(function, tensor, name=f"T_{name}", tag="elemwise")


def convert_type(tensor: Any, dtype: Any) -> T.Tensor:
    """Every element converted to `dtype`."""
    if isinstance(tensor, T.Tensor) and tensor.dtype == canonical(dtype):
        return tensor
    return elementwise("cast", tensor, lambda x: E.cast(dtype, x))
