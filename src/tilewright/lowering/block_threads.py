"""The threads of a kernel's block: their axes, extents and places in warps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import cast, const, const_int
from ..loopir.op import shift_left
from ..target.target import Target

_ORDER = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


class ThreadAxis:
    """One axis of a block: its variable and how many threads it has."""

    __slots__ = ("extent", "tag", "var")

    def __init__(self, var: E.Var, tag: str, extent: int) -> None:
        self.var = var
        self.tag = tag
        self.extent = extent


class BlockThreads:
    """The axes of a block with more than one thread, x first, as lanes are numbered."""

    def __init__(self, axes: Sequence[ThreadAxis]) -> None:
        self.axes = [a for a in axes if a.extent != 1]

    @classmethod
    def of_kernel(cls, kernel: S.AttrStmt) -> BlockThreads:
        """The block of a kernel whose launches stand together; needs constant extents."""
        found: dict[str, ThreadAxis] = {}
        s: Any = kernel
        while type(s) is S.AttrStmt and s.attr_key == "thread_extent":
            tag = s.node.thread_tag
            if tag in _ORDER:
                extent = const_int(s.value)
                if extent is None:
                    raise CompileError(
                        f"{tag} has {s.value} threads, which is not a constant; threads of a "
                        "block exchange values only where their number is known: split the "
                        "axis by a constant factor"
                    )
                found[tag] = ThreadAxis(s.node.var, tag, extent)
            s = s.body
        return cls([found[tag] for tag in _ORDER if tag in found])

    @property
    def count(self) -> int:
        return extent_of(self.axes)

    def index(self) -> Any:
        """The number of a thread in its block."""
        return index_of(self.axes)


def extent_of(axes: Iterable[ThreadAxis]) -> int:
    """How many threads the axes have together."""
    total = 1
    for a in axes:
        total *= a.extent
    return total


def index_of(axes: Iterable[ThreadAxis]) -> Any:
    """The number of a thread among those of some axes, the first of which runs fastest."""
    index: Any = None
    stride = 1
    for a in axes:
        step = a.var if stride == 1 else a.var * stride
        index = step if index is None else step + index
        stride *= a.extent
    return const(0) if index is None else index


def lane_mask(group: Any, extent: int, warp_size: int, groups: int) -> Any:
    """Which lanes of a warp belong to group number `group` of `extent` threads, one bit each.

    A whole warp (or `warp_size` threads of it) for more than that. `groups`: how many there are.
    """
    if extent >= warp_size:
        return const((1 << warp_size) - 1, mask_type(warp_size))
    dtype = mask_type(warp_size)
    ones = const((1 << extent) - 1, dtype)
    if groups == 1:
        return ones
    return shift_left(ones, cast(dtype, first_lane(group, extent, warp_size, groups)))


def first_lane(group: Any, extent: int, warp_size: int, groups: int) -> Any:
    """The lane at which group number `group` of `extent` threads starts in its warp."""
    if groups == 1 or extent >= warp_size:
        return const(0)
    per_warp = warp_size // extent
    place = group if groups <= per_warp else group % per_warp
    return place * extent


def mask_type(warp_size: int) -> str:
    """The type that has a bit for each lane of a warp."""
    return "uint32" if warp_size <= 32 else "uint64"


def warp_size_of(target: Target) -> int:
    """How many threads of a target exchange values without memory; 1 where none do."""
    size = int(target.thread_warp_size)
    if target.kind.name == "cuda":
        return size
    return size if getattr(target, "has_subgroups", False) else 1
