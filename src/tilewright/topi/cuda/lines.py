"""Operators on the lines of tensors under the signatures that they have for GPUs.

`workspace`, memory for a library that TVM calls, is taken and not needed: nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul
from typing import Any

from ...base.errors import TilewrightError
from ...tensor.reduce import comm_reducer
from ...tensor.tensor import Tensor
from ..elemwise import cast
from ..reduction import reduce_with
from ..scan import running
from ..search import searchsorted as search_sorted
from ..sorting import argsort as places_in_order
from ..sorting import taken

Binary = Callable[[Any, Any], Any]


def scanop(
    data: Tensor,
    binop: Binary,
    identity_value: Any,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    workspace: Tensor | None = None,
) -> Tensor:
    """topi.scanop, without a name of the user's own."""
    return running(data, binop, identity_value, "T_scan", axis, dtype, bool(exclusive), False)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    workspace: Tensor | None = None,
) -> Tensor:
    """topi.cumsum."""
    return scanop(data, add, 0, axis, dtype, exclusive)


def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    workspace: Tensor | None = None,
) -> Tensor:
    """topi.cumprod."""
    return scanop(data, mul, 1, axis, dtype, exclusive)


def inclusive_scan(
    data: Tensor,
    axis: int = -1,
    output_dtype: str | None = None,
    binop: Binary = add,
    identity_value: Any = 0,
    workspace: Tensor | None = None,
) -> Tensor:
    """Of each line along `axis` what `binop` makes of all elements up to each."""
    return scanop(data, binop, identity_value, axis, output_dtype, False)


def exclusive_scan(
    data: Tensor,
    axis: int = -1,
    return_reduction: bool = False,
    output_dtype: str | None = None,
    binop: Binary = add,
    identity_value: Any = 0,
    workspace: Tensor | None = None,
) -> Any:
    """As inclusive_scan, without the element itself. With `return_reduction` a pair: that, and what
    `binop` makes of each whole line. Raises TilewrightError where `binop` is no function, and
    UsageError where fcombine takes not two arguments."""
    found = scanop(data, binop, identity_value, axis, output_dtype, True)
    if not return_reduction:
        return found
    wide = cast(data, output_dtype) if output_dtype else data
    reducer = comm_reducer(binop, lambda _: identity_value, "reduction")
    whole = reduce_with(lambda t, i, k: reducer(t(*i), axis=k), wide, axis, False, "T_reduction")
    return found, whole


def argsort(
    data: Tensor,
    axis: int = -1,
    is_ascend: int = 1,
    dtype: str = "float32",
    ret_type: str = "indices",
) -> Any:
    """The places of the elements along an axis in order; with `ret_type` "both" a pair of the
    elements in order and their places. Raises TilewrightError where ret_type is neither 'both' nor
    'indices', where valid_count is given and the type of `data` has no number to put last, where
    `axis` is no integer, or no dimension of the tensor."""
    if ret_type not in ("both", "indices"):
        raise TilewrightError(f"argsort: ret_type is 'both' or 'indices', got {ret_type!r}")
    if ret_type == "indices":
        return places_in_order(data, None, axis, is_ascend, dtype)
    places = places_in_order(data, None, axis, is_ascend, "int32")
    return taken(data, places, axis), cast(places, dtype)


def sort_by_key(
    keys: Tensor, values: Tensor, axis: int = -1, is_ascend: int = 1
) -> tuple[Tensor, Tensor]:
    """Keys along an axis in order, and the values that stand where they stood. Raises
    TilewrightError where valid_count is given and the type of `keys` has no number to put last,
    where `axis` is no integer, or no dimension of the tensor."""
    places = places_in_order(keys, None, axis, is_ascend, "int32")
    return taken(keys, places, axis), taken(values, places, axis)


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool, out_dtype: str = "int64"
) -> Tensor:
    """topi.searchsorted. Raises TilewrightError where sorted_sequence and values have not the same
    lines."""
    return search_sorted(sorted_sequence, values, right, out_dtype)
