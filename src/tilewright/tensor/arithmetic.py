"""Python's operators on whole tensors: each makes an operation with broadcasting (broadcast.py).

`==` and `!=` between tensors ask whether they are the same tensor. In the function of a `compute` a
tensor without dimensions next to an expression is read as that expression's operand: there,
`A[i] + scale` is an expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import broadcast

if TYPE_CHECKING:
    from .tensor import Tensor


class TensorArithmetic:
    """The operators of Tensor."""

    __slots__ = ()

    def __add__(self, other: Any) -> Tensor:
        return broadcast.apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return broadcast.apply("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return broadcast.apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return broadcast.apply("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return broadcast.apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return broadcast.apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return broadcast.apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return broadcast.apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return broadcast.apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return broadcast.apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return broadcast.apply("floor_mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return broadcast.apply("floor_mod", other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return broadcast.apply("left_shift", self, other)

    def __rshift__(self, other: Any) -> Tensor:
        return broadcast.apply("right_shift", self, other)

    def __and__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return broadcast.apply("bitwise_xor", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return broadcast.apply("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return broadcast.apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return broadcast.apply("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return broadcast.apply("greater_equal", self, other)

    def __neg__(self) -> Any:
        return broadcast.elementwise("negative", self, lambda x: -x)

    def __invert__(self) -> Any:
        return broadcast.elementwise("bitwise_not", self, lambda x: ~x)

    def astype(self, dtype: Any, span: object = None) -> Any:
        """Every element converted to another type (this tensor, where it has that type)."""
        return broadcast.convert_type(self, dtype)
