"""Questions about tensor programs as graphs, under the names of te.schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..loopir.expr import IntImm, Var
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

    Such axes can stand outside the loop over time.
    """
    result: dict[IterVar, IntImm] = {}
    axes = iter(op.spatial_axis_)
    for update in op.update:
        for k in range(1, update.ndim):
            result[next(axes)] = IntImm("int32", int(_stays(op, update, k)))
    return result


def _stays(op: ScanOp, update: Tensor, dim: int) -> bool:
    """Whether dimension `dim` of `update` reaches the states only as their dimension `dim`."""
    states, inside = set(op.state_placeholder), scan_body(op)
    seen: set[tuple[Operation, int]] = set()
    stack = [(update.op, dim)]
    while stack:
        step, d = stack.pop()
        if (step, d) in seen:
            continue
        seen.add((step, d))
        if not isinstance(step, ComputeOp) or d >= len(step.axis):
            return False
        for load in _loads(step):
            if load.producer in states:
                if not (dim < len(load.indices) and load.indices[dim] is step.axis[d].var):
                    return False
            elif load.producer.op in inside:
                places = _dims_of(load, step.axis[d].var)
                if not places:
                    return False
                stack.append((load.producer.op, places[0]))
    return True


def _loads(op: ComputeOp) -> list[ProducerLoad]:
    found: list[ProducerLoad] = []
    for e in op.body:
        post_order_visit(e, lambda x: found.append(x) if type(x) is ProducerLoad else None)
    return found


def _dims_of(load: ProducerLoad, var: Var) -> list[int]:
    return [k for k, index in enumerate(load.indices) if index is var]
