"""An operand of products of warp groups: its tensor map, its stages in shared memory, what brings a
step to them, and the matrix descriptors by which products read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...loopir import hopper_calls as H
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.construct import cast
from ...loopir.expr import Call, FloorDiv, FloorMod, Var, const
from ...loopir.stmt import Evaluate, Stmt
from .warp_group_tile import SPAN, WarpGroupTile, common_side

ATOM = 8 * SPAN  # after which the swizzle begins anew
_UNIT = 16  # bytes that addresses of a descriptor count
_UNUSED = 16  # a descriptor's leading byte offset where the layout has none


class Operand:
    """One side: its tensor map, its stages in shared memory, its descriptors."""

    def __init__(
        self, tile: WarpGroupTile, array: Buffer, side: int, rank: Var, steps: Sequence[Var] = ()
    ) -> None:
        """`steps`: strides of images, innermost first, but for that of channels, which is 1."""
        self.tile, self.along, self.rank = tile, tile.along[side], rank
        # lines that are copied by each block of a cluster, to all
        self.copiers = max(tile.cluster) if side == common_side(tile.cluster) else 1
        self.lines = (tile.rows, tile.wide)[side]
        outer, inner = tile.extents[side], tile.extents[2]
        *far, row, _ = array.strides
        offset: Any = array.elem_offset
        matrices: list[int] = []
        self.matrix: list[Any] = []
        for step in far:
            matrices = [(tile.batch or (1, 1))[side]]
            self.matrix, offset = [FloorDiv(offset, step)], FloorMod(offset, step)
        places: tuple[Any, Any] = (FloorDiv(offset, row), FloorMod(offset, row))
        self.start, self.begin = places if self.along else reversed(places)
        if side and tile.joined > 1:
            self.start = self.start - rank * tile.columns
        self.windows = None if side else tile.windows
        self.box = (tile.step, self.lines // self.copiers if self.along else tile.step)
        whole = (const(0, tile.dtype), array.data, 0, 1, 1)
        pointer = Call("handle", "tir.tvm_access_ptr", whole)
        if self.windows is not None:
            made = self.windows.map_of(tile.dtype, self.box[1])
            far = [x * tile.nbytes for x in steps]
            self.map = H.tensor_map(pointer, made.dims, far, made.box, SPAN, pixels=made.pixels)
        else:
            dims = (inner, outer) if self.along else (outer, inner)
            strides = [x * tile.nbytes for x in (row, *far)]
            box = (*self.box, *(1 for _ in far))
            self.map = H.tensor_map(pointer, (*dims, *matrices), strides, box, SPAN)
        self.size = self.lines * tile.step  # elements of a stage
        self.stages = decl_buffer(
            (tile.stages * self.size,), tile.dtype, f"{'AB'[side]}_stages", None, None, None,
            "shared", ATOM,
        )  # fmt: skip

    def pointer(self, at: Any, count: int, access: int) -> Call:
        """Elements of the stages."""
        args = (const(0, self.tile.dtype), self.stages.data, at, count, access)
        return Call("handle", "tir.tvm_access_ptr", args)

    def copies(self, step: Any, stage: Any) -> list[Stmt]:
        """What brings a step of the reduction to a stage."""
        step_k = step * self.tile.step
        if self.tile.parts > 1:
            step_k = self.begin + step_k
        made: list[Stmt] = []
        each = self.box[0] * self.box[1]
        count = self.size // each // self.copiers
        mask = None if self.copiers == 1 else (1 << self.copiers) - 1
        for n in range(count):
            part: Any = n if mask is None else self.rank * count + n
            to = self.pointer(stage * self.size + part * each, each, 2)
            line = self.start + part * self.box[self.along]
            place, offsets = self.place(step_k, line)
            copy = H.ptx_cp_async_bulk_tensor(
                self.tile.dtype, to, self.map, place, stage, mask, offsets
            )
            made.append(Evaluate(copy))
        return made

    def place(self, step: Any, line: Any) -> tuple[list[Any], list[Any] | None]:
        """The coordinates of what is copied, from a step of the reduction and a line on, innermost
        first; of windows, those of the first one's first tap, and how far the tap is from that."""
        if self.windows is None:
            return [*((step, line) if self.along else (line, step)), *self.matrix], None
        w = self.windows
        tap, channel = FloorDiv(step, const(w.deep)), FloorMod(step, const(w.deep))
        place: list[Any] = [channel]
        offsets: list[Any] = []
        for n, stride, low in zip(w.results, w.strides, w.before):
            place.append(FloorMod(line, const(n)) * stride - low)
            line = FloorDiv(line, const(n))
        for n, far in zip(w.taps, w.dilation):
            offsets.append(FloorMod(tap, const(n)) * far)
            tap = FloorDiv(tap, const(n))
        return [*place, line], offsets

    def descriptor(self, first: Any) -> Call:
        """Of lines from `first` on, in the first stage."""
        row = self.tile.step  # elements of a row in shared memory
        # a box is 64 lines wide where its rows are steps of the reduction
        leading = _UNUSED if self.along else row * SPAN
        return H.ptx_wgmma_descriptor(self.pointer(first * row, 1, 1), leading, ATOM, SPAN)

    def moved(self, descriptor: Any, stage: Any, depth: int) -> Any:
        """The descriptor of the part for one instruction, `depth` instructions into the step of a
        stage: its address counts 16 bytes."""
        rows = 1 if self.along else self.tile.step  # a row has part of a line, or steps are rows
        at = self.tile.depth * depth * rows * self.tile.nbytes // _UNIT
        more = stage * (self.size * self.tile.nbytes // _UNIT) + at
        return descriptor + cast("uint64", more)
