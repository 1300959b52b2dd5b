"""Sparse tensors, as rows of indices and values, of other shapes."""

from __future__ import annotations

from typing import Any

from ..loopir import op as O
from ..loopir.expr import cast, const
from ..loopir.ir_builder import IRBuilder, create
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each, on_device, variable
from .utils import get_const_int


def sparse_reshape(
    sparse_indices: Tensor,
    prev_shape: Tensor,
    new_shape: Tensor,
    new_sparse_indices_shape: Any,
    new_shape_shape: Any,
) -> list[Tensor]:
    """Indices (count, dimensions) of a sparse tensor of `prev_shape`, a tensor, in `new_shape`, of
    which one extent may be -1. Returns [indices of new_sparse_indices_shape, the new shape]. Takes
    integers; results have the type of `sparse_indices`. Raises UsageError where `new_shape` or
    `prev_shape` has an extent or a value that has to be constant and is not."""
    before, after = get_const_int(prev_shape.shape[0]), get_const_int(new_shape.shape[0])
    dtype, count = sparse_indices.dtype, sparse_indices.shape[0]

    def move(ib: IRBuilder, indices: Any, old: Any, shape: Any, out: Any, n: Any) -> None:
        flat: Any = const(0, dtype)
        for d in range(before):
            flat = flat * cast(dtype, old[d]) + indices[n, d]
        place = variable(ib, dtype, flat, "place")
        for d in reversed(range(after)):
            extent = O.max(cast(dtype, shape[d]), const(1, dtype))
            out[n, d] = O.truncmod(place[0], extent) if d else place[0]
            place[0] = O.truncdiv(place[0], extent)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        indices, old, wanted, out, shape = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, 1, 1):
            size = variable(ib, dtype, const(1, dtype), "size")
            known = variable(ib, dtype, const(1, dtype), "known")
            for d in range(before):
                size[0] = size[0] * cast(dtype, old[d])
            for d in range(after):
                extent = cast(dtype, wanted[d])
                known[0] = known[0] * O.select(extent < const(0, dtype), const(1, dtype), extent)
            for d in range(after):
                extent = cast(dtype, wanted[d])
                rest = O.truncdiv(size[0], O.max(known[0], const(1, dtype)))
                found = O.select(extent < const(0, dtype), rest, extent)
                shape[d] = cast(new_shape.dtype, found)
            if not on_device():
                with ib.for_range(0, count, name="n") as n:
                    move(ib, indices, old, shape, out, n)
        if on_device():
            with each(ib, count, count) as n:
                move(ib, indices, old, shape, out, n)
        return ib.get()

    shapes = [tuple(new_sparse_indices_shape), tuple(new_shape_shape)]
    inputs = [sparse_indices, prev_shape, new_shape]
    dtypes = [dtype, new_shape.dtype]
    found: list[Tensor] = extern(shapes, inputs, body, "sparse_reshape", dtypes)
    return found


def sparse_fill_empty_rows(
    sparse_indices: Tensor,
    sparse_values: Tensor,
    dense_shape: Tensor,
    default_value: Tensor,
    new_sparse_indices_shape: Any,
    new_sparse_values_shape: Any,
    empty_row_indicator_shape: Any,
) -> list[Tensor]:
    """A sparse tensor, its rows of indices ascending, with `default_value` at the front of each row
    that has no element. Returns [indices, values, (rows,) whether each was empty, of bool]. Raises
    UsageError where `sparse_indices` has an extent or a value that has to be constant and is
    not."""
    rank = get_const_int(sparse_indices.shape[1])
    rows = empty_row_indicator_shape[0]
    dtype = sparse_indices.dtype
    count = sparse_indices.shape[0]

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        indices, values, _, default = (ib.buffer_ptr(b) for b in ins)
        out, numbers, empty = (ib.buffer_ptr(b) for b in outs)
        other = default[(0,) * default_value.ndim]
        with each(ib, 1, 1):
            read, to = variable(ib, "int32", 0, "read"), variable(ib, "int32", 0, "to")
            with ib.for_range(0, rows, name="row") as row:
                own = variable(ib, "bool", False, "own")
                more = variable(ib, "bool", True, "more")
                with ib.while_loop(more[0]):
                    at = ib.let("at", O.min(read[0], O.max(count - 1, 0)))
                    with ib.if_scope(
                        O.if_then_else(
                            read[0] < count, indices[at, 0].equal(cast(dtype, row)), const(False)
                        )
                    ):
                        for d in range(rank):
                            out[to[0], d] = indices[at, d]
                        numbers[to[0]] = values[at]
                        to[0] = to[0] + 1
                        read[0] = read[0] + 1
                        own[0] = const(True)
                    with ib.else_scope():
                        more[0] = const(False)
                empty[row] = O.bitwise_xor(own[0], const(True))
                with ib.if_scope(O.bitwise_xor(own[0], const(True))):
                    for d in range(rank):
                        out[to[0], d] = cast(dtype, row) if d == 0 else const(0, dtype)
                    numbers[to[0]] = other
                    to[0] = to[0] + 1
        return ib.get()

    shapes = [
        tuple(new_sparse_indices_shape),
        tuple(new_sparse_values_shape),
        tuple(empty_row_indicator_shape),
    ]
    inputs = [sparse_indices, sparse_values, dense_shape, default_value]
    dtypes = [dtype, sparse_values.dtype, "bool"]
    found: list[Tensor] = extern(shapes, inputs, body, "sparse_fill_empty_rows", dtypes)
    return found
