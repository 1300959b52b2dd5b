"""Matrix products that functions of a BLAS compute, under the names of several libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..loopir.calls import call_packed
from ..loopir.op import max as larger
from ..tensor.arguments import tensor_list
from ..tensor.extern import extern
from ..tensor.tensor import Tensor


def products(library: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`matmul` and `batch_matmul` by the functions of those names of a library."""

    def matmul(
        lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
    ) -> Any:
        """An extern stage: the product of two matrices, each transposed if asked for. `kwargs` are
        passed on to te.extern. Raises TilewrightError where `lhs` or `rhs` is no tensor."""
        return product(f"{library}.matmul", lhs, rhs, transa, transb, **kwargs)

    def batch_matmul(
        lhs: Tensor,
        rhs: Tensor,
        transa: bool = False,
        transb: bool = False,
        iterative: bool = False,
        **kwargs: Any,
    ) -> Any:
        """An extern stage: the products of two stacks of matrices, of which one may be a single
        matrix; `iterative` (one product after another) gives the same. Raises TilewrightError where
        `lhs` or `rhs` is no tensor."""
        del iterative
        return product(f"{library}.batch_matmul", lhs, rhs, transa, transb, **kwargs)

    for function in (matmul, batch_matmul):
        function.__qualname__ = function.__name__
    return matmul, batch_matmul


def product(name: str, lhs: Tensor, rhs: Tensor, transa: bool, transb: bool, **kwargs: Any) -> Any:
    """An extern stage that calls the function `name` on two matrices, or two stacks of them. Raises
    TilewrightError where `lhs` or `rhs` is no tensor."""
    tensor_list([lhs, rhs], f"{name} multiplies tensors")
    n = lhs.shape[-1] if transa else lhs.shape[-2]
    m = rhs.shape[-2] if transb else rhs.shape[-1]
    return extern(
        (*(larger(a, b) for a, b in zip(lhs.shape[:-2], rhs.shape[:-2])), n, m),
        [lhs, rhs],
        lambda ins, outs: call_packed(name, ins[0], ins[1], outs[0], transa, transb),
        **{"name": "C", **kwargs},
    )
