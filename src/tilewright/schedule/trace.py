"""The trace: every primitive that was applied, in order, as data.

Printing a schedule as the Python code that makes it, saving, loading, replaying on another copy of
the same computation: all read the list of `Step`s. Steps speak of stages and axes by number (see
state.py), which depend only on the steps before; so a trace fits every tensor DAG of the same
structure.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..base.errors import ScheduleError
from ..loopir.expr import Call, FloatImm, IntImm, PrimExpr, StringImm, Var
from ..loopir.iter import IterVar, Range
from ..loopir.serial import load_json, save_json
from ..loopir.subst import substitute
from ..loopir.visit import free_vars
from ..tensor.op import Operation
from ..tensor.tensor import Tensor
from .layout_map import LayoutMap, expr_text
from .state import StageState

VERSION = 1
_STAGE_PRIMITIVES = """
    split fuse reorder tile vectorize unroll parallel bind pragma prefetch storage_align tensorize
    compute_at compute_inline compute_root set_scope env_threads set_store_predicate double_buffer
    rolling_buffer transform_layout
"""
_OF_STAGES = frozenset(_STAGE_PRIMITIVES.split())
_OF_SCHEDULES = frozenset(("cache_read", "cache_write", "rfactor", "create_group"))


class StageRef:
    """A stage by number."""

    __slots__ = ("ident",)

    def __init__(self, ident: int) -> None:
        self.ident = ident


class TensorRef:
    """Output `index` of a stage's operation."""

    __slots__ = ("ident", "index")

    def __init__(self, ident: int, index: int) -> None:
        self.ident, self.index = ident, index


class AxisRef:
    """Axis number `number` of a stage; `path` is how the user reaches it if it is a root axis."""

    __slots__ = ("ident", "number", "path")

    def __init__(self, ident: int, number: int, path: str) -> None:
        self.ident, self.number, self.path = ident, number, path


class ThreadRef:
    """A thread axis, numbered by first use."""

    __slots__ = ("dom", "number", "tag")

    def __init__(self, number: int, tag: str, dom: int | None) -> None:
        self.number, self.tag, self.dom = number, tag, dom


class ExprRef:
    """An expression in which some variables are those of axes."""

    __slots__ = ("axes", "expr")

    def __init__(self, expr: PrimExpr, axes: Sequence[tuple[Var, Any]]) -> None:
        self.expr = expr
        self.axes = list(axes)


class Step:
    """One call of a primitive: on a stage (`stage` set) or on the schedule."""

    __slots__ = ("args", "kwargs", "primitive", "results", "stage")

    def __init__(
        self,
        primitive: str,
        stage: int | None,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        results: Any = None,
    ) -> None:
        self.primitive = primitive
        self.stage = stage
        self.args = list(args)
        self.kwargs = kwargs
        self.results = results


def encode(sch: Any, value: Any, near: Sequence[Any] = ()) -> Any:
    """A live argument as trace data: references for what belongs to the schedule.

    `near` are stages to look for an axis first: stages may share reduction axes.
    """
    if isinstance(value, StageState):
        return StageRef(value.id)
    if isinstance(value, Tensor):
        return TensorRef(sch.find(value).id, value.value_index)
    if isinstance(value, Operation):
        return StageRef(sch.find(value).id)
    if isinstance(value, IterVar):
        if value.iter_type == IterVar.ThreadIndex:
            return _encode_thread(sch, value)
        return _encode_axis([*near, *sch.by_id], value)
    if isinstance(value, (list, tuple)):
        return [encode(sch, v, near) for v in value]
    if isinstance(value, PrimExpr) and not isinstance(value, (IntImm, FloatImm, StringImm)):
        return _encode_expr(sch, value, near)
    return value


def _encode_expr(sch: Any, e: PrimExpr, near: Sequence[Any]) -> Any:
    """An expression with its axis variables named."""
    axes: list[tuple[Var, Any]] = []
    owners = [a for stage in (*near, *sch.by_id) for a in stage.axes]
    owners += sch.thread_axes
    owners += [t for s in sch.by_id for a in s.attrs.values() if (t := a.bind_thread) is not None]
    for var in free_vars(e):
        owner = next((a for a in owners if a.var is var), None)
        if owner is not None:
            axes.append((var, encode(sch, owner, near)))
    return ExprRef(e, axes) if axes else e


def stages_in(sch: Any, values: Iterable[Any]) -> list[Any]:
    """The stages among some arguments."""
    return [sch.find(v) for v in values if isinstance(v, (StageState, Tensor, Operation))]


def _encode_thread(sch: Any, axis: IterVar) -> ThreadRef:
    threads: list[IterVar] = sch.thread_axes
    if not any(known is axis for known in threads):
        threads.append(axis)
    i = next(k for k, known in enumerate(threads) if known is axis)
    extent = axis.dom.extent if axis.dom is not None else None
    return ThreadRef(i, axis.thread_tag, extent.value if isinstance(extent, IntImm) else None)


def _encode_axis(stages: Sequence[Any], axis: IterVar) -> Any:
    for stage in stages:
        for n, known in enumerate(stage.axes):
            if known is axis:
                return AxisRef(stage.id, n, _path(stage, axis))
    return axis


def _path(stage: Any, axis: IterVar) -> str:
    for field in ("axis", "reduce_axis"):
        for i, a in enumerate(getattr(stage.op, field, ()) or ()):
            if a is axis:
                return f"op.{field}[{i}]"
    if getattr(stage.op, "scan_axis", None) is axis:
        return "op.scan_axis"
    for i, a in enumerate(getattr(stage.op, "spatial_axis_", ())):
        if a is axis:
            return f"op.spatial_axis_[{i}]"
    return ""


def decode(sch: Any, value: Any, threads: dict[int, IterVar]) -> Any:
    """Trace data as the live objects of another schedule."""
    if isinstance(value, StageRef):
        return sch.by_id[value.ident]
    if isinstance(value, TensorRef):
        return sch.by_id[value.ident].op.output(value.index)
    if isinstance(value, AxisRef):
        return sch.by_id[value.ident].axes[value.number]
    if isinstance(value, ExprRef):
        table = {v: decode(sch, ref, threads).var for v, ref in value.axes}
        return substitute(value.expr, table)
    if isinstance(value, ThreadRef):
        if value.number not in threads:
            dom = Range(value.dom) if value.dom is not None else None
            name = value.tag.replace(".", "_")
            threads[value.number] = IterVar(dom, name, IterVar.ThreadIndex, value.tag)
        return threads[value.number]
    if isinstance(value, list):
        return [decode(sch, v, threads) for v in value]
    return value


def replay(sch: Any, steps: Iterable[Step]) -> None:
    """Apply the steps to a fresh schedule of the same computation."""
    threads: dict[int, IterVar] = {}
    for number, step in enumerate(steps):
        if step.primitive not in (_OF_SCHEDULES if step.stage is None else _OF_STAGES):
            raise ScheduleError(f"step {number}: there is no primitive {step.primitive!r}")
        try:
            target = sch if step.stage is None else sch.by_id[step.stage]
            args = [decode(sch, a, threads) for a in step.args]
            kwargs = {k: decode(sch, v, threads) for k, v in step.kwargs.items()}
            method = getattr(target, step.primitive)
            inspect.signature(method).bind(*args, **kwargs)
        except (IndexError, TypeError, AttributeError):
            raise ScheduleError(
                f"step {number} ({step.primitive}) does not fit: it names a stage or an axis that "
                "the schedule does not have here, or other arguments than the primitive takes; is "
                "this the computation it was made for?"
            ) from None
        method(*args, **kwargs)


# ---- as Python text


class _Names:
    def __init__(self) -> None:
        self.used: set[str] = {"s", "te", "tvm"}
        self.stages: dict[int, str] = {}
        self.axes: dict[tuple[int, int], str] = {}
        self.threads: dict[int, str] = {}

    def fresh(self, name: str) -> str:
        name = re.sub(r"\W", "_", name) or "x"
        name = f"_{name}" if name[0].isdigit() else name
        result, k = name, 1
        while result in self.used:
            result, k = f"{name}_{k}", k + 1
        self.used.add(result)
        return result


def as_python(sch: Any) -> str:
    """Python code that makes this schedule, given variables named like the tensors."""
    names = _Names()
    for stage in sch.by_id[: sch.initial_stages]:
        names.stages[stage.id] = names.fresh(stage.name)
    outs = ", ".join(f"{names.stages[i]}.op" for i in sch.output_ids)
    lines = [f"s = te.create_schedule([{outs}])"]
    for step in sch.steps:
        _declare_threads(step, names, lines)
        args = [_arg_text(a, names) for a in step.args]
        args += [f"{k}={_arg_text(v, names)}" for k, v in step.kwargs.items() if v is not None]
        target = "s" if step.stage is None else _stage_text(step.stage, names)
        call = f"{target}.{step.primitive}({', '.join(args)})"
        results = _result_text(sch, step.results, names)
        lines.append(f"{results} = {call}" if results else call)
    return "\n".join(lines) + "\n"


def _stage_text(ident: int, names: _Names) -> str:
    name = names.stages[ident]
    return name if name.startswith("group") else f"s[{name}]"


def _declare_threads(step: Step, names: _Names, lines: list[str]) -> None:
    for value in [*step.args, *step.kwargs.values()]:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ThreadRef) and item.number not in names.threads:
                name = names.threads[item.number] = names.fresh(item.tag)
                dom = f"{item.dom}, " if item.dom is not None else ""
                lines.append(f'{name} = te.thread_axis({dom}"{item.tag}")')


def _arg_text(value: Any, names: _Names) -> str:
    if isinstance(value, StageRef):
        return _stage_text(value.ident, names)
    if isinstance(value, TensorRef):
        suffix = f".op.output({value.index})" if value.index else ""
        return names.stages[value.ident] + suffix
    if isinstance(value, AxisRef):
        known = names.axes.get((value.ident, value.number))
        return known or f"s[{names.stages[value.ident]}].{value.path}"
    if isinstance(value, ThreadRef):
        return names.threads[value.number]
    if isinstance(value, ExprRef):
        table = {v: Var(f"{_arg_text(ref, names)}.var", v.dtype) for v, ref in value.axes}
        return expr_text(substitute(value.expr, table))
    if isinstance(value, list):
        return "[" + ", ".join(_arg_text(v, names) for v in value) + "]"
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return repr(value.value)
    if isinstance(value, LayoutMap):
        return value.as_python()
    if callable(value) and not isinstance(value, PrimExpr):
        return getattr(value, "__name__", repr(value))
    return str(value) if isinstance(value, PrimExpr) else repr(value)


def _result_text(sch: Any, results: Any, names: _Names) -> str:
    if results is None:
        return ""
    parts = []
    for r in results if isinstance(results, list) else [results]:
        if isinstance(r, AxisRef):
            axis = sch.by_id[r.ident].axes[r.number]
            name = names.axes[r.ident, r.number] = names.fresh(axis.var.name)
        elif r.ident in names.stages:
            name = names.fresh(f"{names.stages[r.ident]}_{getattr(r, 'index', 0)}")
        else:
            name = names.stages[r.ident] = names.fresh(sch.by_id[r.ident].name)
        parts.append(name)
    return f"[{parts[0]}]" if len(parts) == 1 and isinstance(results, list) else ", ".join(parts)


# ---- as JSON


def to_json(steps: Sequence[Step]) -> str:
    """The steps as text that `from_json` reads; raises ScheduleError for what cannot be saved."""
    data = [
        [
            s.primitive,
            s.stage,
            [_pack(a, s) for a in s.args],
            {k: _pack(v, s) for k, v in s.kwargs.items()},
            _pack(s.results, s),
        ]
        for s in steps
    ]
    return json.dumps({"version": VERSION, "steps": data}, separators=(",", ":"))


def from_json(text: str) -> list[Step]:
    try:
        data = json.loads(text)
        version, rows = data["version"], data["steps"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ScheduleError(f"this is not a saved schedule: {error}") from None
    if version != VERSION:
        raise ScheduleError(
            f"saved schedule has version {version}, this tilewright reads {VERSION}"
        )
    try:
        steps = [
            Step(p, s, list(map(_unpack, a)), {k: _unpack(v) for k, v in kw.items()}, _unpack(r))
            for p, s, a, kw, r in rows
        ]
        if not all(isinstance(step.primitive, str) for step in steps):
            raise ValueError("a primitive is not a name")
        return steps
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ScheduleError(f"this saved schedule is damaged: {error!r}") from None


def _pack(value: Any, step: Step) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_pack(v, step) for v in value]
    if isinstance(value, StageRef):
        return {"stage": value.ident}
    if isinstance(value, TensorRef):
        return {"tensor": [value.ident, value.index]}
    if isinstance(value, AxisRef):
        return {"axis": [value.ident, value.number, value.path]}
    if isinstance(value, ThreadRef):
        return {"thread": [value.number, value.tag, value.dom]}
    if isinstance(value, ExprRef):
        # one document, so that the variables of both parts stay the same objects
        whole = Call("bool", "tir.tvm_tuple", [value.expr, *(v for v, _ in value.axes)])
        return {"axes": [_pack(whole, step), [_pack(ref, step) for _, ref in value.axes]]}
    if isinstance(value, PrimExpr):
        return {"expr": save_json(value)}
    if isinstance(value, LayoutMap):
        return {"map": value.to_data()}
    raise ScheduleError(
        f"{step.primitive}: an argument of type {type(value).__name__} cannot be saved as data"
    )


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if isinstance(value, dict):
        ((kind, data),) = value.items()
        if kind == "expr":
            return load_json(data)
        if kind == "axes":
            whole = _unpack(data[0])
            return ExprRef(whole.args[0], list(zip(whole.args[1:], map(_unpack, data[1]))))
        if kind == "stage":
            return StageRef(data)
        if kind == "map":
            return LayoutMap.from_data(*data)
        return {"tensor": TensorRef, "axis": AxisRef, "thread": ThreadRef}[kind](*data)
    return value
