"""Buffers: a view of memory as an array with a shape, a dtype and a storage scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError, UsageError
from .expr import BufferLoad, Call, Div, IntImm, Node, PrimExpr, Ramp, Var, const, convert
from .iter import Range
from .operators import binary
from .types import PointerType, PrimType


def _memory(name: str, dtype: str, scope: str) -> Var:
    """The variable of a buffer's memory."""
    return Var(name, PointerType(PrimType("int8" if dtype == "bool" else dtype), scope or "global"))


class Buffer(Node):
    """An array in memory. Element (i, j, ...) is at data[elem_offset + i*strides[0] + ...].

    Without strides it is compact and row-major. `scope` is where it lives ("global", "shared",
    "local", "warp", ...). `data_alignment`: bytes, 64 where it is not above 0. Raises
    TilewrightError where `dtype` is no type such as 'float32', and OperandError where `elem_offset`
    or one of `shape` is neither a number nor an expression.
    """

    schema = (
        "dtype:type name:str data:var shape:expr* strides:expr* elem_offset:expr scope_name:str "
        "data_alignment:int offset_factor:int buffer_kind:str axis_separators:int*"
    )
    __slots__ = (
        "axis_separators",
        "buffer_kind",
        "data",
        "data_alignment",
        "dtype",
        "elem_offset",
        "name",
        "offset_factor",
        "scope_name",
        "shape",
        "strides",
    )

    def __init__(
        self,
        shape: Sequence[Any],
        dtype: Any = "float32",
        name: str = "buffer",
        data: Var | None = None,
        strides: Sequence[Any] | None = None,
        elem_offset: Any = None,
        scope: str = "",
        data_alignment: int = -1,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Sequence[int] = (),
    ) -> None:
        self.dtype = canonical(dtype)
        self.name = name
        self.data = data if data is not None else _memory(name, self.dtype, scope)
        self.shape = tuple(convert(d) for d in shape)
        self.strides: tuple[PrimExpr, ...] = tuple(convert(d) for d in strides or ())
        self.elem_offset = convert(elem_offset) if elem_offset is not None else const(0)
        self.scope_name = scope or "global"
        self.data_alignment = data_alignment if data_alignment > 0 else 64
        self.offset_factor = offset_factor or 1
        self.buffer_kind = buffer_type
        self.axis_separators = tuple(axis_separators)

    READ, WRITE = 1, 2  # what `access_ptr` says of the callee

    def scope(self) -> str:
        """The storage scope."""
        return self.scope_name

    @property
    def buffer_type(self) -> int:
        """2 where axes of extent 1 stand for any extent (`auto_broadcast`), else 1."""
        return 2 if self.buffer_kind else 1

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def with_(self, **changes: Any) -> Buffer:
        """A new buffer on the same data variable with some fields changed."""
        fields: dict[str, Any] = {
            "shape": self.shape,
            "dtype": self.dtype,
            "name": self.name,
            "data": self.data,
            "strides": self.strides,
            "elem_offset": self.elem_offset,
            "scope": self.scope_name,
            "data_alignment": self.data_alignment,
            "offset_factor": self.offset_factor,
            "buffer_type": self.buffer_kind,
            "axis_separators": self.axis_separators,
        }
        fields.update(changes)
        return Buffer(**fields)

    def offset_of(self, indices: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The flat element offset of one element, as the indices of `get_flattened_buffer`: one, or
        one for each group of axes between `axis_separators`. Raises TilewrightError where indices
        are not as many as the dimensions."""
        groups = list(self._groups())
        if len(groups) == 1 or len(indices) != len(self.shape):
            return (self.element_offset(indices),)
        last = len(self.shape)
        parts = [
            self.with_(
                shape=self.shape[a:b],
                strides=self.strides[a:b],
                elem_offset=self.elem_offset if b == last else 0,
            )
            for a, b in groups
        ]
        return tuple(part.element_offset(indices[a:b]) for part, (a, b) in zip(parts, groups))

    def _groups(self) -> Iterator[tuple[int, int]]:
        """The first axis, and the one after the last, between axis separators."""
        ends = [*(int(s) for s in self.axis_separators), len(self.shape)]
        yield from zip([0, *ends], ends)

    def element_offset(self, indices: Sequence[Any]) -> PrimExpr:
        """The flat element offset of one element, in elements of `dtype`. Raises TilewrightError
        where indices are not as many as the dimensions."""
        if len(indices) != len(self.shape):
            raise TilewrightError(
                f"buffer {self.name} has {len(self.shape)} dimensions, got {len(indices)} indices"
            )
        if self.strides:
            result: PrimExpr = self.elem_offset
            for index, stride in zip(indices, self.strides, strict=True):
                result = result + convert(index) * stride
            return result
        flat: PrimExpr | None = None
        for index, extent in zip(indices, self.shape, strict=True):
            flat = convert(index) if flat is None else flat * extent + index
        if flat is None:
            return self.elem_offset
        total: PrimExpr = self.elem_offset + flat
        return total

    def get_flattened_buffer(self) -> Buffer:
        """The same memory with one dimension, or one for each group of axes between
        `axis_separators`; a buffer with strides is as long as they reach."""
        groups = list(self._groups())
        if len(self.shape) == 1 and not self.strides:
            return self
        sizes: list[PrimExpr] = []
        for start, end in groups:
            size: PrimExpr = const(1)
            for extent in self.shape[start:end]:
                size = size * extent
            if self.strides and start < end:
                size = self.shape[start] * self.strides[start]
            sizes.append(size)
        separators = tuple(range(1, len(groups)))
        return self.with_(shape=sizes, strides=(), axis_separators=separators)

    def __getitem__(self, indices: Any) -> Any:
        """An element, or a vector of a slice with a step; of other slices, a BufferRegion."""
        if not isinstance(indices, (tuple, list)):
            indices = (indices,)
        slices = [i for i in indices if isinstance(i, slice)]
        if not slices:
            return BufferLoad(self, indices)
        if any(s.step is not None for s in slices):
            return BufferLoad(self, [_vector(i, d) for i, d in zip(indices, self.shape)])
        return BufferRegion(self, [_part(i, d) for i, d in zip(indices, self.shape)])

    def vload(
        self, begin: Any, dtype: str | None = None, predicate: PrimExpr | None = None
    ) -> PrimExpr:
        """Load a vector of `dtype` that starts at `begin` and runs along the last dimension.

        Lanes for which `predicate` is false read as 0. Raises OperandError where `predicate` is not
        boolean, or has other lanes than the vector, where `begin` is neither a number nor an
        expression.
        """
        begin = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
        lanes = parse(canonical(dtype or self.dtype)).lanes // parse(self.dtype).lanes
        return BufferLoad(self, vector_indices(begin, lanes), predicate)

    def access_ptr(
        self,
        access_mask: Any,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        """A pointer to element `offset`, for an external function.

        `access_mask`: "r", "w", "rw" or 1, 2, 3: what the callee does with the memory. `ptr_type`:
        the type of the call. `content_lanes`: the callee sees vectors of so many elements, in which
        the call counts its offset and its extent. `extent`: in those, how much the callee sees.
        Raises UsageError where access_mask is not made of 'r' and 'w', and OperandError where
        `access_mask`, `extent` or `offset` is neither a number nor an expression, and
        TilewrightError where `content_lanes` is no whole number of 1 or more, where `ptr_type` is
        no type such as 'float32'.
        """
        if isinstance(access_mask, str):
            if not access_mask or set(access_mask) - {"r", "w"}:
                raise UsageError(
                    f"Unknown access_mask {access_mask}: 'r', 'w' or 'rw' say what is done"
                )
            access_mask = sum({"r": 1, "w": 2}[c] for c in access_mask)
        if not isinstance(content_lanes, int) or content_lanes < 1:
            raise UsageError(f"content_lanes is a whole number of 1 or more, got {content_lanes!r}")
        size: PrimExpr = const(1)
        if self.strides:
            size = self.strides[0] * self.shape[0]
        else:
            for d in self.shape:
                size = size * d
        total = size - offset
        start = self.elem_offset + convert(offset)
        if content_lanes > 1:
            total, start = (binary(Div, x, content_lanes) for x in (total, start))
        if extent is not None:
            total = convert(extent)
        pointee = const(0, parse(self.dtype).with_lanes(content_lanes))
        return Call(
            ptr_type,
            "tir.tvm_access_ptr",
            (pointee, self.data, start, total, const(access_mask)),
        )

    def __repr__(self) -> str:
        shape = ", ".join(str(d) for d in self.shape)
        return f"Buffer({self.name}: {self.dtype}[{shape}], {self.scope_name})"


class BufferRegion(Node):
    """A box of a buffer: one range a dimension."""

    __slots__ = ("buffer", "region")
    schema = "buffer:buffer region:range*"

    def __init__(self, buffer: Buffer, region: Sequence[Range]) -> None:
        self.buffer = buffer
        self.region = tuple(region)


def _part(index: Any, extent: PrimExpr) -> Range:
    """The range of an index, or of a slice of an axis."""
    if not isinstance(index, slice):
        return Range.from_min_extent(index, 1)
    start = 0 if index.start is None else index.start
    return Range(start, extent if index.stop is None else index.stop)


def _vector(index: Any, extent: PrimExpr) -> Any:
    """The indices of a slice of an axis, as a vector; an index stays as it is."""
    if not isinstance(index, slice):
        return index
    start, step = index.start or 0, 1 if index.step is None else index.step
    length = convert(extent if index.stop is None else index.stop) - start
    return Ramp(start, step, int((length + (step - 1)) // step))


def vector_indices(begin: Sequence[Any], lanes: int) -> tuple[PrimExpr, ...]:
    """Indices of a vector of `lanes` elements along the last dimension.

    A last index that is a vector already stays as it is.
    """
    head = tuple(convert(b) for b in begin)
    whole = lanes == 1 or (head and parse(head[-1].dtype).lanes > 1)
    return head if whole else (*head[:-1], Ramp(head[-1], 1, lanes))


def _whole(what: str, number: Any) -> int:
    """An int, or a constant such as extents of shapes are."""
    value = number.value if isinstance(number, IntImm) else number
    if not isinstance(value, int):
        raise TilewrightError(f"decl_buffer: {what} must be an integer, got {number!r}")
    return value


BUFFER_TYPES = {
    "": "", "default": "", "auto": "auto_broadcast", "auto_broadcast": "auto_broadcast"
}  # fmt: skip


def decl_buffer(
    shape: Any,
    dtype: Any = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    span: object = None,
) -> Buffer:
    """A new buffer; `shape` is one extent or a list of them. `data_alignment`: bytes, 64 where it
    is not above 0. Raises TilewrightError where a name, scope or buffer_type is not text, or shape
    and strides do not hold integers, where `data_alignment` or `offset_factor` is no integer, and
    OperandError where `elem_offset` or one of `shape` is neither a number nor an expression."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for what, given in (("name", name), ("scope", scope), ("buffer_type", buffer_type)):
        if not isinstance(given, str):
            raise TilewrightError(f"decl_buffer: {what} must be text, got {given!r}")
    data_alignment = _whole("data_alignment", data_alignment)
    offset_factor = _whole("offset_factor", offset_factor)
    if buffer_type not in BUFFER_TYPES:
        raise TilewrightError(
            f'decl_buffer: buffer_type is "", "default", "auto" or "auto_broadcast", got '
            f"{buffer_type!r}"
        )
    for extent in (*shape, *(strides if isinstance(strides, (list, tuple)) else ())):
        if not parse(convert(extent).dtype).is_integer:
            raise TilewrightError(f"decl_buffer: shape and strides hold integers, got {extent!r}")
    if strides is not None and not isinstance(strides, (list, tuple)):
        raise TilewrightError(f"decl_buffer: strides must be a list, got {strides!r}")
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", "int32")
    return Buffer(
        shape,
        "float32" if dtype is None else dtype,
        name,
        data,
        strides,
        elem_offset,
        scope,
        data_alignment,
        offset_factor,
        BUFFER_TYPES[buffer_type],
        axis_separators or (),
    )
