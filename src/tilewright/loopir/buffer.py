"""Buffers: a view of memory as an array with a shape, a dtype and a storage scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError
from .expr import BufferLoad, Call, IntImm, Node, PrimExpr, Ramp, Var, const, convert
from .iter import Range


class Buffer(Node):
    """An array in memory. Element (i, j, ...) is at data[elem_offset + i*strides[0] + ...].

    Without strides it is compact and row-major. `scope` is where it lives ("global", "shared",
    "local", "warp", ...).
    """

    schema = (
        "dtype:type name:str data:var shape:expr* strides:expr* elem_offset:expr scope_name:str "
        "data_alignment:int offset_factor:int buffer_type:str axis_separators:int*"
    )
    __slots__ = (
        "axis_separators",
        "buffer_type",
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
        self.data = data if data is not None else Var(name, "handle")
        self.shape = tuple(convert(d) for d in shape)
        self.strides: tuple[PrimExpr, ...] = tuple(convert(d) for d in strides or ())
        self.elem_offset = convert(elem_offset) if elem_offset is not None else const(0)
        self.scope_name = scope or "global"
        self.data_alignment = data_alignment if data_alignment > 0 else 64
        self.offset_factor = offset_factor or 1
        self.buffer_type = buffer_type
        self.axis_separators = tuple(axis_separators)

    def scope(self) -> str:
        """The storage scope."""
        return self.scope_name

    @property
    def ndim(self) -> int:
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
            "buffer_type": self.buffer_type,
            "axis_separators": self.axis_separators,
        }
        fields.update(changes)
        return Buffer(**fields)

    def offset_of(self, indices: Sequence[Any]) -> PrimExpr:
        """The flat element offset of one element, in elements of `dtype`."""
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

    def __getitem__(self, indices: Any) -> PrimExpr:
        if not isinstance(indices, tuple):
            indices = (indices,)
        return BufferLoad(self, indices)

    def vload(self, begin: Any, dtype: str | None = None) -> PrimExpr:
        """Load a vector of `dtype` that starts at `begin` and runs along the last dimension."""
        begin = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
        lanes = parse(canonical(dtype or self.dtype)).lanes // parse(self.dtype).lanes
        return BufferLoad(self, vector_indices(begin, lanes))

    def access_ptr(
        self,
        access_mask: Any,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        """A pointer to element `offset`, for an external function.

        `access_mask`: "r", "w", "rw" or 1, 2, 3: what the callee does with the memory.
        """
        if isinstance(access_mask, str):
            access_mask = sum({"r": 1, "w": 2}[c] for c in access_mask)
        size: PrimExpr = const(1)
        if self.strides:
            for d, stride in zip(self.shape, self.strides):
                size = size + (d - 1) * stride
        else:
            for d in self.shape:
                size = size * d
        total = convert(extent) if extent is not None else size - offset
        pointee = const(0, parse(self.dtype).with_lanes(content_lanes))
        start = self.elem_offset + convert(offset)
        return Call(
            "handle",
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


def vector_indices(begin: Sequence[Any], lanes: int) -> tuple[PrimExpr, ...]:
    """Indices of a vector of `lanes` elements along the last dimension."""
    head = tuple(convert(b) for b in begin)
    return head if lanes == 1 else (*head[:-1], Ramp(head[-1], 1, lanes))


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
    """A new buffer; `shape` is one extent or a list of them."""
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
