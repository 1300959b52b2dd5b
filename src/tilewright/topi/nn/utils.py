"""`tvm.topi.nn.utils`: paddings and strides as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, TypeVar

from ...base.errors import TilewrightError
from ...tensor.relayout import (
    LAYOUT_FREE_ATTR,
    get_shape_from_rewritten_layout,
    remove_index_check,
    rewrite_compute_body,
    rewrite_tensor_shape,
)
from ...tensor.tensor import Tensor
from ..utils import get_const_int, simplify

F = TypeVar("F", bound=Callable[..., Any])


def several(value: Any, count: int) -> list[Any]:
    """A number for each of `count` dimensions, of one number or as many. Raises TilewrightError
    where `value` holds neither one number nor `count` of them."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) == 1:
        return list(value) * count
    if len(value) != count:
        raise TilewrightError(
            f"{count} numbers, one for each dimension of space, are needed: {list(value)}"
        )
    return list(value)


def get_pad_tuple_generic(padding: Any, kernel: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Padding in front of each dimension of a window, and behind each. `padding`: a number, one for
    each dimension, one for each front and then each back, "SAME" or "VALID". Raises TilewrightError
    where `padding` is neither SAME, VALID nor one or two numbers for each dimension of
    space, where `padding` has another number of values than there are dimensions of space."""
    rank = len(kernel)
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise TilewrightError(f"Unknown padding option {padding}: SAME, VALID or numbers")
        whole = [k - 1 if padding == "SAME" else 0 for k in kernel]
        before = [simplify((n + 1) // 2) for n in whole]
        return before, [simplify(n - b) for n, b in zip(whole, before)]
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * rank:
        return list(padding[:rank]), list(padding[rank:])
    if isinstance(padding, (list, tuple)) and len(padding) not in (1, rank):
        raise TilewrightError(
            f"Size of padding can only be {rank} or {2 * rank} numbers, got {list(padding)}"
        )
    both = several(padding, rank)
    return both, list(both)


def get_pad_tuple(padding: Any, kernel: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Rows above, columns left, rows below, columns right of a two-dimensional window. Raises
    TilewrightError where `padding` is neither SAME, VALID nor one or two numbers for
    each dimension of space, where `padding` has another number of values than there are dimensions
    of space."""
    (top, left), (down, right) = get_pad_tuple_generic(padding, kernel)
    return top, left, down, right


def get_pad_tuple1d(padding: Any, kernel: Any) -> tuple[Any, Any]:
    """Elements in front and behind of a one-dimensional window. Raises TilewrightError where
    `padding` is neither SAME, VALID nor one or two numbers for each dimension of space, where
    `padding` has another number of values than there are dimensions of space."""
    window = [kernel] if not isinstance(kernel, (list, tuple)) else list(kernel)
    (left,), (right,) = get_pad_tuple_generic(padding, window)
    return left, right


def get_pad_tuple3d(padding: Any, kernel: Sequence[Any]) -> tuple[Any, ...]:
    """In front, above, left, behind, below and right of a three-dimensional window. Raises
    TilewrightError where `padding` is neither SAME, VALID nor one or two numbers for
    each dimension of space, where `padding` has another number of values than there are dimensions
    of space."""
    before, after = get_pad_tuple_generic(padding, kernel)
    return (*before, *after)


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[Any, Any]:
    """Rows and columns of padding on one side, of data (N, C, H, W) and what padding made of it."""
    if data_pad is None:
        return 0, 0
    (_, _, h, w), (_, _, ph, pw) = data.shape, data_pad.shape
    return (get_const_int(ph) - get_const_int(h)) // 2, (get_const_int(pw) - get_const_int(w)) // 2


def infer_pad3d(data: Tensor, data_pad: Tensor | None, layout: str) -> tuple[Any, Any, Any]:
    """As infer_pad, of three dimensions in layout NCDHW or NDHWC."""
    if data_pad is None:
        return 0, 0, 0
    at = [layout.index(c) for c in "DHW"]
    d, h, w = (get_const_int(data_pad.shape[k]) - get_const_int(data.shape[k]) for k in at)
    return d // 2, h // 2, w // 2


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[Any, Any]:
    """Strides of a convolution without padding, of its data, filters and result (N, C, H, W)."""
    sizes = [[get_const_int(d) for d in x.shape[2:4]] for x in (data, kernel, out)]
    hs, ws = ((i - k) // max(o - 1, 1) for i, k, o in zip(*sizes))
    return hs, ws


class FreeLayout:
    """What a search has done to an input, as operators are told it: `rewritten`, a layout such as
    "4k8j16k" in which it lies in memory, or `original`, its shape before it got another. `axes`:
    the names of the variables that the operator reads it at, whose extents are `sizes` (None where
    the input is as it was); `attrs`: of the operation that reads it. Raises TilewrightError where
    `tensor` is no placeholder, though its original shape is given."""

    def __init__(self, tensor: Tensor, rewritten: str | None, original: Any, axes: str) -> None:
        self.rewritten = rewritten or ""
        self.sizes: list[int] | None = None
        self.attrs: dict[str, Any] | None = None
        if self.rewritten:
            self.sizes = get_shape_from_rewritten_layout(self.rewritten, axes.split())
            remove_index_check(tensor)
            self.attrs = {LAYOUT_FREE_ATTR: [tensor]}
        elif original:
            rewrite_tensor_shape(tensor, original)

    def read(self, result: Tensor) -> Tensor:
        """An operation that reads the input where it lies. Raises TilewrightError where `result` is
        no te.compute with one input of free layout."""
        if not self.rewritten:
            return result
        rewritten: Tensor = rewrite_compute_body(result, self.rewritten)
        return rewritten


def named(function: F, name: str, text: str) -> F:
    """One of several functions of the same parameters, by its name and what it says of itself; what
    all of them raise is the docstring that it came with."""
    raises = cleandoc(function.__doc__ or "")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{cleandoc(text)}\n\n{raises}".rstrip()
    return function


def channels_last(
    function: Callable[..., Any], transpose: Any, orders: Sequence[Sequence[int]], text: str
) -> Callable[..., Any]:
    """A function of images (N, C, H, W), named *nchw*, for images (N, H, W, C): its first arguments
    are transposed by `orders`, and its result is transposed back."""

    @wraps(function)
    def last(*args: Any, **kwargs: Any) -> Any:
        given = signature(function).bind(*args, **kwargs)
        first = [transpose(x, order) for x, order in zip(given.args, orders)]
        result = function(*first, *given.args[len(orders) :], **given.kwargs)
        return transpose(result, (0, 2, 3, 1))

    return named(last, function.__name__.replace("nchw", "nhwc"), text)
