"""Layouts of tensors by letters, "NCHW16c", and what one is in terms of another.

A capital letter is an axis; a number with the small letter is the inner part of that axis, of so
many elements. The names are TVM's: tir.layout, tir.bijective_layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..base.errors import UsageError
from ..loopir.expr import PrimExpr, convert
from ..loopir.node import Node
from ..loopir.op import floordiv, floormod
from .analyzer import Analyzer

_PART = re.compile(r"([A-Z])|(\d+)([a-z])")
UNDEFINED = "__undef__"


class Layout(Node):
    """The axes of a tensor in order, each by its letter; inner parts have their number before.
    Raises UsageError where `name` is no layout: an axis appears twice, lacks its factor, or has no
    capital."""

    __slots__ = ("axes", "dtype", "factors", "name")
    _fields = ("name",)

    def __init__(self, name: str, dtype: str = "int32") -> None:
        self.name = name
        self.dtype = dtype
        self.axes: tuple[str, ...] = ()
        self.factors: dict[str, int] = {}
        if name in ("", UNDEFINED):
            return
        axes, at = [], 0
        while at < len(name):
            part = _PART.match(name, at)
            if part is None:
                raise UsageError(f"Invalid layout {name!r}: at {name[at:]!r}")
            axis = part[1] or part[3]
            if axis in axes:
                raise UsageError(f"Invalid layout {name!r}: duplicate axis {axis}")
            axes.append(axis)
            if part[2]:
                factor = int(part[2])
                if factor <= 0:
                    raise UsageError(f"Invalid layout {name!r}: the factor of {axis} is {factor}")
                self.factors[axis] = factor
            at = part.end()
        for axis in self.factors:
            if axis.upper() not in axes:
                raise UsageError(f"Invalid layout {name!r}: missing axis {axis.upper()}")
        self.axes = tuple(axes)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def __len__(self) -> int:
        return len(self.axes)

    def __contains__(self, axis: str) -> bool:
        return len(axis) == 1 and axis in self.axes

    def __getitem__(self, index: int) -> str:
        if not -len(self.axes) <= index < len(self.axes):
            raise IndexError("Layout index out of range")
        return self.axes[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.axes)

    def index_of(self, axis: str) -> int:
        """The place of an axis; -1 where it is not there."""
        return self.axes.index(axis) if axis in self.axes else -1

    def factor_of(self, axis: str) -> int:
        """How many elements the inner part of an axis has, asked by either letter; -1 without
        one."""
        return self.factors.get(axis.lower(), -1)


class BijectiveLayout(Node):
    """Two layouts of the same axes, and where an element of the one is in the other."""

    __slots__ = ("dst_layout", "src_layout")
    _fields = ("src_layout", "dst_layout")

    def __init__(self, src_layout: Layout, dst_layout: Layout) -> None:
        self.src_layout, self.dst_layout = src_layout, dst_layout

    def forward_index(self, index: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The indices in the second layout of an element of the first. Raises UsageError where
        `index` has another number of axes than the layout."""
        return _moved(index, self.src_layout, self.dst_layout)

    def backward_index(self, index: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The indices in the first layout of an element of the second. Raises UsageError where
        `index` has another number of axes than the layout."""
        return _moved(index, self.dst_layout, self.src_layout)

    def forward_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The shape in the second layout of a tensor of this shape in the first. Raises UsageError
        where `shape` has another number of axes than the layout."""
        return _reshaped(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape: Sequence[Any]) -> tuple[PrimExpr, ...]:
        """The shape in the first layout of a tensor of this shape in the second. Raises UsageError
        where `shape` has another number of axes than the layout."""
        return _reshaped(shape, self.dst_layout, self.src_layout)

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout}->{self.dst_layout})"


def _simple(e: PrimExpr) -> PrimExpr:
    found: PrimExpr = Analyzer().simplify(e)
    return found


def _given(values: Sequence[Any], of: Layout, what: str) -> dict[str, Any]:
    if len(values) != len(of):
        raise UsageError(f"layout {of} has {len(of)} axes, got {what} of {len(values)}")
    return dict(zip(of.axes, map(convert, values)))


def _moved(index: Sequence[Any], source: Layout, target: Layout) -> tuple[PrimExpr, ...]:
    given = _given(index, source, "indices")
    found = []
    for axis in target.axes:
        outer, inner = axis.upper(), axis.lower()
        flat = given[outer]
        if inner in given:
            flat = flat * source.factors[inner] + given[inner]
        factor = target.factors.get(inner)
        if factor is not None:
            flat = floormod(flat, factor) if axis == inner else floordiv(flat, factor)
        found.append(_simple(flat))
    return tuple(found)


def _reshaped(shape: Sequence[Any], source: Layout, target: Layout) -> tuple[PrimExpr, ...]:
    given = _given(shape, source, "a shape")
    found = []
    for axis in target.axes:
        outer, inner = axis.upper(), axis.lower()
        if axis == inner:
            found.append(convert(target.factors[inner]))
            continue
        extent = given[outer]
        if inner in given:
            extent = extent * given[inner]
        factor = target.factors.get(inner)
        found.append(_simple(extent if factor is None else floordiv(extent + (factor - 1), factor)))
    return tuple(found)


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a text such as "NCHW16c"; UsageError where it is none."""
    return Layout(layout_str, dtype)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """The map between two layouts; None where they are not of the same axes."""
    source, target = (x if isinstance(x, Layout) else layout(x) for x in (src_layout, dst_layout))
    outer = [{a for a in x.axes if a.isupper()} for x in (source, target)]
    if not outer[0] or outer[0] != outer[1]:
        return None
    return BijectiveLayout(source, target)
