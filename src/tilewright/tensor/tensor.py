"""Tensors: what an operation gives, and how it is read in expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..base.errors import TilewrightError, UsageError
from ..loopir.expr import Node, PrimExpr, const_int, convert
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.numpy_calls import by_operator
from ..loopir.operators import ExprOps
from .arithmetic import TensorArithmetic

if TYPE_CHECKING:
    from .operations import Operation


class DataProducer(Node):
    """What gives elements to read: tensors."""

    __slots__ = ()


class Tensor(TensorArithmetic, DataProducer):
    """Output `value_index` of the operation `op`.

    An operation keeps one Tensor object an output, so that equality and hash are identity.
    `A[i, j]` and `A(i, j)` read an element; `A[i]` of a matrix waits for another index.
    """

    __slots__ = ("dtype", "op", "shape", "value_index")
    _fields = ("op", "value_index")
    is_tensor: ClassVar[bool] = True

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return by_operator(self, ufunc, method, inputs, options)

    def __init__(
        self, op: Operation, value_index: int, shape: Sequence[PrimExpr], dtype: str
    ) -> None:
        self.op = op
        self.value_index = value_index
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name; with several outputs, `.v` and this one's number follow."""
        if self.op.num_outputs == 1:
            return self.op.name
        return f"{self.op.name}.v{self.value_index}"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The iteration axes of the operation."""
        return self.op.axis

    def __call__(self, *indices: Any) -> ProducerLoad:
        if len(indices) != len(self.shape):
            raise UsageError(
                f"Tensor dimension mismatch in read ndim = {len(self.shape)}, "
                f"indices.size={len(indices)}: give one index for each dimension of {self!r}"
            )
        return ProducerLoad(self, [as_index(self, i) for i in indices])

    def __getitem__(self, indices: Any) -> TensorSlice:
        return TensorSlice(self, indices if isinstance(indices, tuple) else (indices,))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        extent = const_int(self.shape[0])
        if extent is None:
            raise TypeError(f"len() of {self!r}: its first extent is symbolic")
        return extent

    def __setitem__(self, indices: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"{self!r} is a formula, and cannot be assigned to: te.compute makes another, for "
            "example with te.if_then_else(i == 0, value, A[i])"
        )

    def __iter__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be iterated over: its elements have no values "
            "yet. te.compute goes over them, te.sum(..., axis=te.reduce_axis((0, n))) adds them up"
        )

    def asexpr(self) -> PrimExpr:
        """The element of a tensor without dimensions. Raises TilewrightError where the tensor has
        dimensions."""
        if self.shape:
            raise TilewrightError(
                f"{self!r} stands where one element is needed: "
                f"Tensor dimension mismatch in read ndim = {len(self.shape)}, indices.size=0; "
                f"index it, for example {self.name}[{', '.join('ijklmnop'[: self.ndim])}]"
            )
        return ProducerLoad(self, ())

    def __str__(self) -> str:
        shape = ", ".join(str(d) for d in self.shape)
        return f"Tensor(shape=[{shape}], op.name={self.op.name})"

    __repr__ = __str__


class TensorSlice(ExprOps):
    """A tensor with some indices given: an element when all are, else to be indexed on.

    Indices may be ranges (`A[i, 0:k]`) in arguments of a tensor intrinsic.
    """

    __slots__ = ("indices", "tensor")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return by_operator(self, ufunc, method, inputs, options)

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: Any) -> TensorSlice:
        more = indices if isinstance(indices, tuple) else (indices,)
        return TensorSlice(self.tensor, self.indices + more)

    @property
    def dtype(self) -> str:
        """The type of an element."""
        return self.tensor.dtype

    def asexpr(self) -> PrimExpr:
        """The element, once all indices are given."""
        return self.tensor(*self.indices)

    asobject = asexpr

    def __iter__(self) -> Any:
        raise TypeError(
            f"{self!r}, a part of {self.tensor!r}, cannot be iterated over: its elements have no "
            "values yet. te.sum(..., axis=te.reduce_axis((0, n))) adds them up"
        )

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{', '.join(str(i) for i in self.indices)}]"


def as_index(tensor: Tensor, index: Any) -> PrimExpr:
    """An index expression; it must be an integer."""
    if isinstance(index, slice):
        raise TilewrightError(
            f"{tensor.name} is indexed with a range {index.start}:{index.stop}; "
            "only arguments of tensor intrinsics take ranges"
        )
    e = convert(index)
    if not e.dtype.startswith(("int", "uint", "bool")):
        raise TilewrightError(
            f"index {e} of tensor {tensor.name} is {e.dtype}; indices must be integers, "
            "convert it with .astype('int32')"
        )
    return e
