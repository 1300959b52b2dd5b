"""Rows: the steps of a state, in the vocabulary of record lines, and the primitives they stand for.

A row is a plain tuple (name, stage, ...). Stages are numbered as in TVM's records: by their place
in the list of stages, inputs included; what a row inserts shifts the places behind it. Loops are
numbered by their place among the stage's leaf loops. Each row becomes a few primitives of the
schedule, whose own trace stays the truth; nothing here changes loops by other means.

    SP stage loop extent lengths inner_to_outer    split into len(lengths) + 1 loops
    FSP stage loop source_row n                    split like an earlier SP
    FFSP stage loop source_rows level by_factor    split by the product of one level of several SP
    RE FU AN PR SA                                 reorder, fuse, annotate, pragma, storage_align
    CA CI CR                                       compute_at, compute_inline, compute_root
    CHR CHW RF                                     cache_read, cache_write, rfactor
    PK stage reader                                a copy of an operand in the reader's tile order
    DS target                                      the default schedule for a target; the last step
    DD question answer                             what the default schedule decides
    AL name place parameter                        another algorithm; the first step
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.expr import PrimExpr, Var
from ..target.target import Target
from ..tensor.axes import thread_axis
from ..topi.schedules.decisions import Decisions, NotOffered
from ..topi.schedules.default import default_schedule
from .layout import pack_order

Row = tuple[Any, ...]

DEFAULT_STEP = "DS"
DECISION_STEP = "DD"
ALGORITHM_STEP = "AL"
NONE, UNROLL, VECTORIZE, PARALLEL, VTHREAD = range(5)
BLOCK_X, THREAD_X, BLOCK_Y, THREAD_Y, BLOCK_Z, THREAD_Z, TENSORIZE = range(5, 12)
THREAD_TAGS = {
    VTHREAD: "vthread", BLOCK_X: "blockIdx.x", THREAD_X: "threadIdx.x", BLOCK_Y: "blockIdx.y",
    THREAD_Y: "threadIdx.y", BLOCK_Z: "blockIdx.z", THREAD_Z: "threadIdx.z",
}  # fmt: skip
UNROLL_PRAGMA = "auto_unroll_max_step"


class Factor:
    """An open length of a split: `var` stands for it in the live schedule."""

    __slots__ = ("extent", "level", "row", "var")

    def __init__(self, var: Var, row: int, level: int, extent: int | None) -> None:
        self.var, self.row, self.level, self.extent = var, row, level, extent

    def __repr__(self) -> str:
        return f"Factor({self.var.name}, row={self.row}, level={self.level}, of={self.extent})"


def apply_row(state: Any, row: Row) -> Any:
    """Apply a row to a state's schedule and append it; returns what the row makes."""
    name = row[0] if len(row) else None
    handler = _HANDLERS.get(name) if isinstance(name, str) else None
    if handler is None:
        raise ScheduleError(f"there is no step {name!r}; the steps are {', '.join(_HANDLERS)}")
    try:
        result = handler(state, *row[1:])
    except NotOffered:
        raise
    except (IndexError, TypeError, KeyError, AttributeError, ValueError) as problem:
        raise ScheduleError(
            f"step {len(state.rows)}, {list(row)}, does not fit this computation: {problem}"
        ) from None
    state.rows = (*state.rows, row)
    return result


def leaf(state: Any, stage_id: int, loop: int) -> tuple[Any, Any]:
    """A stage and one of its leaf loops, by their places."""
    stage = state.stage_at(stage_id)
    leaves = stage.leaf_iter_vars
    if not 0 <= loop < len(leaves):
        raise ScheduleError(f"{stage.name} has loops 0 to {len(leaves) - 1}, not {loop}")
    return stage, leaves[loop]


def _split_by(stage: Any, axis: Any, sizes: Sequence[Any], inner_to_outer: bool) -> list[Any]:
    """Split one loop into len(sizes) + 1; sizes from outer to inner."""
    made: list[Any] = []
    if inner_to_outer:
        for size in reversed(sizes):
            axis, inner = stage.split(axis, factor=size)
            made.insert(0, inner)
        return [axis, *made]
    for size in sizes:
        outer, axis = stage.split(axis, nparts=size)
        made.append(outer)
    return [*made, axis]


def _split(
    state: Any, stage_id: int, loop: int, extent: int | None, lengths: Any, inner_to_outer: Any
) -> list[Any]:
    stage, axis = leaf(state, stage_id, loop)
    number = len(state.rows)
    sizes: list[Any] = []
    for level, length in enumerate(lengths):
        if length is None:
            var = Var(f"{stage.name}.{axis.var.name}.{level}", "int32")
            state.open.append(Factor(var, number, level, extent))
            length = var
        sizes.append(length)
    state.lengths[number] = sizes
    return _named_parts(state, axis, _split_by(stage, axis, sizes, bool(inner_to_outer)))


def _named_parts(state: Any, axis: Any, parts: list[Any]) -> list[Any]:
    for n, part in enumerate(parts):
        state.names[part] = f"{loop_name(state, axis)}.{n}"
    return parts


def loop_name(state: Any, axis: Any) -> str:
    """What states call a loop, as TVM's do: `i.0` and `i.1` are parts of i, `i.0@j.0@` two in one;
    an axis that a step of the schedule made has its name, shortened."""
    known: str | None = state.names.get(axis)
    if known is not None:
        return known
    name: str = axis.var.name
    for long, short in ((".", "_"), ("@", "_"), ("outer", "o"), ("inner", "i")):
        name = name.replace(long, short)
    return name


def follow_lengths(lengths: Sequence[Any], n: int) -> list[Any]:
    """The first n - 1 lengths, and the product of the others."""
    return [*lengths[: n - 1], _product(lengths[n - 1 :])]


def _product(items: Sequence[Any]) -> Any:
    result: PrimExpr | int = 1
    for item in items:
        result = item if isinstance(result, int) and result == 1 else result * item
    return result


def _follow_split(state: Any, stage_id: int, loop: int, source: int, n: int) -> list[Any]:
    stage, axis = leaf(state, stage_id, loop)
    lengths = _lengths_of(state, source)
    if not 1 <= n <= len(lengths) + 1:
        raise ScheduleError(
            f"step {source} has {len(lengths)} lengths: 1 to {len(lengths) + 1} parts, not {n}"
        )
    parts = _split_by(stage, axis, follow_lengths(lengths, n), bool(state.rows[source][5]))
    return _named_parts(state, axis, parts)


def _lengths_of(state: Any, source: int) -> list[Any]:
    if source not in state.lengths:
        raise ScheduleError(f"step {source} is no split (SP); those are {[*state.lengths]}")
    found: list[Any] = state.lengths[source]
    return found


def _follow_fused_split(
    state: Any, stage_id: int, loop: int, sources: Any, level: int, by_factor: Any
) -> list[Any]:
    stage, axis = leaf(state, stage_id, loop)
    size = _product([_lengths_of(state, s)[level] for s in sources])
    return _named_parts(state, axis, _split_by(stage, axis, [size], bool(by_factor)))


def _reorder(state: Any, stage_id: int, order: Any) -> None:
    stage = state.stage_at(stage_id)
    leaves = stage.leaf_iter_vars
    if sorted(order) != list(range(len(leaves))):
        raise ScheduleError(f"an order of {len(leaves)} loops was expected, got {list(order)}")
    if list(order) != sorted(order):
        stage.reorder(*[leaves[i] for i in order])


def _fuse(state: Any, stage_id: int, loops: Any) -> Any:
    stage = state.stage_at(stage_id)
    axes = [leaf(state, stage_id, loop)[1] for loop in loops]
    fused = axes[0] if len(axes) == 1 else stage.fuse(*axes)
    state.names[fused] = "".join(f"{loop_name(state, a)}@" for a in axes)
    return fused


def _annotate(state: Any, stage_id: int, loop: int, kind: int) -> Any:
    stage, axis = leaf(state, stage_id, loop)
    if kind == UNROLL:
        stage.unroll(axis)
    elif kind == VECTORIZE:
        stage.vectorize(axis)
    elif kind == PARALLEL:
        stage.parallel(axis)
    elif kind in THREAD_TAGS:
        stage.bind(axis, state.thread(THREAD_TAGS[kind]))
    elif kind != NONE:
        raise ScheduleError(f"annotation {kind} is not supported")
    return axis


def _pragma(state: Any, stage_id: int, loop: int, text: str) -> None:
    stage, axis = leaf(state, stage_id, loop)
    key, _, value = text.partition("$")
    if key == UNROLL_PRAGMA:
        stage.pragma(axis, key, int(value))
        stage.pragma(axis, "unroll_explicit", True)
    else:
        stage.pragma(axis, key, int(value) if value.lstrip("-").isdigit() else value or None)


def _storage_align(state: Any, stage_id: int, loop: int, factor: int, offset: int) -> None:
    stage, axis = leaf(state, stage_id, loop)
    # of other loops than a dimension's own the step is kept, and memory lies as it would
    if axis in stage.op.axis:
        stage.storage_align(axis, factor, offset)


def _compute_at(state: Any, stage_id: int, target_id: int, loop: int) -> None:
    target, axis = leaf(state, target_id, loop)
    state.stage_at(stage_id).compute_at(target, axis)


def _compute_inline(state: Any, stage_id: int) -> None:
    state.stage_at(stage_id).compute_inline()


def _compute_root(state: Any, stage_id: int) -> None:
    state.stage_at(stage_id).compute_root()


def _cache_read(state: Any, stage_id: int, scope: str, readers: Any) -> Any:
    tensor = state.stage_at(stage_id).op.output(0)
    copy = state.schedule.cache_read(tensor, scope, [state.stage_at(r).op for r in readers])
    state.insert(stage_id + 1, state.schedule.find(copy))
    return copy


def _cache_write(state: Any, stage_id: int, scope: str) -> Any:
    op = state.stage_at(stage_id).op
    tensors = [op.output(i) for i in range(op.num_outputs)]
    made = state.schedule.cache_write(tensors if len(tensors) > 1 else tensors[0], scope)
    first = made[0] if isinstance(made, list) else made
    live = state.schedule.find(first)
    state.insert(stage_id, live)
    state.cached.add(live.id)
    return made


def _rfactor(state: Any, stage_id: int, loop: int, factor_axis: int) -> Any:
    stage, axis = leaf(state, stage_id, loop)
    made = state.schedule.rfactor(stage.op.output(0), axis, factor_axis)
    first = made[0] if isinstance(made, list) else made
    state.insert(stage_id, state.schedule.find(first))
    return made


def _pack(state: Any, stage_id: int, reader_id: int) -> Any:
    """The copy's layout follows the reader's tiles, once those are closed."""
    source, reader = state.stage_at(stage_id), state.stage_at(reader_id)
    tensor = source.op.output(0)
    if pack_order(reader, tensor) is None:
        raise ScheduleError(
            f"{source.name} cannot be packed for {reader.name}: it is read at indices that are no "
            "loops of it"
        )
    copy = state.schedule.cache_read(tensor, "global", [reader.op])
    made = state.schedule.find(copy)
    state.insert(stage_id + 1, made)
    state.packed[made.id] = reader.id
    if not state.open:
        made.transform_layout(pack_order(reader, copy).mapping())  # type: ignore[union-attr]
    return copy


def _algorithm(state: Any, name: str, place: int, parameter: int) -> None:
    """Another way to the same results takes the place of the computation."""
    if state.rows:
        raise ScheduleError("AL, the choice of an algorithm, is the first step of a state")
    dag, chosen = state.dag.by_algorithm(name, place, parameter)
    state.begin(dag)
    state.algorithm_error = chosen.error


def _decision(state: Any, question: str, answer: Sequence[int]) -> None:
    """An answer that the default schedule, the next step but for such, takes to a question."""
    if question in decisions_of(state.rows):
        raise ScheduleError(f"DD, a decision of the default schedule, answers {question} twice")


def _default(state: Any, target: str) -> None:
    """The schedule that the operator library has for these results takes the state's place."""
    if any(row[0] not in (ALGORITHM_STEP, DECISION_STEP) for row in state.rows):
        raise ScheduleError("DS, the default schedule, is the only step of a state but AL and DD")
    results = [op.output(i) for op in state.dag.outputs for i in range(op.num_outputs)]
    state.chosen = Decisions(decisions_of(state.rows))
    names = [op.name + "." for op in state.dag.ops]
    for question in state.chosen.given:
        if not question.startswith(tuple(names)):  # stages of their own are x.rf, x.local
            raise ScheduleError(f"DD answers {question}, and there is no such operation")
    state.schedule = default_schedule(results, Target(target), state.chosen)
    state.order = [stage.id for stage in state.schedule.stages]


def is_default(rows: Sequence[Row]) -> bool:
    """Whether rows stand for a default schedule, whatever it decides."""
    return any(row[0] == DEFAULT_STEP for row in rows)


def is_plain_default(rows: Sequence[Row]) -> bool:
    """Whether rows stand for the default schedule that decides by itself."""
    return len(rows) == 1 and is_default(rows)


def decisions_of(rows: Sequence[Row]) -> dict[str, tuple[int, ...]]:
    """What rows make a default schedule decide."""
    return {row[1]: tuple(row[2]) for row in rows if row[0] == DECISION_STEP}


_HANDLERS: dict[str, Callable[..., Any]] = {
    "SP": _split, "FSP": _follow_split, "FFSP": _follow_fused_split, "RE": _reorder, "FU": _fuse,
    "AN": _annotate, "PR": _pragma, "SA": _storage_align, "CA": _compute_at,
    "CI": _compute_inline, "CR": _compute_root, "CHR": _cache_read, "CHW": _cache_write,
    "RF": _rfactor, "PK": _pack, DEFAULT_STEP: _default, ALGORITHM_STEP: _algorithm,
    DECISION_STEP: _decision,
}  # fmt: skip

__all__ = [
    "ALGORITHM_STEP", "DECISION_STEP", "DEFAULT_STEP", "NONE", "PARALLEL", "THREAD_TAGS", "UNROLL",
    "UNROLL_PRAGMA", "VECTORIZE", "VTHREAD", "Factor", "Row", "apply_row", "decisions_of",
    "follow_lengths", "is_default", "is_plain_default", "thread_axis",
]  # fmt: skip
