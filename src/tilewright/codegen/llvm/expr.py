"""Expressions as LLVM instructions: arithmetic, comparisons, selection, vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...base.dtype import DType, parse
from ...base.errors import InternalError
from ...loopir import expr as E
from ...loopir.data import divides
from . import convert
from .emitter import Emitter
from .index import index, index_like
from .memory import load
from .types import float_text, int_text, is_constant, suffix

_FLOAT_OPS = {
    E.Add: "fadd contract",
    E.Sub: "fsub contract",
    E.Mul: "fmul contract",
    E.Div: "fdiv contract",
    E.Mod: "frem",
}
_NAN_TEXT = re.compile(r"0x[7F]FF[89A-F]")
_INT_OPS = {E.Add: "add", E.Sub: "sub", E.Mul: "mul"}
_FLOAT_COMPARE = {E.EQ: "oeq", E.NE: "une", E.LT: "olt", E.LE: "ole", E.GT: "ogt", E.GE: "oge"}
_INT_COMPARE = {E.EQ: "eq", E.NE: "ne", E.LT: "lt", E.LE: "le", E.GT: "gt", E.GE: "ge"}


def _var(f: Emitter, e: E.Var) -> str:
    known = f.env.get(e)
    if known is not None:
        return known
    wide = f.wide.get(e)
    if wide is None:
        raise InternalError(f"variable {e.name} has no value here")
    t = parse(e.dtype)
    if t.bits == 64:
        return wide
    if is_constant(wide):
        return wide
    return f.op(f"trunc i64 {wide} to {f.type(e.dtype)}")


def _float_imm(f: Emitter, e: E.FloatImm) -> str:
    return float_text(e.number, e.dtype, f.native_half)


def _int_imm(f: Emitter, e: E.IntImm) -> str:
    return int_text(e.value, e.dtype)


def _string(f: Emitter, e: E.StringImm) -> str:
    return f.module.string(e.value)


def _check_computable(f: Emitter, t: DType) -> None:
    if t.is_float and t.bits == 16 and not (f.native_half and t.code == "float"):
        raise InternalError(f"arithmetic on {t.text} must be legalised before code generation")
    if t.is_handle:
        raise InternalError("arithmetic on handles")


def _arith(f: Emitter, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    _check_computable(f, t)
    kind = type(e)
    a, b = f.expr(e.a), f.expr(e.b)
    if t.is_float:
        return f.op(f"{_FLOAT_OPS[kind]} {f.type(e.dtype)} {a}, {b}")
    if t.is_bool:
        name = {E.Add: "or", E.Mul: "and", E.Sub: "xor"}[kind]
        return f.op(f"{name} {f.type(e.dtype)} {a}, {b}")
    return f.op(f"{_INT_OPS[kind]} {f.type(e.dtype)} {a}, {b}")


def _divide(f: Emitter, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    _check_computable(f, t)
    kind, text = type(e), f.type(e.dtype)
    a, b = f.expr(e.a), f.expr(e.b)
    if t.is_float:
        if kind in _FLOAT_OPS:
            return f.op(f"{_FLOAT_OPS[kind]} {text} {a}, {b}")
        down = _unary(f, "floor", t, f.op(f"fdiv {text} {a}, {b}"))
        if kind is E.FloorDiv:
            return down
        return f.op(f"fsub {text} {a}, {f.op(f'fmul {text} {down}, {b}')}")
    if not divides(e, f.module.unknown):
        return _divide_by_any(f, kind, t, a, b)
    return _quotient(f, kind, t, a, _safe_divisor(f, b, t))


def _quotient(f: Emitter, kind: type, t: DType, a: str, b: str) -> str:
    """A quotient or remainder of integers that has one."""
    text, sign = f.type(t.text), "u" if t.is_uint or t.is_bool else "s"
    if kind is E.Div or (kind is E.FloorDiv and sign == "u"):
        return f.op(f"{sign}div {text} {a}, {b}")
    if kind is E.Mod or sign == "u":
        return f.op(f"{sign}rem {text} {a}, {b}")
    return _floor(f, kind, text, t, a, b)


def _divide_by_any(f: Emitter, kind: type, t: DType, a: str, b: str) -> str:
    """Division by what may be zero, which gives zero, or -1, by which the quotient wraps."""
    text, element = f.type(t.text), f.type(t.element)
    flags = f.type(parse("bool").with_lanes(t.lanes))
    one = f.splat("true" if t.is_bool else "1", element, t.lanes)
    if t.is_int:
        two = f.splat("2", element, t.lanes)
        special = f.op(f"icmp ult {text} {f.op(f'add {text} {b}, {one}')}, {two}")
    else:
        zero = f.splat("false" if t.is_bool else "0", element, t.lanes)
        special = f.op(f"icmp eq {text} {b}, {zero}")
    safe = f.op(f"select {flags} {special}, {text} {one}, {text} {b}")
    result = _quotient(f, kind, t, a, safe)
    if kind in (E.Mod, E.FloorMod):
        return result
    product = f.op(f"mul {text} {a}, {b}")  # the quotient by 0 and by -1
    return f.op(f"select {flags} {special}, {text} {product}, {text} {result}")


def _floor(f: Emitter, kind: type, text: str, t: DType, a: str, b: str) -> str:
    """Division rounded down: the quotient rounded to zero, corrected where signs differ."""
    zero = f.splat("0", f.type(t.element), t.lanes)
    flags = f.type(parse("bool").with_lanes(t.lanes))
    rest = f.op(f"srem {text} {a}, {b}")
    inexact = f.op(f"icmp ne {text} {rest}, {zero}")
    differ = f.op(f"icmp slt {text} {f.op(f'xor {text} {rest}, {b}')}, {zero}")
    fix = f.op(f"and {flags} {inexact}, {differ}")
    if kind is E.FloorMod:
        moved = f.op(f"add {text} {rest}, {b}")
        return f.op(f"select {flags} {fix}, {text} {moved}, {text} {rest}")
    quotient = f.op(f"sdiv {text} {a}, {b}")
    return f.op(f"add {text} {quotient}, {f.op(f'sext {flags} {fix} to {text}')}")


def _safe_divisor(f: Emitter, b: str, t: DType) -> str:
    """1 in the lanes that must not be evaluated: an integer division by zero stops the process."""
    if f.mask is None or is_constant(b):
        return b
    operand, lanes = f.mask
    one = f.splat("1", f.type(t.element), t.lanes)
    text = f.type(t.text)
    if lanes == t.lanes:
        return f.op(
            f"select {f.type(parse('bool').with_lanes(lanes))} {operand}, {text} {b}, {text} {one}"
        )
    zero = f.splat("0", f.type(t.element), t.lanes)
    flags = f.type(parse("bool").with_lanes(t.lanes))
    bad = f.op(f"icmp eq {text} {b}, {zero}")
    return f.op(f"select {flags} {bad}, {text} {one}, {text} {b}")


def _unary(f: Emitter, name: str, t: DType, x: str) -> str:
    f.module.declare_unary(f"llvm.{name}", t.element, t.lanes)
    kind = f.type(t.text)
    return f.op(f"call {kind} @llvm.{name}.{suffix(t.text)}({kind} {x})")


def _extreme(f: Emitter, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    _check_computable(f, t)
    smaller = type(e) is E.Min
    a, b, kind = f.expr(e.a), f.expr(e.b), f.type(e.dtype)
    if t.is_bool:
        return f.op(f"{'and' if smaller else 'or'} {kind} {a}, {b}")
    if t.is_float:
        return _float_extreme(f, smaller, t, a, b)
    name = f"llvm.{'u' if t.is_uint else 's'}{'min' if smaller else 'max'}.{suffix(e.dtype)}"
    f.module.declare(f"declare {kind} @{name}({kind}, {kind})")
    return f.op(f"call {kind} @{name}({kind} {a}, {kind} {b})")


def _float_extreme(f: Emitter, smaller: bool, t: DType, a: str, b: str) -> str:
    """The extreme of two floats, NaN where either is NaN (the sign of a zero is either's).

    x86's instruction gives its second operand if a comparison is unordered, so against a constant
    one instruction is enough; else both orders are computed and their bits joined, which are the
    same, or a NaN's. Arm's instruction does what is wanted by itself.
    """
    kind, flags = f.type(t.text), f.type(parse("bool").with_lanes(t.lanes))
    if f.module.nan_extremes:
        name = f"llvm.{'minimum' if smaller else 'maximum'}.{suffix(t.text)}"
        f.module.declare(f"declare {kind} @{name}({kind}, {kind})")
        return f.op(f"call {kind} @{name}({kind} {a}, {kind} {b})")
    if is_constant(a):
        a, b = b, a
    test = f.op(f"fcmp u{'le' if smaller else 'ge'} {kind} {a}, {b}")
    first = f.op(f"select {flags} {test}, {kind} {a}, {kind} {b}")
    if is_constant(b) and _NAN_TEXT.search(b) is None:
        return first
    test = f.op(f"fcmp o{'lt' if smaller else 'gt'} {kind} {a}, {b}")
    second = f.op(f"select {flags} {test}, {kind} {a}, {kind} {b}")
    bits = f.type(parse(f"int{t.bits}").with_lanes(t.lanes))
    x, y = (f.op(f"bitcast {kind} {v} to {bits}") for v in (first, second))
    return f.op(f"bitcast {bits} {f.op(f'or {bits} {x}, {y}')} to {kind}")


def _compare(f: Emitter, e: E.CmpOp) -> str:
    t = parse(e.a.dtype)
    kind = type(e)
    if t.is_float:
        _check_computable(f, t)
        return f.op(f"fcmp {_FLOAT_COMPARE[kind]} {f.type(t.text)} {f.expr(e.a)}, {f.expr(e.b)}")
    name = _INT_COMPARE[kind]
    if name not in ("eq", "ne"):
        name = ("s" if t.is_int else "u") + name
    if t.lanes == 1 and t.is_int and t.bits >= 32 and index_like(f, e.a) and index_like(f, e.b):
        return f.op(f"icmp {name} i64 {index(f, e.a)}, {index(f, e.b)}")
    return f.op(f"icmp {name} {f.type(t.text)} {f.expr(e.a)}, {f.expr(e.b)}")


def _logic(f: Emitter, e: E.And | E.Or) -> str:
    name = "and" if type(e) is E.And else "or"
    return f.op(f"{name} {f.type(e.dtype)} {f.expr(e.a)}, {f.expr(e.b)}")


def _not(f: Emitter, e: E.Not) -> str:
    ones = f.splat("true", "i1", parse(e.dtype).lanes)
    return f.op(f"xor {f.type(e.dtype)} {f.expr(e.a)}, {ones}")


def _select(f: Emitter, e: E.Select) -> str:
    condition = f.expr(e.condition)
    a, b = f.expr(e.true_value), f.expr(e.false_value)
    return select(f, condition, e.condition.dtype, a, b, e.dtype)


def select(f: Emitter, condition: str, dtype: str, a: str, b: str, result: str) -> str:
    """`a` where the condition (operand and dtype) holds, else `b`."""
    if a == b:
        return a
    kind = f.type(result)
    return f.op(f"select {f.type(dtype)} {condition}, {kind} {a}, {kind} {b}")


def _cast(f: Emitter, e: E.Cast) -> str:
    return convert.cast(f, f.expr(e.value), parse(e.value.dtype), parse(e.dtype))


def _ramp(f: Emitter, e: E.Ramp) -> str:
    t = parse(e.dtype)
    element, n = f.type(t.element), t.lanes
    base = f.splat(f.expr(e.base), element, n)
    stride = f.expr(e.stride)
    if is_constant(stride):
        bits = t.bits
        steps = [(i * int(stride)) % (1 << bits) for i in range(n)]
        offsets = "<" + ", ".join(f"{element} {int_text(s, t.element)}" for s in steps) + ">"
    else:
        count = "<" + ", ".join(f"{element} {i}" for i in range(n)) + ">"
        offsets = f.op(f"mul {f.type(t.text)} {f.splat(stride, element, n)}, {count}")
    if base == "zeroinitializer":
        return offsets
    return f.op(f"add {f.type(t.text)} {base}, {offsets}")


def _broadcast(f: Emitter, e: E.Broadcast) -> str:
    t = parse(e.value.dtype)
    if t.lanes > 1:
        raise InternalError(f"broadcast of a {t.text}")
    f.spread = e.value
    return f.splat(f.expr(e.value), f.type(t.element), e.lanes)


def _shuffle(f: Emitter, e: E.Shuffle) -> str:
    parts = [(f.expr(v), parse(v.dtype)) for v in e.vectors]
    return shuffle(f, parts, e.indices)


def shuffle(f: Emitter, parts: list[tuple[str, DType]], picks: Any) -> str:
    """The lanes at `picks` of the concatenation of vectors (operand and type each)."""
    first = parts[0][1]
    element = f.type(first.element)
    picks = tuple(picks)
    if len(parts) <= 2 and first.lanes > 1 and all(t.lanes == first.lanes for _, t in parts):
        kind = f.type(first.text)
        if len(picks) == 1:
            at = picks[0]
            return f.lane(parts[at // first.lanes][0], kind, at % first.lanes)
        other = parts[1][0] if len(parts) == 2 else "poison"
        order = ", ".join(f"i32 {p}" for p in picks)
        return f.op(
            f"shufflevector {kind} {parts[0][0]}, {kind} {other}, <{len(picks)} x i32> <{order}>"
        )
    places = [(v, t, i) for v, t in parts for i in range(t.lanes)]
    result = "poison"
    for lane, pick in enumerate(picks):
        value, t, at = places[pick]
        one = value if t.lanes == 1 else f.lane(value, f.type(t.text), at)
        if len(picks) == 1:
            return one
        kind = f"<{len(picks)} x {element}>"
        result = f.op(f"insertelement {kind} {result}, {element} {one}, i64 {lane}")
    return result


def _let(f: Emitter, e: E.Let) -> str:
    value = f.expr(e.value)
    with f.scope(expression=True):
        f.bind(e.var, value)
        return f.expr(e.body)


EXPRS: dict[type, Callable[..., str]] = {
    E.Var: _var,
    E.SizeVar: _var,
    E.FloatImm: _float_imm,
    E.IntImm: _int_imm,
    E.StringImm: _string,
    **dict.fromkeys((E.Add, E.Sub, E.Mul), _arith),
    **dict.fromkeys((E.Div, E.Mod, E.FloorDiv, E.FloorMod), _divide),
    **dict.fromkeys((E.Min, E.Max), _extreme),
    **dict.fromkeys(_INT_COMPARE, _compare),
    E.And: _logic,
    E.Or: _logic,
    E.Not: _not,
    E.Select: _select,
    E.Cast: _cast,
    E.Ramp: _ramp,
    E.Broadcast: _broadcast,
    E.Shuffle: _shuffle,
    E.Let: _let,
    E.BufferLoad: load,
}
