"""What a sum of products of two tensors is: a matrix product, a convolution of any rank, a dilated,
grouped, transposed or depthwise one, or what users write themselves.

Vectors run along the last axis of the output, which one of the tensors, the *vector side*, is read
along. Axes that only the other one, the *row side*, has are rows: each vector of the one serves all
of them, each element of the other all vectors of a row. In a depthwise convolution both sides are
read in vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...arith import detect_linear_equation
from ...loopir.expr import Add, Call, Cast, FloorDiv, FloorMod, Mul, const_int, is_const
from ...loopir.iter import ProducerLoad, Reduce
from ...loopir.visit import free_vars, walk
from ...schedule.api import Schedule, Stage
from ...schedule.auto_inline import is_injective
from ...tensor.op import ComputeOp
from ...tensor.reduce import builtin_kind

NARROW = 4  # lanes of the shortest vectors
LEAST_GROUP = 2  # columns that share what they read of the row side
WRITTEN_OUT = 16  # steps of a reduction that are, where both sides are read in vectors
OWN_RULES = ("winograd_", "attention_")  # tags of stages that are placed by rules of their own


@dataclass(frozen=True)
class Contraction:
    """The sides of a sum of products, and the positions of the output's axes, the last aside:
    `rows` are those of the row side alone, `columns` those of the vector side alone, `batch` the
    others. `group`: so many neighbours on the last axis read the same elements of the row side
    (0: all do). `column`: the dimension of the vector side of which the last axis is the index, or
    the index behind what does not depend on it; -1 where it is neither. `both`: both sides are read
    along the last axis. `panel`: the vector side lies in panels of so many columns, one dimension
    counts them and the last one is the place within (0: it does not); behind that, there may be
    `terms` neighbouring steps of the reduction. A side that is no read but computed from some is
    None."""

    row_side: ProducerLoad | None
    vector_side: ProducerLoad | None
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    column: int
    group: int = 0
    both: bool = False
    panel: int = 0
    terms: int = 1

    @property
    def in_order(self) -> bool:
        """Whether neighbours on the last axis are neighbours in the memory of the vector side."""
        side = self.vector_side
        return side is not None and self.column == len(side.indices) - 1


def contraction_of(op: Any, plain: bool = True) -> Contraction | None:
    """The form of a sum of a[..] * b[..] (casts aside) over one axis or more; unless `plain`, the
    factors may be computed from what is read."""
    factors = factors_of(op, plain)
    if factors is None:
        return None
    *others, j = (a.var for a in op.axis)
    used = [_variables(e) for e in factors]
    loads = [e if type(e) is ProducerLoad else None for e in factors]
    group, both = 0, False
    if all(j in u for u in used):
        if loads[0] is None or loads[1] is None:
            return None
        groups = [_group_size(e, j) for e in (loads[0], loads[1])]
        if groups.count(0) == 1 and max(groups) >= LEAST_GROUP:
            at, group = groups.index(0), max(groups)
        elif all(_runs_along(e, j) for e in (loads[0], loads[1])):
            at, both = (0 if len(used[0]) < len(used[1]) else 1), True
        else:
            return None
    elif j in used[0] or j in used[1]:
        at = 0 if j in used[0] else 1
        if _slides(op, loads[at], used[1 - at], j):
            at, both = 1 - at, True
    else:
        return None
    vector, row = loads[at], loads[1 - at]
    mine, theirs = used[at], used[1 - at]
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, v in enumerate(others):
        kinds.setdefault((v in mine, v in theirs), []).append(place)
    return Contraction(
        row,
        vector,
        (*kinds.get((True, True), ()), *kinds.get((False, False), ())),
        tuple(kinds.get((False, True), ())),
        tuple(kinds.get((True, False), ())),
        -1 if vector is None else _own_dimension(vector, j),
        group,
        both,
        *((0, 1) if vector is None else _panel_of(vector, j)),
    )


def factors_of(op: Any, plain: bool) -> list[Any] | None:
    """What a sum of products multiplies, casts aside; None of other operations. `plain`: of what is
    read only."""
    if not isinstance(op, ComputeOp) or op.num_outputs != 1 or not op.axis or not op.reduce_axis:
        return None
    body = op.body[0]
    if type(body) is not Reduce or (plain and body.init):
        return None
    if builtin_kind(body.combiner) is not Add or not _always(op, body.condition):
        return None
    product = _uncast(body.source[0])
    if type(product) is not Mul:
        return None
    factors = [_uncast(e) for e in (product.a, product.b)]
    return None if plain and any(type(e) is not ProducerLoad for e in factors) else factors


def _always(op: Any, condition: Any) -> bool:
    """Whether a sum has all terms, but for those beyond the end in the last one of its parts: what
    `rfactor` leaves of a length that parts do not divide."""
    if is_const(condition, 1):
        return True
    if type(condition) is not Call or condition.op.name != "tir.likely":
        return False
    return set(free_vars(condition)) <= {op.axis[0].var, *(k.var for k in op.reduce_axis)}


def _uncast(e: Any) -> Any:
    while type(e) is Cast:
        e = e.value
    return e


def _variables(e: Any) -> set[Any]:
    return {v for x in walk(e) if type(x) is ProducerLoad for i in x.indices for v in free_vars(i)}


def _slides(op: Any, load: ProducerLoad | None, theirs: set[Any], j: Any) -> bool:
    """Whether windows slide along the last axis and another one over a side, and the other side
    (of variables `theirs`) has an element for each of their steps: all that it serves are rows of
    vectors, as in a depthwise convolution whose last axes are those of the image. Of 25
    steps, which are not written out, nothing was gained with AVX-512."""
    extents = [const_int(k.dom.extent) or 0 for k in op.reduce_axis]
    if load is None or not 0 < prod(extents) <= WRITTEN_OUT:
        return False
    own = {a.var for a in op.axis} - theirs
    slid = [set(free_vars(x)) for x in load.indices]
    steps = {k.var for k in op.reduce_axis}
    moved = [v for v in own if any(v in x and x & steps for x in slid)]
    alone = all(any(k in x and x & own for x in slid) for k in steps)
    shared = all(a.var not in theirs or any(a.var in x for x in slid) for a in op.axis)
    return j in moved and len(moved) > 1 and alone and shared


def _runs_along(load: ProducerLoad, j: Any) -> bool:
    """Whether j is the index of the last dimension, those of one element aside."""
    sizes = list(map(const_int, load.producer.shape))
    last = next((d for d in reversed(range(len(sizes))) if sizes[d] != 1), -1)
    return load.indices[last] is j


def _group_size(load: ProducerLoad, j: Any) -> int:
    """c where the last axis is in the indices as j // c only; 0 where it is there by itself."""
    sizes = set()
    for index in load.indices:
        divided = [e for e in walk(index) if type(e) is FloorDiv and e.a is j]
        if sum(e is j for e in walk(index)) != len(divided):
            return 0
        sizes |= {const_int(e.b) or 0 for e in divided}
    return sizes.pop() if len(sizes) == 1 else 0


def _own_dimension(load: ProducerLoad, j: Any) -> int:
    """The one dimension whose index is j, or j behind what does not depend on it."""
    places = [d for d, x in enumerate(load.indices) if j in free_vars(x)]
    if len(places) != 1:
        return -1
    factors = detect_linear_equation(load.indices[places[0]], [j])
    return places[0] if factors and const_int(factors[0]) == 1 else -1


def _panel_of(load: ProducerLoad, j: Any) -> tuple[int, int]:
    """(w, t) where the last axis is in the indices as one j // w, and as j % w in the last (t = 1)
    or in the one before it, the last being k % t; (0, 1) where it is elsewhere."""
    *before, last = load.indices
    terms = 1
    if before and type(last) is FloorMod and j not in free_vars(last):
        terms = const_int(last.b) or 1
        *before, last = before
    if type(last) is not FloorMod or last.a is not j:
        return 0, 1
    width = const_int(last.b) or 0
    outer = [x for x in before if j in free_vars(x)]
    if len(outer) != 1 or type(outer[0]) is not FloorDiv or outer[0].a is not j:
        return 0, 1
    return (width, terms) if const_int(outer[0].b) == width else (0, 1)


def step_of(load: ProducerLoad, v: Any) -> int:
    """Elements between what neighbours along an axis read; 0 where that is not known."""
    step, below = 0, 1
    for index, size in zip(reversed(load.indices), reversed(load.producer.shape)):
        factors = detect_linear_equation(index, [v]) if v is not None else []
        step += below * (const_int(factors[0]) or 0 if factors else 0)
        below *= const_int(size) or 0
    return step


def is_product(op: Any) -> bool:
    """Whether an operation is a sum over k of a[.., i, .., k, ..] * b[.., j, .., k, ..] (casts
    aside), i and j its last two axes: each in one factor alone, k in both."""
    form = contraction_of(op)
    if form is None or form.both or form.group or len(op.reduce_axis) != 1:
        return False
    (k,) = (a.var for a in op.reduce_axis)
    sides = (form.row_side, form.vector_side)
    along = all(e is not None and k in _variables(e) for e in sides)
    return along and len(op.axis) - 2 in form.rows


def along_last(side: ProducerLoad | None, j: Any) -> bool:
    """Whether the last axis is in a side's last index only."""
    return side is not None and all(
        (j in free_vars(x)) == (d == len(side.indices) - 1) for d, x in enumerate(side.indices)
    )


def kept_inputs(s: Schedule, op: Any) -> list[Stage]:
    """The inputs of a sum of products that are worth a memory of their own: those computed from
    others, not just moved, and by no rule of their own."""
    form = contraction_of(op)
    found = []
    for side in (form.row_side, form.vector_side) if form else ():
        if side is not None and is_injective(s[side.producer].op):
            stage = s[side.producer]
            moved = type(_uncast(stage.op.body[0])) is ProducerLoad
            if not moved and not stage.is_output and not stage.op.tag.startswith(OWN_RULES):
                found.append(stage)
    return found
