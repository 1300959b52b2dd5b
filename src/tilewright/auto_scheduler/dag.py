"""`ComputeDAG`: a computation of fixed shapes, as the search sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

from ..base.errors import ScheduleError, TilewrightError, UsageError
from ..loopir.expr import Add, Max, Min, Mul, PrimExpr, const_int
from ..loopir.iter import Reduce
from ..measure.flop import op_flop
from ..schedule.api import Schedule
from ..tensor.axes import UNNAMED
from ..tensor.op import BaseComputeOp, Operation, PlaceholderOp, ScanOp, domain, post_order
from ..tensor.relayout import LAYOUT_FREE_ATTR
from ..tensor.serial import load_json, save_json
from ..tensor.tensor import Tensor
from ..topi.algorithms import Algorithm, algorithms_of, apply_algorithm
from ..topi.schedules.machine import size_of
from .access import Access
from .state import State
from .structure import structure_hash
from .transform import LayoutRewriteOption, apply_state
from .workload import workload_key_to_tensors

_SIGNS: dict[type, str] = {Add: "+=", Mul: "*=", Max: "max=", Min: "min="}


class ComputeDAG:
    """The operations behind some results, and the arguments of the function that gives them.

    `compute`: the tensors that are the function's arguments, inputs and results, in order; or a
    workload key; or a schedule, of whose stages the computations count, copies of cache_read and
    cache_write among them. Computed tensors among the arguments are results and are kept, also
    where others read them.

    `tensors`: the arguments. `ops`: the operations behind them, producers first, inputs included,
    in the order of TVM's ComputeDAG: stage numbers of records count on it. `outputs`: those whose
    values are kept. `flop_ct`: operations on elements; what cannot be counted (extern and scan
    without the attribute "FLOP") counts nothing. `layout_free`: inputs that may be laid out as
    suits the schedule, as attribute "layout_free_placeholders" of their readers says.

    TilewrightError for shapes that are not constant or have no elements, and for inputs that are
    missing among the tensors.
    """

    def __init__(self, compute: Sequence[Tensor] | str | Schedule) -> None:
        if isinstance(compute, Schedule):
            self.ops, self.tensors = _of_schedule(compute)
        else:
            self.tensors = _tensors_of(compute)
            self.ops = _in_order(self.tensors)
        computed = (t.op for t in self.tensors if not isinstance(t.op, PlaceholderOp))
        self.outputs: list[Operation] = list(dict.fromkeys(computed))
        self._check()
        self.layout_free = _layout_free(self.ops)
        self._other: dict[Algorithm, ComputeDAG] = {}

    def _check(self) -> None:
        if not self.outputs:
            raise TilewrightError(
                "nothing is computed: ComputeDAG takes inputs and results, such as [A, B, C]"
            )
        states = {t.op for op in self.ops if isinstance(op, ScanOp) for t in op.state_placeholder}
        given = {t.op for t in self.tensors}
        for op in self.ops:
            if isinstance(op, PlaceholderOp) and op not in given and op not in states:
                raise TilewrightError(
                    f"{op.name} is read but is not among the tensors: give all inputs and results, "
                    "in the order of the function's arguments"
                )
            _check_sizes(op)
            _check_names(op)

    @cached_property
    def flop_ct(self) -> float:
        """Operations on elements."""
        return float(sum(map(_flop, self.ops)))

    @cached_property
    def access(self) -> Access:
        """The predicates of sketch rules over the operations as they were written."""
        return Access(self.ops, self.outputs)

    def hash_key(self) -> str:
        """MD5 of the structure (shapes and attributes included, names not), in hex."""
        return self._hash

    @cached_property
    def _hash(self) -> str:
        return structure_hash(self.ops, self.tensors)

    def workload_key(self) -> str:
        """JSON of the hash and the shapes of the arguments: `["0f3d...", [128, 64], ...]`."""
        shapes = [[const_int(n) for n in t.shape] for t in self.tensors]
        return json.dumps([self.hash_key(), *shapes])

    def algorithms(self, max_error: float) -> list[Algorithm]:
        """Other ways to these results, none of which adds a larger error, over the largest output
        of the operation it computes."""
        return [a for a in self._algorithms if a.error <= max_error] if max_error > 0 else []

    @cached_property
    def _algorithms(self) -> list[Algorithm]:
        return algorithms_of(self.ops, 1.0)

    def by_algorithm(self, name: str, place: int, parameter: int) -> tuple[ComputeDAG, Algorithm]:
        """The computation with operation number `place` done another way, and that way;
        ScheduleError where it cannot be."""
        known = {(a.name, a.place, a.parameter): a for a in self.algorithms(1.0)}
        found = known.get((name, place, parameter))
        if found is None:
            raise ScheduleError(f"operation {place} of {self!r} cannot be done by {name!r}")
        if found not in self._other:
            self._other[found] = ComputeDAG(apply_algorithm(self.ops, self.tensors, found))
        return self._other[found], found

    # -- states

    def get_init_state(self) -> State:
        """The state before any step."""
        return State(self)

    @property
    def init_state(self) -> State:
        """The state before any step, made anew."""
        return State(self)

    def apply_steps_from_state(
        self, state: State, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[Schedule, list[Tensor]]:
        """Schedule and arguments of a finished state, or of one that was recorded; TilewrightError
        where lengths are open.

        `layout_rewrite`: what is done with inputs of free layout; for REWRITE_FOR_PRE_TRANSFORMED
        `apply_state` also tells how such arguments have to be laid out.
        """
        option = LayoutRewriteOption(layout_rewrite)
        schedule, args, _ = apply_state(self._live(state), option)
        return schedule, args

    def infer_bound_from_state(self, state: State) -> State:
        """A copy of a state, or of one that was recorded, whose iterators have their ranges."""
        return State(state, self).infer_bounds()

    def rewrite_layout_from_state(self, state: State) -> ComputeDAG:
        """The computation that is left where inputs of free layout lie as the state's tiles want
        them."""
        option = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return ComputeDAG(apply_state(self._live(state), option)[1])

    def print_python_code_from_state(self, state: State) -> str:
        """The state as Python code: calls of schedule primitives, for variables named like the
        tensors."""
        return apply_state(self._live(state), LayoutRewriteOption.NO_REWRITE)[0].as_python()

    def _live(self, state: Any) -> State:
        """A state, or one of a record, as one of this computation."""
        return state if isinstance(state, State) else State(state, self)

    def __reduce__(self) -> tuple[Any, ...]:
        """As data: its tensors, in the form of files."""
        return _loaded, (save_json(self.tensors),)

    def __str__(self) -> str:
        return "".join(f"{_line(op)}\n" for op in self.ops)

    def __repr__(self) -> str:
        return f"ComputeDAG([{', '.join(t.name for t in self.tensors)}])"


def _loaded(text: str) -> ComputeDAG:
    return ComputeDAG(load_json(text))


def _of_schedule(sch: Schedule) -> tuple[list[Operation], list[Tensor]]:
    """The operations of a schedule's stages, in their order, and the inputs and results among
    them: copies that cache_read and cache_write made are operations like others."""
    stages = [stage for stage in sch.normalize().stages if stage.op is not None]
    ops = [stage.op for stage in stages]
    states = {t for op in ops if isinstance(op, ScanOp) for t in op.state_placeholder}
    ends = [s.op for s in stages if s.is_output or isinstance(s.op, PlaceholderOp)]
    return ops, [t for op in ends for t in op.outputs if t not in states]


def _tensors_of(compute: Any) -> list[Tensor]:
    if isinstance(compute, str):
        return workload_key_to_tensors(compute)
    tensors = list(compute) if isinstance(compute, (list, tuple)) else [compute]
    if not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise UsageError(
            "ComputeDAG takes a list of tensors (inputs and results, such as [A, B, C]), a "
            f"workload key or a schedule, got {compute!r}"
        )
    return tensors


def _in_order(tensors: Sequence[Tensor]) -> list[Operation]:
    """The operations behind results, producers first.

    Of those whose producers are all there, the one found last by a depth-first walk from the
    results, last result and last input first, comes next: as in TVM v0.18's ComputeDAG.
    """
    found: dict[Operation, int] = {}
    readers: dict[Operation, list[Operation]] = {}
    waiting: dict[Operation, int] = {}
    # arguments that nothing reads are no stages
    needed = set(post_order([t for t in tensors if not isinstance(t.op, PlaceholderOp)]))
    stack = [t.op for t in tensors if t.op in needed]
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found[op] = len(found)
        waiting[op] = len(op.input_tensors)
        for t in op.input_tensors:
            readers.setdefault(t.op, []).append(op)
            stack.append(t.op)
    ops = list(found)
    queue = sorted(-n for n, op in enumerate(ops) if waiting[op] == 0)
    order: list[Operation] = []
    while queue:
        op = ops[-heappop(queue)]
        order.append(op)
        for reader in readers.get(op, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heappush(queue, -found[reader])
    return order


def _check_names(op: Operation) -> None:
    """TilewrightError where two loops have one name: states speak of loops by their names.
    Those of axes that the user gave none are told apart by their places."""
    axes = (*op.axis, *op.reduce_axis) if isinstance(op, BaseComputeOp) else ()
    names = [a.var.name for a in axes]
    twice = sorted({n for n in names if names.count(n) > 1 and n != UNNAMED})
    if twice:
        raise TilewrightError(
            f"{op.name} has several loops that are called {', '.join(twice)}: a search tells loops "
            'apart by their names, give each its own, as in te.reduce_axis((0, n), name="k")'
        )


def _check_sizes(op: Operation) -> None:
    """TilewrightError where an extent is no constant of at least 1."""
    if isinstance(op, BaseComputeOp):
        sizes = [(f"axis {a.var.name}", domain(a).extent) for a in (*op.axis, *op.reduce_axis)]
    else:
        sizes = [(f"dimension {n}", size) for t in op.outputs for n, size in enumerate(t.shape)]
    for where, size in sizes:
        _check_size(op, where, size)


def _check_size(op: Operation, where: str, size: PrimExpr) -> None:
    value = const_int(size)
    if value is None and size_of(size):  # what a default schedule is made for
        return
    if value is None:
        raise TilewrightError(
            f"{where} of {op.name} is {size}, which is not constant: a search is for one size. "
            "Make a workload with numbers, one for each size that matters; other sizes run with a "
            "schedule made by hand"
        )
    if value < 1:
        raise TilewrightError(
            f"{where} of {op.name} has extent {value}: there is nothing to compute, so nothing to "
            "search for. te.create_schedule gives a schedule that builds"
        )


def _flop(op: Operation) -> int:
    if "FLOP" not in op.attrs and not isinstance(op, (BaseComputeOp, PlaceholderOp)):
        return 0
    return op_flop(op)


def _layout_free(ops: Sequence[Operation]) -> list[Operation]:
    """The placeholders that operations name in their attribute, in the order of `ops`."""
    inputs = [op for op in ops if isinstance(op, PlaceholderOp)]
    names = {op.name: op for op in inputs}
    found: set[Operation] = set()
    for op in ops:
        value = op.attrs.get(LAYOUT_FREE_ATTR, ())
        for item in value if isinstance(value, (list, tuple)) else [value]:
            named = names.get(item) if isinstance(item, str) else getattr(item, "op", item)
            if named not in inputs:
                raise TilewrightError(
                    f'{op.name}: the attribute "{LAYOUT_FREE_ATTR}" lists inputs of the '
                    f"computation ({', '.join(names)}), got {item!r}"
                )
            found.add(named)
    return [op for op in inputs if op in found]


def _line(op: Operation) -> str:
    if isinstance(op, BaseComputeOp):
        axes = ", ".join(a.var.name for a in op.axis)
        body = getattr(op, "body", (op.kind,))
        if isinstance(body[0], Reduce) and len(body) == 1:
            sign = _SIGNS.get(type(body[0].combiner.result[0]))
            if sign is not None:
                return f"{op.name}({axes}) {sign} {body[0].source[0]}"
        return f"{op.name}({axes}) = {', '.join(map(str, body))}"
    shapes = "; ".join(str([const_int(n) for n in t.shape]) for t in op.outputs)
    inputs = ", ".join(t.name for t in op.input_tensors)
    return f"{op.name} = {op.kind.upper()} {shapes}" + (f" of {inputs}" if inputs else "")
