"""Buffers as scripts declare and read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith.analyzer import Analyzer
from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir.buffer import BUFFER_TYPES, Buffer
from ..loopir.equal import structural_equal
from .build import fresh, present


def _list(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _field(value: Any) -> Any:
    """A stride or offset; text is the name of a new variable."""
    return E.Var(value, "int32") if isinstance(value, str) else value


def buffer(
    shape: Any,
    dtype: Any = "float32",
    data: E.Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> Buffer:
    """A buffer over the memory `data`, or over memory that the caller of the function gives.

    `strides` and `elem_offset` may be text: the name of a new variable, which stands in
    `A.strides[k]` or `A.elem_offset` afterwards. Raises UsageError where buffer_type is none of "",
    "default" and "auto", and TilewrightError where `dtype` is no type such as 'float32'.
    """
    if buffer_type not in BUFFER_TYPES:
        raise UsageError(f'buffer_type is "", "default" or "auto", got {buffer_type!r}')
    at_work = present()
    if at_work is not None and data is not None and scope == "global":
        scope = at_work.scopes.get(data, scope)
    memory = fresh(E.Var("buffer", "handle")) if data is None else data
    if offset_factor and elem_offset is None:
        elem_offset = E.Var("elem_offset", "int32")
    made = Buffer(
        _list(shape), dtype, "buffer", memory, [_field(s) for s in strides or ()],
        _field(elem_offset), scope, align, offset_factor, BUFFER_TYPES[buffer_type],
        axis_separators or (),
    )  # fmt: skip
    if at_work is not None and data is not None:
        at_work.views.setdefault(data, []).append(made)
    fresh(made)
    return made


def elements(b: Buffer, indices: Any) -> tuple[E.PrimExpr, ...]:
    """Indices of elements: slices become vectors of indices. Raises UsageError where the indices
    are not as many as the dimensions, or not integers, where a slice of `b` has no constant length
    above 0, or a step of 0."""
    given = indices if isinstance(indices, (tuple, list)) else (indices,)
    if len(given) != len(b.shape):
        raise UsageError(f"{b.name} has {len(b.shape)} dimensions, got {len(given)} indices")
    found = tuple(_index(b, k, i) for k, i in enumerate(given))
    for i in found:
        if not i.dtype.startswith(("int", "uint", "bool")):
            raise UsageError(f"an index of {b.name} is {i.dtype}, not an integer")
    return found


def _index(b: Buffer, k: int, index: Any) -> E.PrimExpr:
    if not isinstance(index, slice):
        return E.convert(index)
    start = 0 if index.start is None else index.start
    stop = b.shape[k] if index.stop is None else index.stop
    step = 1 if index.step is None else index.step
    stride = E.const_int(step)
    if not stride:
        raise UsageError(f"the step of a slice of {b.name} is a constant other than 0")
    span = _span(start, stop)
    if span is None:
        raise UsageError(
            f"a slice of {b.name} has no constant length, [{start}:{stop}]: a vector needs one"
        )
    lanes = -(-span // stride)
    if lanes < 1:
        raise UsageError(f"the slice [{start}:{stop}:{step}] of {b.name} is empty")
    return E.convert(start) if lanes == 1 else E.Ramp(start, step, lanes)


def _span(start: Any, stop: Any) -> int | None:
    low, high = E.convert(start), E.convert(stop)
    if type(high) is E.Add and structural_equal(high.a, low):
        return E.const_int(high.b)
    return E.const_int(Analyzer().simplify(high - low))


class _BufferMaker:
    """`T.Buffer((16,), "float32")`, and the old `T.Buffer[(16,), "float32"]`."""

    __call__ = staticmethod(buffer)
    __name__ = "Buffer"

    def __getitem__(self, keys: Any) -> Buffer:
        if not isinstance(keys, tuple) or (len(keys) >= 2 and not isinstance(keys[1], str)):
            return buffer(keys)
        return buffer(*keys)


BufferOf = _BufferMaker()
