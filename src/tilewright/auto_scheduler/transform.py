"""From a closed state to a schedule and its arguments, with inputs of free layout laid out anew.

Inputs that an operation names in `layout_free_placeholders` (weights, as a rule) may come in any
order. Three ways (TVM's `LayoutRewriteOption`): leave them; copy them into the order of the tiles
inside the kernel; or take them in that order, so that the caller transforms them once, ahead of
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..base.mapped import compact
from ..loopir.expr import const, const_int
from ..loopir.iter import ProducerLoad
from ..loopir.rewrite import Rewriter, handles
from ..schedule.api import Schedule
from ..tensor.graph import replace_inputs, rewrite_body
from ..tensor.op import ComputeOp, Operation, PlaceholderOp
from ..tensor.relayout import LAYOUT_FREE_ATTR
from ..tensor.serial import program_key
from ..tensor.tensor import Tensor
from . import rows as R
from .ahead import RewrittenDag, computed_ahead, evaluated
from .layout import PackOrder, free_layouts, free_orders
from .rows import Row, apply_row
from .state import State

COPY_THREADS = 64


class LayoutRewriteOption(IntEnum):
    """What is done with inputs whose layout is free."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> LayoutRewriteOption:
        """On CPUs and Mali: a transforming stage, or in networks weights transformed ahead."""
        kind = target.kind.name
        if kind != "llvm" and "mali" not in str(target):
            return LayoutRewriteOption.NO_REWRITE
        if in_relay_integration:
            return LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


class Rearranged:
    """What an argument is made into ahead of a call: `apply` to an array of the original shape.

    `computed`: the argument, and the tensor of it that takes its place. Its elements, or those of
    the argument itself, are laid out anew by `dims`.
    """

    __slots__ = ("computed", "dims", "index", "shape")

    def __init__(
        self,
        index: int,
        shape: tuple[int, ...],
        order: PackOrder | None,
        computed: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.index, self.shape, self.computed = index, shape, computed
        self.dims = [(n, size) for n, size in enumerate(shape)]
        if order is not None:
            self.dims = [(d.dim, const_int(d.extent) or 1) for d in order.kept()]
            signs = order.signs
            if any(s < 0 for s, _ in signs):
                self.dims = [(d if signs[d][0] > 0 else ~d, n) for d, n in self.dims]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for what makes the same of an array."""
        how = None if self.computed is None else program_key(self.computed)
        return (tuple(self.dims), how)

    def apply(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The array as the function takes it (a copy). Raises TilewrightError where array has
        another shape than the tensor had, where an array has another shape than its placeholder."""
        if self.computed is not None:
            array = evaluated(array, *self.computed)
        if array.shape != self.shape:
            raise TilewrightError(f"expected an array of shape {self.shape}, got {array.shape}")
        flipped = {~d for d, _ in self.dims if d < 0}
        array = np.flip(array, tuple(flipped)) if flipped else array
        parts: list[list[tuple[int, int]]] = [[] for _ in self.shape]
        for place, (dim, extent) in enumerate(self.dims):
            parts[dim if dim >= 0 else ~dim].append((place, extent))
        sizes = [prod(n for _, n in dim) for dim in parts]
        if sizes != list(self.shape):  # tiles that do not divide a dimension: the last is filled up
            array = np.pad(array, [(0, n - old) for n, old in zip(sizes, self.shape)])
        split = [n for dim in parts for _, n in dim]
        places = [p for dim in parts for p, _ in dim]
        return compact(array.reshape(split).transpose(np.argsort(places)))


def apply_state(state: State, option: int) -> tuple[Schedule, list[Tensor], list[Rearranged]]:
    """Schedule, arguments, and which arguments have to be rearranged before a call. Raises
    TilewrightError where the state is a sketch, some lengths of which are open."""
    if state.open:
        raise TilewrightError("the state is a sketch: some lengths of its splits are still open")
    if option == LayoutRewriteOption.NO_REWRITE or not state.dag.layout_free:
        return state.schedule, list(state.dag.tensors), []
    if option == LayoutRewriteOption.INSERT_TRANSFORM_STAGE:
        return _with_copies(state), list(state.dag.tensors), []
    return _pre_transformed(state)


def _with_copies(state: State) -> Schedule:
    new = state.copy()
    for source, reader in free_layouts(new):
        place = new.order.index(source.id)
        apply_row(new, ("PK", place, new.order.index(reader.id)))
        for row in copy_rows(new, place + 1):
            apply_row(new, row)
    return new.schedule


def copy_rows(state: State, place: int) -> list[Row]:
    """A copy at the root: its outer loops in parallel, the innermost vectorised; where the others
    run on threads, so does the copy."""
    stage = state.stage_at(place)
    shape = [const_int(e) or 1 for e in stage.layout.extents] if stage.layout else []
    count = len(stage.leaf_iter_vars)
    rows: list[Row] = []
    if any(s.attr(a).bind_thread is not None for s in state.live_stages for a in s.leaf_iter_vars):
        if count > 1:
            rows.append(("FU", place, tuple(range(count))))
        rows.append(("SP", place, 0, None, (COPY_THREADS,), 1))
        return [*rows, ("AN", place, 0, R.BLOCK_X), ("AN", place, 1, R.THREAD_X)]
    if shape and 1 < shape[-1] <= 64 and count > 1:
        rows.append(("AN", place, count - 1, R.VECTORIZE))
    outer = max(1, count - 2)
    if count > 1:
        if outer > 1:
            rows.append(("FU", place, tuple(range(outer))))
        rows.append(("AN", place, 0, R.PARALLEL))
    return rows


def _pre_transformed(state: State) -> tuple[Schedule, list[Tensor], list[Rearranged]]:
    known, made = computed_ahead(state)
    orders = free_orders(known)
    moved = _laid_out(known, orders)
    rearranged: list[Rearranged] = []
    for n, (given, t) in enumerate(zip(state.dag.tensors, known.dag.tensors)):
        if t in orders or t in made:
            shape = tuple(const_int(e) or 0 for e in t.shape)
            source = (given, made[t]) if t in made else None
            rearranged.append(Rearranged(n, shape, orders.get(t), source))
    return moved.schedule, list(moved.dag.tensors), rearranged


def as_laid_out(state: State) -> State:
    """The same steps on the computation that is left where all is computed and laid out ahead of
    time that can be."""
    known, _ = computed_ahead(state)
    return _laid_out(known, free_orders(known))


def _laid_out(state: State, orders: Mapping[Tensor, PackOrder]) -> State:
    """The same steps on a computation whose inputs lie in these orders."""
    if not orders:
        return state
    fresh, table = _rewritten(state.dag.ops, orders)
    tensors = [table.get(t, t) for t in state.dag.tensors]
    outputs = [table[o.output(0)].op for o in state.dag.outputs]
    return State.from_rows(RewrittenDag(fresh, tensors, outputs), state.steps)


def _rewritten(
    ops: Sequence[Operation], orders: Mapping[Tensor, PackOrder]
) -> tuple[list[Operation], dict[Tensor, Tensor]]:
    """The operations with other inputs, and the new tensor of each old one."""
    table: dict[Tensor, Tensor] = {}
    packed: dict[Tensor, tuple[Tensor, Any]] = {}
    fresh: list[Operation] = []
    for op in ops:
        new = op
        if isinstance(op, PlaceholderOp):
            order = orders.get(op.output(0))
            if order is not None:
                shape = [const(const_int(d.extent) or 1) for d in order.kept()]
                new = PlaceholderOp(op.name, shape, op.dtype)
                packed[op.output(0)] = (new.output(0), order.mapping())
        else:
            if isinstance(op, ComputeOp) and any(t in packed for t in op.input_tensors):
                new = _reading_packed(op, packed)
            new = replace_inputs(new, table)
        fresh.append(new)
        for i in range(op.num_outputs):
            table[op.output(i)] = new.output(i)
    return fresh, table


class _ReadPacked(Rewriter):
    """Reads of inputs that lie in memory another way."""

    def __init__(self, packed: Mapping[Tensor, tuple[Tensor, Any]]) -> None:
        self.packed = packed

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        indices = self.exprs(e.indices)
        found = self.packed.get(e.producer)
        if found is None:
            return e if indices is e.indices else ProducerLoad(e.producer, indices)
        tensor, mapping = found
        return ProducerLoad(tensor, mapping(*indices))


def _reading_packed(op: ComputeOp, packed: Mapping[Tensor, tuple[Tensor, Any]]) -> ComputeOp:
    body = rewrite_body(op, _ReadPacked(packed).expr)
    attrs = {k: v for k, v in op.attrs.items() if k != LAYOUT_FREE_ATTR}  # it is laid out
    return ComputeOp(op.name, op.tag, attrs, op.axis, body)
