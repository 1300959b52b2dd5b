"""How the axes of a stage come from each other, and what follows for values and extents.

A stage starts with the axes of its operation (the *root* axes); each split, fuse or layout change
adds one relation. Two questions are asked of the whole list:

- down: which extents do the new axes have, given those of the root axes (`pass_down_extents`), and
  what are their values, given root values (`pass_down_values`);
- up: what is the value of each root axis, as an expression of the leaves (`pass_up_values`).

All axes but root axes count from 0; a root axis has the value `min + offset`. "Up" works on
offsets, so relations never see a minimum. Bound inference evaluates the "up" expressions over
intervals: there is no separate rule per relation for sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer
from ..loopir.expr import IntImm, PrimExpr, const
from ..loopir.iter import IterVar
from ..loopir.subst import substitute

if TYPE_CHECKING:
    from .layout_map import Layout

Values = dict[IterVar, PrimExpr]


class Relation:
    """One step from parent axes to child axes."""

    __slots__ = ()

    @property
    def parents(self) -> tuple[IterVar, ...]:
        """The axes that they were made of."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[IterVar, ...]:
        """The axes made, the outermost first."""
        raise NotImplementedError

    def down_extents(self, extent: Values, simplify: Callable[[Any], PrimExpr]) -> None:
        """Add the children's extents to `extent`, which holds the parents'."""
        raise NotImplementedError

    def up(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        """Add the parents' offsets to `offset`, which holds the children's."""
        raise NotImplementedError

    def down(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        """Add the children's offsets to `offset`, which holds the parents'."""
        raise NotImplementedError

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        """The same relation between other axes."""
        raise NotImplementedError


class Split(Relation):
    """parent = outer * factor + inner; exactly one of factor and nparts is given."""

    __slots__ = ("parent", "outer", "inner", "factor", "nparts", "disable_predication")

    def __init__(
        self,
        parent: IterVar,
        outer: IterVar,
        inner: IterVar,
        factor: PrimExpr | None,
        nparts: PrimExpr | None,
        disable_predication: bool = False,
    ) -> None:
        self.parent, self.outer, self.inner = parent, outer, inner
        self.factor, self.nparts = factor, nparts
        self.disable_predication = disable_predication

    @property
    def parents(self) -> tuple[IterVar, ...]:
        """The axis split."""
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        """The axes made, the outer one first."""
        return (self.outer, self.inner)

    def down_extents(self, extent: Values, simplify: Callable[[Any], PrimExpr]) -> None:
        whole = extent[self.parent]
        if self.factor is not None:
            inner = _at_most(self.factor, whole)
            extent[self.inner] = inner
            extent[self.outer] = simplify((whole + (inner - 1)) // inner)
        else:
            assert self.nparts is not None
            outer = _at_most(self.nparts, whole)
            extent[self.outer] = outer
            extent[self.inner] = simplify((whole + (outer - 1)) // outer)

    def up(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        offset[self.parent] = offset[self.outer] * extent[self.inner] + offset[self.inner]

    def down(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        inner = _divisor(extent[self.inner])
        offset[self.outer] = offset[self.parent] // inner
        offset[self.inner] = offset[self.parent] % inner

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        parent, outer, inner = (axes.get(a, a) for a in (self.parent, self.outer, self.inner))
        return Split(parent, outer, inner, self.factor, self.nparts, self.disable_predication)


class Fuse(Relation):
    """fused = outer * extent(inner) + inner."""

    __slots__ = ("outer", "inner", "fused")

    def __init__(self, outer: IterVar, inner: IterVar, fused: IterVar) -> None:
        self.outer, self.inner, self.fused = outer, inner, fused

    @property
    def parents(self) -> tuple[IterVar, ...]:
        """The axes fused, the outer one first."""
        return (self.outer, self.inner)

    @property
    def children(self) -> tuple[IterVar, ...]:
        """The axis made."""
        return (self.fused,)

    def down_extents(self, extent: Values, simplify: Callable[[Any], PrimExpr]) -> None:
        extent[self.fused] = simplify(extent[self.outer] * extent[self.inner])

    def up(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        inner = _divisor(extent[self.inner])
        offset[self.outer] = offset[self.fused] // inner
        offset[self.inner] = offset[self.fused] % inner

    def down(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        offset[self.fused] = offset[self.outer] * extent[self.inner] + offset[self.inner]

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        return Fuse(*(axes.get(a, a) for a in (self.outer, self.inner, self.fused)))


class Singleton(Relation):
    """A new axis of extent 1 that comes from nothing."""

    __slots__ = ("axis",)

    def __init__(self, axis: IterVar) -> None:
        self.axis = axis

    @property
    def parents(self) -> tuple[IterVar, ...]:
        """Nothing: the axis was made of none."""
        return ()

    @property
    def children(self) -> tuple[IterVar, ...]:
        """The axis made, of extent 1."""
        return (self.axis,)

    def down_extents(self, extent: Values, simplify: Callable[[Any], PrimExpr]) -> None:
        extent[self.axis] = const(1)

    def up(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        return

    def down(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        offset[self.axis] = const(0)

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        return Singleton(axes.get(self.axis, self.axis))


class Transform(Relation):
    """New axes computed from old ones by an invertible map: that of the layout, over the part of
    the tensor that the parents' extents say."""

    __slots__ = ("old", "new", "layout")

    def __init__(self, old: Sequence[IterVar], new: Sequence[IterVar], layout: Layout) -> None:
        self.old, self.new, self.layout = tuple(old), tuple(new), layout

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return self.old

    @property
    def children(self) -> tuple[IterVar, ...]:
        return self.new

    def over(self, extent: Mapping[IterVar, PrimExpr]) -> Layout:
        """The layout of the part that is at work."""
        return self.layout.of_part([extent[axis] for axis in self.old])

    def down_extents(self, extent: Values, simplify: Callable[[Any], PrimExpr]) -> None:
        extent.update(zip(self.new, self.over(extent).extents))

    def up(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        part = self.over(extent)
        table = {v: offset[axis] for v, axis in zip(part.new_variables, self.new)}
        for axis, e in zip(self.old, part.inverse):
            offset[axis] = substitute(e, table)

    def down(self, offset: Values, extent: Mapping[IterVar, PrimExpr]) -> None:
        part = self.over(extent)
        table = {v: offset[axis] for v, axis in zip(part.variables, self.old)}
        for axis, e in zip(self.new, part.forward):
            offset[axis] = substitute(e, table)

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        old, new = ([axes.get(a, a) for a in some] for some in (self.old, self.new))
        return Transform(old, new, self.layout)

    def holes(
        self, offset: Mapping[IterVar, PrimExpr], extent: Mapping[IterVar, PrimExpr]
    ) -> list[PrimExpr]:
        """What must hold, at the children's offsets, for an element to lie there."""
        part = self.over(extent)
        table = {v: offset[axis] for v, axis in zip(part.new_variables, self.new)}
        return [substitute(e, table) for e in part.filled]


def _at_most(size: PrimExpr, whole: PrimExpr) -> PrimExpr:
    """A tile larger than the whole is cut down where both are known; at least 1."""
    if isinstance(size, IntImm) and isinstance(whole, IntImm):
        return const(max(1, min(size.value, whole.value)), whole.dtype)
    return size if size.dtype == whole.dtype else size.astype(whole.dtype)


def _divisor(extent: PrimExpr) -> PrimExpr:
    """An extent to divide by: the body of an empty loop never runs, but its indices are written."""
    if isinstance(extent, IntImm) and extent.value <= 0:
        return const(1, extent.dtype)
    return extent


def pass_down_extents(
    relations: Iterable[Relation],
    roots: Mapping[IterVar, PrimExpr],
    analyzer: Analyzer,
) -> Values:
    """Extents of all axes, given those of the root axes."""
    extent: Values = dict(roots)
    for relation in relations:
        relation.down_extents(extent, analyzer.simplify)
    return extent


def pass_up_values(
    relations: Sequence[Relation],
    leaves: Mapping[IterVar, PrimExpr],
    extent: Mapping[IterVar, PrimExpr],
) -> Values:
    """Offsets of all axes, given those of the leaf axes."""
    offset: Values = dict(leaves)
    for relation in reversed(relations):
        if all(c in offset for c in relation.children):
            relation.up(offset, extent)
    return offset


def pass_down_values(
    relations: Iterable[Relation],
    roots: Mapping[IterVar, PrimExpr],
    extent: Mapping[IterVar, PrimExpr],
) -> Values:
    """Offsets of all axes, given those of the root axes."""
    offset: Values = dict(roots)
    for relation in relations:
        if all(p in offset for p in relation.parents):
            relation.down(offset, extent)
    return offset


def overruns(
    relations: Sequence[Relation],
    offset: Mapping[IterVar, PrimExpr],
    extent: Mapping[IterVar, PrimExpr],
) -> list[tuple[PrimExpr, PrimExpr]]:
    """(offset, extent) of axes inside a tile, or of a layout, that are split again: where that
    split does not divide, its last part would run into the next tile and do its work twice."""
    tiles = [r.inner for r in relations if isinstance(r, Split)]
    tiles += [axis for r in relations if isinstance(r, Transform) for axis in r.new]
    inside = derived_from(relations, tiles)
    return [
        (offset[r.parent], extent[r.parent])
        for r in relations
        if isinstance(r, Split) and r.parent in inside and r.parent in offset
    ]


def derived_from(relations: Iterable[Relation], roots: Iterable[IterVar]) -> set[IterVar]:
    """All axes that come, wholly or in part, from the given ones (themselves included)."""
    marked = set(roots)
    for relation in relations:
        if any(p in marked for p in relation.parents):
            marked.update(relation.children)
    return marked


def derived_from_both(relations: Sequence[Relation], op: Any) -> set[IterVar]:
    """The axes that come from data axes and reduction axes of `op` alike, by way of `fuse`."""
    data, reduction = getattr(op, "axis", ()), getattr(op, "reduce_axis", ())
    return derived_from(relations, data) & derived_from(relations, reduction)


def sources_of(relations: Sequence[Relation], leaves: Iterable[IterVar]) -> set[IterVar]:
    """All axes from which the given ones come, wholly or in part (themselves included)."""
    marked = set(leaves)
    for relation in reversed(relations):
        if any(c in marked for c in relation.children):
            marked.update(relation.parents)
    return marked
