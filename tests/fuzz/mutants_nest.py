"""Mistakes in bounds, relations of axes, loop nests, layouts and factored reductions."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from tilewright.loopir import expr as E
from tilewright.loopir import op as ops
from tilewright.loopir import stmt as S
from tilewright.loopir.subst import substitute
from tilewright.lowering import loop_nest, stage_body, stage_memory, stage_overrun
from tilewright.schedule import bounds, relations
from tilewright.schedule.placement import is_tile
from tilewright.schedule.primitives import rfactor

from .mutant_kit import catalogue, replaced


def dropped_predicate() -> Any:
    """The last guard of a stage's region is forgotten."""
    return replaced(loop_nest, "region_guards", lambda old: lambda *a: old(*a)[:-1])


def forgotten_edge() -> Any:
    """The last guard at the edge of a stage's tensor is forgotten."""
    return replaced(stage_overrun.Overrun, "edges", lambda old: lambda *a: old(*a)[:-1])


def region_too_small() -> Any:
    """A region that starts behind its first element loses its last one."""

    def make(old: Any) -> Any:
        def smaller(b: Any, stage: Any, readers: Any) -> Any:
            found = old(b, stage, readers)
            return {
                a: (
                    low,
                    extent - 1
                    if E.const_int(extent) not in (None, 0, 1) and not E.is_const(low, 0)
                    else extent,
                )
                for a, (low, extent) in found.items()
            }

        return smaller

    return replaced(bounds, "_root_domains", make)


def region_shifted() -> Any:
    """Regions that depend on a loop start one element late."""

    def make(old: Any) -> Any:
        def shifted(b: Any, stage: Any, readers: Any) -> Any:
            found = old(b, stage, readers)
            return {
                a: (low if isinstance(low, E.IntImm) else low + 1, extent)
                for a, (low, extent) in found.items()
            }

        return shifted

    return replaced(bounds, "_root_domains", make)


def split_by_outer_extent() -> Any:
    """A split axis is put together with the extent of the wrong part."""

    def make(old: Any) -> Any:
        def up(self: Any, offset: Any, extent: Any) -> None:
            offset[self.parent] = offset[self.outer] * extent[self.outer] + offset[self.inner]

        return up

    return replaced(relations.Split, "up", make)


def fuse_by_outer() -> Any:
    """A fused axis is taken apart by the extent of the wrong part."""

    def make(old: Any) -> Any:
        def up(self: Any, offset: Any, extent: Any) -> None:
            n = extent[self.outer]
            if isinstance(n, E.IntImm) and n.value <= 0:
                n = E.const(1, n.dtype)
            offset[self.outer] = offset[self.fused] // n
            offset[self.inner] = offset[self.fused] % n

        return up

    return replaced(relations.Fuse, "up", make)


def swapped_strides() -> Any:
    """Aligned buffers have the strides of their first two dimensions exchanged."""

    def make(old: Any) -> Any:
        def swapped(stage: Any, axes: Any, extents: Any) -> Any:
            strides = old(stage, axes, extents)
            if strides is None or len(strides) < 2:
                return strides
            return [strides[1], strides[0], *strides[2:]]

        return swapped

    return replaced(stage_memory, "_aligned_strides", make)


def missing_initialisation() -> Any:
    """Reductions with their first loop at the outside are not initialised."""

    def make(old: Any) -> Any:
        def nothing(self: Any, stage: Any, rest: Any) -> S.Stmt:
            return S.no_op() if len(stage.op.reduce_axis) > 1 else old(self, stage, rest)

        return nothing

    return replaced(loop_nest.NestBuilder, "init_nest", make)


def minima_ignored() -> Any:
    """Buffers of regions are indexed as if they began at the tensor's start."""

    def make(old: Any) -> Any:
        def locate(self: Any, t: Any, indices: Any) -> Any:
            place = self.place(t)
            if place.layout is None and place.minima is not None:
                return place.buffer, list(indices)
            return old(self, t, indices)

        return locate

    return replaced(stage_memory.Memory, "locate", make)


def tiles_taken_for_endless() -> Any:
    """Tiles run over the edge of their tensor whether or not what they read reaches as far."""
    return replaced(
        stage_overrun.Overrun, "_harmless", lambda old: lambda self, stage, *a: is_tile(stage)
    )


def combined_in_place() -> Any:
    """A reduction to several values stores the first before it computes the second."""

    def make(old: Any) -> Any:
        def update(first: Any, targets: Any, read: Any) -> S.Stmt:
            body = old(first, targets, read)
            lets = []
            inner = body
            while isinstance(inner, S.LetStmt):
                lets.append(inner)
                inner = inner.body
            if not lets:
                return body
            table = {x.var: x.value for x in lets}

            return substitute(inner, table)

        return update

    return replaced(stage_body, "update_body", make)


def factored_without_guard() -> Any:
    """rfactor forgets the condition of a tile that does not divide."""

    def make(old: Any) -> Any:
        def partial(stage: Any, op: Any, axis: Any, place: int) -> Any:
            with patch.object(ops, "likely", lambda c: E.const(True)):
                return old(stage, op, axis, place)

        return partial

    return replaced(rfactor, "_partial", make)


def layout_not_applied() -> Any:
    """A tensor in another layout is accessed at the indices that it had before."""

    def make(old: Any) -> Any:
        def locate(self: Any, t: Any, indices: Any) -> Any:
            buffer, found = old(self, t, indices)
            layout = self.place(t).layout
            return buffer, list(indices) if layout and len(found) == len(indices) else found

        return locate

    return replaced(stage_memory.Memory, "locate", make)


def start_value_forgotten() -> Any:
    """A reduction with init= begins at the identity."""

    def make(old: Any) -> Any:
        def body(stage: Any, *rest: Any, **named: Any) -> S.Stmt:
            first = stage.op.body[0]
            kept = getattr(first, "init", ())
            if kept and named.get("init"):
                first.init = ()
            try:
                result: S.Stmt = old(stage, *rest, **named)
                return result
            finally:
                if kept:
                    first.init = kept

        return body

    return replaced(loop_nest, "compute_body", make)


NEST = catalogue(
    dropped_predicate, forgotten_edge, region_too_small, region_shifted, split_by_outer_extent,
    fuse_by_outer,
    swapped_strides, missing_initialisation, minima_ignored, tiles_taken_for_endless,
    combined_in_place,
    factored_without_guard, layout_not_applied, start_value_forgotten,
)  # fmt: skip
