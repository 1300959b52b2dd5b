"""Tensors one after another, copied run by run: for what is computed by itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..base.dtype import parse
from ..loopir.ir_builder import IRBuilder, create
from ..target.target import Target
from ..tensor.extents import dimension
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each, on_device
from .transform import check_joined, concatenate
from .utils import get_const_tuple, unravel_index

_LONG = 64  # elements behind the axis, from which on a condition for each row costs nothing
_FEW = 4  # runs, of each of which threads take parts
_PARALLEL = 1 << 14  # elements that are worth waking threads for


def joined(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """As concatenate, as loops of their own on CPUs where what lies behind the axis is short: there
    an expression would ask for each vector, or each element of it, which tensor it is from. Raises
    TilewrightError where `axis` is no integer, or no dimension of the tensor, where the tensors
    have not one shape."""
    shapes = [list(get_const_tuple(t.shape)) for t in tensors]
    at = dimension(axis, len(shapes[0]))
    check_joined("joined", tensors, at)
    fixed = all(isinstance(d, int) for shape in shapes for d in shape)
    if on_device() or not fixed or prod(shapes[0][at + 1 :]) >= _LONG:
        return concatenate(tensors, axis)
    whole = [*shapes[0][:at], sum(shape[at] for shape in shapes), *shapes[0][at + 1 :]]
    if 0 in whole:
        return concatenate(tensors, axis)
    lines, inner = prod(whole[:at]), prod(whole[at + 1 :])
    nbytes = parse(tensors[0].dtype).nbytes
    target = Target.current(allow_none=True)
    lanes = max(1, (target.vector_bytes if target is not None else 16) // nbytes)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        out = _Run(ib, outs[0], whole, at)
        with each(ib, lines, prod(whole), 1) as line:
            start = 0
            for shape, x in zip(shapes, ins):
                run = shape[at] * inner
                kind = "parallel" if lines < _FEW and run >= _PARALLEL else "serial"
                _copied(ib, out, _Run(ib, x, shape, at), (line, start, run), lanes, kind)
                start += run
        return ib.get()

    dtype = tensors[0].dtype
    result: Tensor = extern([whole], list(tensors), body, "T_joined", [dtype])
    return result


class _Run:
    """A buffer as lines of what is at and behind an axis."""

    def __init__(self, ib: IRBuilder, buffer: Any, shape: Sequence[int], at: int) -> None:
        self.data, self.outer, self.inner = ib.buffer_ptr(buffer), shape[:at], shape[at:]

    def place(self, line: Any, element: Any) -> Any:
        return (*unravel_index(line, self.outer), *unravel_index(element, self.inner))


def _copied(
    ib: IRBuilder, out: _Run, x: _Run, place: tuple[Any, int, int], lanes: int, kind: str
) -> None:
    """A run of a line of `x` to where it starts in the line of `out`."""
    line, start, run = place

    def copy(element: Any) -> None:
        out.data[out.place(line, start + element)] = x.data[x.place(line, element)]

    if run >= lanes:
        chunks = ib.for_range(0, run // lanes, name="chunk", kind=kind)
        with chunks as c, ib.for_range(0, lanes, name="lane", kind="vectorize") as v:
            copy(c * lanes + v)
    with ib.for_range(run // lanes * lanes, run, name="rest") as r:
        copy(r)
