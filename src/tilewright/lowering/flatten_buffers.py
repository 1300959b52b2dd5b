"""Give every buffer one dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..arith.analyzer import Analyzer
from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import cast, const, const_int
from ..loopir.operators import factors
from ..loopir.rewrite import Rewriter, handles
from ..loopir.subst import substitute
from .options import LowerOptions


def flatten_buffers(func: S.PrimFunc, options: LowerOptions) -> S.PrimFunc:
    """Replace buffers of any rank by flat ones on the same memory, and indices by element offsets.

    Each buffer gets one flat alias: the same name, type, scope and data variable, one dimension,
    strides and elem_offset folded into the index (`i*strides[0] + j*strides[1]`, or `i*n + j` for a
    compact buffer). A view of an argument or allocation, with the same element type, becomes the
    alias of its owner, so that later passes see one buffer. The buffers of `buffer_map` keep their
    shapes, since they describe the arguments.

    Needs accesses with as many indices as the buffer has dimensions, prefetches lowered. Guarantees
    one index an access. Stands before every pass that looks at how memory is used, since one index
    is simpler than several, and after those that need the dimensions (rolling buffers, prefetch,
    bound checks).
    """
    func = _from_first_element(func)
    flattener = _Flattener(func.buffer_map.values())
    return func.with_body(flattener.stmt(func.body))


def _from_first_element(func: S.PrimFunc) -> S.PrimFunc:
    """Arguments begin at their first element: the runtime adds the offset to the address, so a
    variable for it, unless it is an argument itself, is zero."""
    given = set(func.params)
    zeros: dict[E.Var, E.PrimExpr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for b in func.buffer_map.values():
        if isinstance(b.elem_offset, E.Var) and b.elem_offset not in given:
            zeros[b.elem_offset] = const(0, b.elem_offset.dtype)
            buffers[b] = b.with_(elem_offset=None)
    if not zeros:
        return func
    arguments = {v: buffers.get(b, b) for v, b in func.buffer_map.items()}
    body = substitute(func.body, zeros, buffers)
    return S.PrimFunc(func.params, body, None, arguments, func.attrs)


class _Flattener(Rewriter):
    def __init__(self, arguments: Iterable[Buffer]) -> None:
        self.analyzer = Analyzer()
        self.owners = {b.data: b for b in arguments}
        self.flat: dict[Buffer, Buffer] = {}
        self.huge: set[Buffer] = set()

    def buffer(self, b: Buffer) -> Buffer:
        flat = self.flat.get(b)
        if flat is None:
            owner = self.owners.get(b.data, b)
            flat = b
            if owner is not b and owner.dtype == b.dtype:
                flat = self.buffer(owner)
                if owner in self.huge:
                    self.huge.add(b)
            elif b.ndim != 1 or b.strides or const_int(b.elem_offset) != 0:
                size = self._size(b)
                if const_int(size) is None and _is_huge(b):
                    self.huge.add(b)
                    size = self.analyzer.simplify(_flat_extent(_with_wide_shape(b)))
                flat = b.with_(shape=(size,), strides=None, elem_offset=None, axis_separators=())
            self.flat[b] = flat
        return flat

    def _size(self, b: Buffer) -> Any:
        """How many elements the flat buffer spans; a product in the order of the dimensions."""
        written = _flat_extent(b)
        simple = self.analyzer.simplify(written)
        same = sorted(map(str, factors(written))) == sorted(map(str, factors(simple)))
        return written if same else simple

    def _offset(self, b: Buffer, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        indices = self.exprs(indices)
        if len(indices) != b.ndim:
            raise CompileError(
                f"buffer {b.name} has {b.ndim} dimensions, but is used with {len(indices)} indices"
            )
        if b.ndim == 1 and not b.strides and const_int(b.elem_offset) == 0:
            return indices
        if b in self.huge:
            indices = tuple([cast(_wide(i.dtype), i) for i in indices])
        return (_offset(b, indices),)

    @handles(E.BufferLoad)
    def _load(self, e: E.BufferLoad) -> Any:
        flat = self.buffer(e.buffer)
        indices = self._offset(e.buffer, e.indices)
        predicate = None if e.predicate is None else self.expr(e.predicate)
        if flat is e.buffer and indices is e.indices and predicate is e.predicate:
            return e
        return E.BufferLoad(flat, indices, predicate)

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        flat, value = self.buffer(s.buffer), self.expr(s.value)
        indices = self._offset(s.buffer, s.indices)
        predicate = None if s.predicate is None else self.expr(s.predicate)
        same = flat is s.buffer and indices is s.indices and value is s.value
        if same and predicate is s.predicate:
            return s
        return S.BufferStore(flat, value, indices, predicate)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        self.owners[s.buffer.data] = s.buffer
        return super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        node = self.buffer(s.node) if isinstance(s.node, Buffer) else s.node
        value, body = self.expr(s.value), self.stmt(s.body)
        return s.with_parts(node=node, value=value, body=body)


def _offset(b: Buffer, indices: tuple[Any, ...]) -> Any:
    """The flat offset of an element; a vector if the last index is one, others may be with it."""
    last = indices[-1] if indices else const(0)
    if type(last) is not E.Ramp and last.dtype != b.data.dtype and "x" in last.dtype:
        raise CompileError(f"buffer {b.name} of {b.ndim} dimensions takes ramps as vector index")
    scalars = tuple(i.base if type(i) is E.Ramp else i for i in indices)
    offset = b.element_offset(scalars) if indices else b.elem_offset
    if type(last) is not E.Ramp:
        return offset
    if any(type(i) is E.Ramp for i in indices[:-1]):
        steps = tuple(i.stride if type(i) is E.Ramp else const(0) for i in indices)
        stride = b.with_(elem_offset=const(0)).element_offset(steps)
    else:
        stride = last.stride * b.strides[-1] if b.strides else last.stride
    return E.Ramp(offset, stride, last.lanes)


def _wide(dtype: str) -> str:
    return parse("int64").with_lanes(parse(dtype).lanes)


def _with_wide_shape(b: Buffer) -> Buffer:
    return b.with_(shape=[cast("int64", d) for d in b.shape])


def _is_huge(b: Buffer) -> bool:
    """Whether int32 cannot count the elements of a buffer of constant shape."""
    size = const_int(_flat_extent(_with_wide_shape(b)))
    return size is not None and size >= 1 << 31


def _flat_extent(b: Buffer) -> Any:
    """How many elements the flat buffer spans."""
    if not b.strides:
        size: Any = const(1)
        for d in b.shape:
            size = size * d
        return size + b.elem_offset
    last = 0
    for d, x in zip(b.shape, b.strides):
        extent, stride = const_int(d), const_int(x)
        if extent is None or stride is None:
            return b.strides[0] * b.shape[0] + b.elem_offset
        last += (extent - 1) * stride
    return b.elem_offset + (last + 1)
