"""What must hold for each kind of expression, apart from the scope of variables; for verify.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtype import DType, parse
from . import expr as E
from . import iter as I
from .buffer import Buffer
from .fold import wrap_int
from .op_other import check_choice

Check = Callable[[Any], str | None]  # what is wrong with a node, or None


def _same(e: Any) -> str | None:
    if e.a.dtype != e.b.dtype:
        return f"operands of {type(e).__name__} have types {e.a.dtype} and {e.b.dtype}"
    return None


def _arithmetic(e: Any) -> str | None:
    t = parse(e.a.dtype)
    if t.is_handle or t.is_bool:
        return f"{type(e).__name__} of {e.a.dtype}"
    return _same(e) or _is(e, e.a.dtype)


def _integers(e: Any) -> str | None:
    if not parse(e.a.dtype).is_integer:
        return f"{type(e).__name__} takes integers, got {e.a.dtype}"
    return _same(e) or _is(e, e.a.dtype)


def _min_max(e: Any) -> str | None:
    return _same(e) or _is(e, e.a.dtype)


def _is(e: Any, dtype: str) -> str | None:
    if e.dtype != dtype:
        return f"{type(e).__name__} says that it is {e.dtype}, but it is {dtype}"
    return None


def _bool_of(t: DType) -> str:
    return parse("bool").with_lanes(t.lanes)


def _compare(e: Any) -> str | None:
    return _same(e) or _is(e, _bool_of(parse(e.a.dtype)))


def _logic(e: Any) -> str | None:
    if not parse(e.a.dtype).is_bool:
        return f"{type(e).__name__} takes conditions, got {e.a.dtype}"
    return _same(e) or _is(e, e.a.dtype)


def _not(e: E.Not) -> str | None:
    if not parse(e.a.dtype).is_bool:
        return f"Not takes a condition, got {e.a.dtype}"
    return _is(e, e.a.dtype)


def _select(e: E.Select) -> str | None:
    return check_choice("Select", e, e.condition, e.true_value, e.false_value)


def _cast(e: E.Cast) -> str | None:
    to, source = parse(e.dtype), parse(e.value.dtype)
    if to.lanes != source.lanes:
        return f"Cast of {source.text} to {to.text}: lanes differ"
    return f"Cast of {source.text} to {to.text}" if to.is_handle or source.is_handle else None


def _ramp(e: E.Ramp) -> str | None:
    t = parse(e.base.dtype)
    if e.base.dtype != e.stride.dtype or not t.is_integer or t.lanes != 1:
        return f"Ramp of {e.base.dtype} with a stride of {e.stride.dtype}"
    if not isinstance(e.lanes, int) or e.lanes < 2:
        return f"Ramp of {e.lanes} lanes"
    return _is(e, t.with_lanes(e.lanes))


def _broadcast(e: E.Broadcast) -> str | None:
    t = parse(e.value.dtype)
    if t.lanes != 1 or not isinstance(e.lanes, int) or e.lanes < 2:
        return f"Broadcast of {e.value.dtype} to {e.lanes} lanes"
    return _is(e, t.with_lanes(e.lanes))


def _shuffle(e: E.Shuffle) -> str | None:
    types = [parse(v.dtype) for v in e.vectors]
    if len({t.element for t in types}) != 1:
        return f"Shuffle of {', '.join(t.text for t in types) or 'nothing'}"
    count = sum(t.lanes for t in types)
    if not e.indices or not all(0 <= i < count for i in e.indices):
        return f"Shuffle of {count} lanes with indices {e.indices}"
    return _is(e, types[0].with_lanes(len(e.indices)))


def _let(e: E.Let) -> str | None:
    if e.var.dtype != e.value.dtype:
        return f"Let gives {e.var.name} of type {e.var.dtype} a value of type {e.value.dtype}"
    return _is(e, e.body.dtype)


def _int(e: E.IntImm) -> str | None:
    t = parse(e.dtype)
    if t.is_float or t.is_handle or t.lanes != 1 or wrap_int(e.dtype, e.value) != e.value:
        return f"the constant {e.value!r} is no {e.dtype}"
    return None


def _float(e: E.FloatImm) -> str | None:
    t = parse(e.dtype)
    return None if t.is_float and t.lanes == 1 else f"the constant {e.value!r} is no {e.dtype}"


def _load(e: E.BufferLoad) -> str | None:
    wrong = access(e.buffer, e.indices, e.predicate)
    return wrong or _is(e, accessed(e.buffer, e.indices))


def accessed(b: Buffer, indices: tuple[Any, ...]) -> str:
    """The type of buffer[indices]."""
    t = parse(b.dtype)
    lanes = parse(indices[-1].dtype).lanes if indices else 1
    return t.with_lanes(t.lanes * lanes)


def access(b: Buffer, indices: tuple[Any, ...], predicate: Any) -> str | None:
    """What is wrong with reading or writing buffer[indices]."""
    if len(indices) != len(b.shape):
        return f"buffer {b.name} has {len(b.shape)} dimensions, got {len(indices)} indices"
    lanes = parse(indices[-1].dtype).lanes if indices else 1
    for i in indices:
        t = parse(i.dtype)
        if not t.is_integer or t.lanes not in (1, lanes):
            return f"index {i} of buffer {b.name} is {i.dtype}"
    if predicate is not None:
        t = parse(predicate.dtype)
        if not t.is_bool or t.lanes not in (1, lanes * parse(b.dtype).lanes):
            return f"the predicate of an access to {b.name} is {predicate.dtype}"
    return None


def _not_lowered(e: Any) -> str:
    return f"{type(e).__name__} must be lowered before it stands in a function"


CHECKS: dict[type, Check | None] = {
    E.Var: None,
    E.SizeVar: None,
    E.StringImm: None,
    E.IntImm: _int,
    E.FloatImm: _float,
    E.Add: _arithmetic,
    E.Sub: _arithmetic,
    E.Mul: _arithmetic,
    E.Div: _arithmetic,
    E.Mod: _integers,
    E.FloorDiv: _integers,
    E.FloorMod: _integers,
    E.Min: _min_max,
    E.Max: _min_max,
    **dict.fromkeys((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE), _compare),
    E.And: _logic,
    E.Or: _logic,
    E.Not: _not,
    E.Select: _select,
    E.Cast: _cast,
    E.Ramp: _ramp,
    E.Broadcast: _broadcast,
    E.Shuffle: _shuffle,
    E.Let: _let,
    E.Call: lambda e: e.op.row.check(e),
    E.BufferLoad: _load,
    I.ProducerLoad: _not_lowered,
    I.Reduce: _not_lowered,
}
