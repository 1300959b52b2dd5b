"""Questions about tensor programs as graphs, under the names of te.schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..loopir.expr import IntImm
from ..loopir.iter import IterVar, ProducerLoad
from ..loopir.visit import post_order_visit
from .op import ComputeOp, Operation, ScanOp, post_order
from .tensor import Tensor


def create_read_graph(roots: Iterable[Any]) -> dict[Operation, tuple[Tensor, ...]]:
    """Every operation that `roots` need, with the tensors it reads."""
    return {op: op.input_tensors for op in post_order(roots)}


def post_dfs_order(
    roots: Iterable[Any], graph: Mapping[Operation, Any] | None = None
) -> list[Operation]:
    """The operations that `roots` need, producers first; only those in `graph`, if given."""
    return [op for op in post_order(roots) if graph is None or op in graph]


def scan_body(op: ScanOp) -> set[Operation]:
    """The operations that depend on the state of a scan; its state placeholders among them."""
    inside: set[Operation] = {s.op for s in op.state_placeholder}
    for step in post_order(op.update):
        if any(t.op in inside for t in step.input_tensors):
            inside.add(step)
    return inside | {u.op for u in op.update}


def scan_get_body(op: ScanOp) -> list[Operation]:
    """The operations computed in each step of a scan, in order, without the state placeholders."""
    states = {s.op for s in op.state_placeholder}
    inside = scan_body(op) - states
    return [step for step in post_order(op.update) if step in inside]


def scan_fix_points(op: ScanOp) -> dict[IterVar, IntImm]:
    """For each spatial axis of a scan: 1 if a step reads the state at that same place only, else 0.

    Such axes can stand outside the loop over time. Axes are followed from the states' dimensions
    through the step: an axis is given up where a dimension that it reached is indexed by anything
    but an axis of what reads it, or where a dimension is reached by two axes, which gives up both.
    """
    axes = iter(op.spatial_axis_)
    of_dim = {
        (n, k): next(axes) for n, u in enumerate(op.update) for k in range(1, u.ndim)
    }  # fmt: skip
    reached = {(op.state_placeholder[n], k): axis for (n, k), axis in of_dim.items()}
    failed: set[IterVar] = set()

    def merge(into: tuple[Tensor, int], source: tuple[Tensor, int]) -> None:
        axis = reached.get(source)
        if axis is not None and reached.setdefault(into, axis) is not axis:
            failed.update((axis, reached[into]))

    for step in scan_get_body(op):
        if isinstance(step, ScanOp):
            for n, update in enumerate(step.update):
                for k in range(1, update.ndim):
                    merge((step.output(n), k), (step.init[n], k))
                    merge((step.output(n), k), (update, k))
        elif isinstance(step, ComputeOp):
            for load in _loads(step):
                for k, index in enumerate(load.indices):
                    place = (load.producer, k)
                    dims = [d for d, axis in enumerate(step.axis) if axis.var is index]
                    for out in step.outputs if dims else ():
                        merge((out, dims[0]), place)
                    if not dims and place in reached:
                        failed.add(reached[place])
    return {
        axis: IntImm("int32", int(axis not in failed and reached.get((op.update[n], k)) is axis))
        for (n, k), axis in of_dim.items()
    }


def _loads(op: ComputeOp) -> list[ProducerLoad]:
    found: list[ProducerLoad] = []
    for e in op.body:
        post_order_visit(e, lambda x: found.append(x) if type(x) is ProducerLoad else None)
    return found
