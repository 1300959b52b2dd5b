"""Loads and stores in C, CUDA and OpenCL: single elements, whole vectors, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import InternalError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.visit import nodes
from .c_family import bare


def flat_index(buffer: Buffer, indices: Sequence[Any]) -> Any:
    """The one index of a flat buffer."""
    if len(indices) == 1:
        return indices[0]
    if not indices:
        return E.const(0)
    raise InternalError(f"buffer {buffer.name} has {len(indices)} indices; flatten it first")


def load(p: Any, e: E.BufferLoad) -> str:
    """The value of a BufferLoad."""
    at, t, own = flat_index(e.buffer, e.indices), parse(e.dtype), parse(e.buffer.dtype)
    if t.lanes == 1:
        text = p.load_element(e.buffer, bare(p.expr(at)), t)
        if e.predicate is None:
            return str(text)
        return f"({p.expr(e.predicate)} ? {text} : {p.zero(t)})"
    base = _contiguous(at, own)
    if base is not None and e.predicate is None:
        whole = p.load_vector(e.buffer, base, t)
        if whole is not None:
            return str(whole)
    elements = [p.load_element(e.buffer, bare(i), parse(t.element)) for i in places(p, at, own)]
    if e.predicate is not None:
        flags = _flags(p, e.predicate, t.lanes)
        zero = p.zero(parse(t.element))
        elements = [f"({flag} ? {x} : {zero})" for flag, x in zip(flags, elements)]
    return str(p.make(e.dtype, elements))


def contiguous(e: E.BufferLoad) -> Any:
    """The index of the first of the consecutive elements that are read, or None."""
    return _contiguous(flat_index(e.buffer, e.indices), parse(e.buffer.dtype))


def _contiguous(at: Any, own: DType) -> Any:
    """The index of the first of consecutive elements (in elements of scalars), or None."""
    if own.lanes > 1:
        return at * own.lanes if parse(at.dtype).lanes == 1 else None
    if isinstance(at, E.Ramp) and const_int(at.stride) == 1:
        return at.base
    return None


def places(p: Any, at: Any, own: DType) -> list[str]:
    """The index of each scalar element that a vector access touches."""
    if own.lanes == 1:
        return list(p.lanes_of(at))
    if parse(at.dtype).lanes > 1:
        raise InternalError("a vector of indices into a buffer of vectors")
    start = p.atom(at * own.lanes)
    return [p.offset(start, i) for i in range(own.lanes)]


def _flags(p: Any, predicate: Any, lanes: int) -> list[str]:
    flags = p.lanes_of(predicate)
    return list(flags * lanes if len(flags) == 1 else flags)


def store(p: Any, s: S.BufferStore) -> None:
    """Write a BufferStore."""
    buffer, own = s.buffer, parse(s.buffer.dtype)
    at = flat_index(buffer, s.indices)
    roots = (at, s.value) if s.predicate is None else (at, s.value, s.predicate)
    p.statement(*roots)
    width = own.lanes * parse(at.dtype).lanes
    value = s.value if parse(s.value.dtype).lanes == width else E.Broadcast(s.value, width)
    t = parse(value.dtype)
    if width == 1:
        place = bare(p.expr(at))
        text = p.store_value(buffer, place, value, t)
        _guarded(p, None if s.predicate is None else p.expr(s.predicate), text)
        return
    base = _contiguous(at, own)
    if base is not None and s.predicate is None:
        text = p.store_vector(buffer, base, value, t)
        if text is not None:
            p.line(text)
            return
    flags = None if s.predicate is None else _flags(p, s.predicate, width)
    # values are all read before the first lane is written
    lanes = _settled(p, value)
    spots = places(p, at, own)
    element = parse(t.element)
    for i, (place, lane) in enumerate(zip(spots, lanes)):
        text = p.store_element(buffer, bare(place), lane, element)
        _guarded(p, None if flags is None else flags[i], text)


def _settled(p: Any, value: Any) -> list[str]:
    """The lanes of a value, read into variables where they read memory."""
    if isinstance(value, (E.Broadcast, E.Ramp)):
        return list(p.lanes_of(value))
    t = parse(value.dtype)
    name = p.atom(value)
    return [p.lane(name, t, i) for i in range(t.lanes)]


def _guarded(p: Any, condition: str | None, text: str) -> None:
    p.line(text if condition is None else f"if ({bare(condition)}) {text}")


def pointer_types(func: S.PrimFunc) -> tuple[dict[E.Var, str], dict[E.Var, Buffer]]:
    """Of the data variables used in a function: the scalar type of the elements, a buffer."""
    types: dict[E.Var, str] = {}
    buffers: dict[E.Var, Buffer] = {}
    for x in nodes(func.body):
        if isinstance(x, (E.BufferLoad, S.BufferStore)):
            types.setdefault(x.buffer.data, parse(x.buffer.dtype).element)
            buffers.setdefault(x.buffer.data, x.buffer)
        elif isinstance(x, E.Call) and x.op.name == "tir.tvm_access_ptr":
            data = x.args[1]
            if isinstance(data, E.Var):
                types.setdefault(data, parse(x.args[0].dtype).element)
    return types, buffers


def allocated(func: S.PrimFunc) -> dict[E.Var, Buffer]:
    """The buffers that a function allocates, by data variable."""
    return {x.buffer.data: x.buffer for x in nodes(func.body) if isinstance(x, S.Allocate)}


def vector_accessed(func: S.PrimFunc) -> set[E.Var]:
    """The data variables that are read or written by vectors somewhere, or whose address is
    taken."""
    found: set[E.Var] = set()
    for x in nodes(func.body):
        if isinstance(x, (E.BufferLoad, S.BufferStore)):
            if any(parse(i.dtype).lanes > 1 for i in x.indices) or parse(x.buffer.dtype).lanes > 1:
                found.add(x.buffer.data)
        elif isinstance(x, E.Call):
            found.update(a for a in x.args if isinstance(a, E.Var) and parse(a.dtype).is_handle)
            if x.op.name == "tir.address_of" and isinstance(x.args[0], E.BufferLoad):
                found.add(x.args[0].buffer.data)
    return found
