"""Expressions in C, CUDA and OpenCL: arithmetic, comparisons, selection, vectors."""

from __future__ import annotations

import math
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import InternalError
from ..loopir import expr as E
from ..loopir.data import divides, is_data
from ..loopir.signs import BITS, IN_C
from .c_family import ExprRule, Printer


def _var(p: Printer, e: E.Var) -> str:
    name = p.env.get(e)
    if name is None:
        raise InternalError(f"variable {e.name} has no value in kernel {p.func.name}")
    return name


def int_literal(p: Any, value: int, dtype: str) -> str:
    """An integer constant of a type."""
    t = parse(dtype)
    if t.is_bool:
        return str(p.bool_literal(bool(value)))
    if t.is_handle:
        return f"(({p.type(dtype)}){value})"
    long: str = p.long_suffix
    if t.bits == 64:
        if t.is_int and value == t.min_value:
            return f"(-{-(value + 1)}{long} - 1)"
        text = f"{abs(value)}{long if t.is_int else 'u' + long}"
    elif t.bits == 32:
        if t.is_int and value == t.min_value:
            return "(-2147483647 - 1)"
        text = f"{abs(value)}{'' if t.is_int else 'u'}"
    else:
        text = str(abs(value))
    if value < 0:
        text = f"(-{text})"
    return text if t.bits >= 32 else f"(({p.type(dtype)}){text})"


def float_literal(p: Any, value: float, dtype: str) -> str:
    """A float constant of a type: the shortest text that reads back as the value."""
    t = parse(dtype)
    if t.bits == 64:
        if math.isfinite(value):
            text = repr(value)
            return text if text[0] != "-" else f"({text})"
        return str(p.special_float(value, 64))
    text = p.special_float(value, 32) if not math.isfinite(value) else f"{float32_text(value)}f"
    if text[0] == "-":
        text = f"({text})"
    return str(p.half_literal(text, t)) if t.bits == 16 else text


def float32_text(value: float) -> str:
    """A float32 in decimal, with as few digits as read back right."""
    from numpy import float32, format_float_positional, format_float_scientific

    x = float32(value)
    size = abs(value)
    if size == 0 or 1e-4 <= size < 1e9:
        return format_float_positional(x, unique=True, trim="0")
    return format_float_scientific(x, unique=True, trim="0")


def _int_imm(p: Printer, e: E.IntImm) -> str:
    return int_literal(p, e.value, e.dtype)


def _float_imm(p: Printer, e: E.FloatImm) -> str:
    return float_literal(p, e.number, e.dtype)


def _string(p: Printer, e: E.StringImm) -> str:
    text = e.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _arith(p: Any, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    op = IN_C[type(e)]
    if t.is_bool:
        op = {"+": "|", "*": "&", "-": "^"}[op]
        return _direct(p, e, t, lambda a, b: p.from_int(f"({a} {op} {b})", t))
    if t.is_integer:
        return _direct(p, e, t, _integer_writer(p, e, t, op))
    if t.bits == 16:
        return _direct(p, e, t, lambda a, b: p.half_arith(op, a, b, t))
    return _direct(p, e, t, lambda a, b: f"({a} {op} {b})")


def _integer_writer(p: Any, e: Any, t: DType, op: str) -> Any:
    """How integers are computed with: wrapped, where they are data."""
    scalar = p.type(t.element)
    if t.bits < 32:  # C computes in int; unsigned, so that products of 16-bit values fit
        return lambda a, b: f"(({scalar})((unsigned int){a} {op} (unsigned int){b}))"
    if t.is_uint or not is_data(e, p.lets):
        return lambda a, b: f"({a} {op} {b})"
    wide = p.type(f"uint{t.bits}")
    return lambda a, b: f"(({scalar})(({wide}){a} {op} ({wide}){b}))"


def _direct(p: Any, e: Any, t: DType, write: Any) -> str:
    """An operation of two operands; on whole vectors where the language has them."""
    if t.lanes > 1 and p.native_vector(t):
        return str(p.vector_binary(e, t))
    return str(p.lanewise(e, (e.a, e.b), write))


def _divide(p: Any, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    kind = type(e)
    if t.is_float:
        return _float_division(p, e, t)
    if not divides(e, p.unknown):
        name = p.need(f"tw_any{kind.__name__.lower()}_{t.element}")
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"{name}({a}, {b})"))
    if kind in (E.FloorDiv, E.FloorMod) and t.is_int:
        name = p.need(f"tw_floor{'div' if kind is E.FloorDiv else 'mod'}_{t.element}")
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"{name}({a}, {b})"))
    op = "/" if kind in (E.Div, E.FloorDiv) else "%"
    scalar = p.type(t.element)
    if t.lanes > 1 and p.native_vector(t):
        return f"({p.expr(e.a)} {op} {p.expr(e.b)})"
    if t.bits < 32:
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"(({scalar})({a} {op} {b}))"))
    return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"({a} {op} {b})"))


def _float_division(p: Any, e: E.BinaryOp, t: DType) -> str:
    kind = type(e)
    if kind is E.Div:
        return _direct(p, e, t, lambda a, b: p.half_arith("/", a, b, t) if t.bits == 16 else
                       f"({a} / {b})")  # fmt: skip
    suffix = "" if t.bits == 64 or p.language == "OpenCL" else "f"
    if t.bits == 16:
        raise InternalError(f"{kind.__name__} of {t.text} must be legalised")
    if kind is E.Mod:
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"fmod{suffix}({a}, {b})"))
    if kind is E.FloorDiv:
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"floor{suffix}({a} / {b})"))
    if t.lanes == 1:
        a, b = p.atom(e.a), p.atom(e.b)
        return f"({a} - floor{suffix}({a} / {b}) * {b})"
    return str(p.lanewise(e, (e.a, e.b), lambda x, y: f"({x} - floor{suffix}({x} / {y}) * {y})"))


def _extreme(p: Any, e: E.BinaryOp) -> str:
    t = parse(e.dtype)
    smaller = type(e) is E.Min
    if t.is_bool:
        op = "&" if smaller else "|"
        return _direct(p, e, t, lambda a, b: p.from_int(f"({a} {op} {b})", t))
    if t.lanes > 1 and p.native_vector(t):
        return str(p.vector_extreme(e, t, smaller))
    return str(p.lanewise(e, (e.a, e.b), lambda a, b: p.extreme(a, b, t, smaller)))


def _compare(p: Any, e: E.CmpOp) -> str:
    source, op = parse(e.a.dtype), IN_C[type(e)]
    if source.lanes > 1 and p.native_vector(source):
        return str(p.vector_compare(e, source, op))
    return str(p.lanewise(e, (e.a, e.b), lambda a, b: p.compare(op, a, b, source)))


def _logic(p: Any, e: E.And | E.Or) -> str:
    t = parse(e.dtype)
    if t.lanes > 1 and p.native_vector(t):
        return f"({p.expr(e.a)} {'&' if type(e) is E.And else '|'} {p.expr(e.b)})"
    op = "&&" if type(e) is E.And else "||"
    if t.lanes > 1:
        return str(p.lanewise(e, (e.a, e.b), lambda a, b: f"({a} {op} {b})"))
    first = p.expr(e.a)
    lines, second = p.captured(e.b)
    if lines:  # the statements are evaluated in any case; a first operand that guards them decides
        return _guarded_logic(p, first, lines, second, type(e) is E.And)
    return f"({first} {op} {second})"


def _guarded_logic(p: Any, first: str, lines: list[str], second: str, both: bool) -> str:
    name = p.temp("bool", first)
    with p.block(f"if ({'' if both else '!'}{name}) {{"):
        p.paste(lines)
        p.line(f"{name} = {second};")
    return str(name)


def _not(p: Any, e: E.Not) -> str:
    t = parse(e.dtype)
    if t.lanes > 1 and p.native_vector(t):
        return f"(~{p.expr(e.a)})"
    return str(p.lanewise(e, (e.a,), lambda a: f"(!{a})"))


def _select(p: Any, e: E.Select) -> str:
    t, condition = parse(e.dtype), parse(e.condition.dtype)
    if condition.lanes == 1:
        test = p.expr(e.condition)
        return conditional(p, test, p.expr(e.true_value), p.expr(e.false_value), t)
    if p.native_vector(t):
        return str(p.vector_select(e, t))
    parts = (e.condition, e.true_value, e.false_value)
    return str(p.lanewise(e, parts, lambda c, a, b: conditional(p, c, a, b, t)))


def conditional(p: Any, test: str, a: str, b: str, t: DType) -> str:
    """A choice between two values; that of narrow integers is an int in C."""
    text = f"({test} ? {a} : {b})"
    narrow = t.is_integer and t.bits < 32 and not (t.lanes > 1 and p.native_vector(t))
    return str(p.from_int(text, t)) if narrow else text


def _cast(p: Any, e: E.Cast) -> str:
    source, target = parse(e.value.dtype), parse(e.dtype)
    if source.text == target.text:
        return str(p.expr(e.value))
    if target.lanes > 1 and p.native_vector(target):
        return str(p.vector_cast(p.expr(e.value), source, target))
    a, b = parse(source.element), parse(target.element)
    return str(p.lanewise(e, (e.value,), lambda x: p.cast(x, a, b)))


def _ramp(p: Any, e: E.Ramp) -> str:
    return str(p.make(e.dtype, p.ramp_lanes(e)))


def _broadcast(p: Any, e: E.Broadcast) -> str:
    t = parse(e.dtype)
    if parse(e.value.dtype).lanes > 1:
        raise InternalError(f"broadcast of a {e.value.dtype}")
    if t.lanes == 1:
        return str(p.expr(e.value))
    return str(p.splat(e.dtype, p.expr(e.value)))


def _shuffle(p: Any, e: E.Shuffle) -> str:
    places = [lane for v in e.vectors for lane in p.lanes_of(v)]
    picked = [places[i] for i in e.indices]
    return picked[0] if len(picked) == 1 else str(p.make(e.dtype, picked))


def _let(p: Any, e: E.Let) -> str:
    if parse(e.var.dtype).is_handle:
        p.bind_handle(e.var, e.value)
    else:
        p.env[e.var] = p.temp(e.var.dtype, p.expr(e.value), e.var.name)
        p.divisors[e.var] = p.divisor(e.value)
    return str(p.expr(e.body))


def bits(p: Any, e: E.Call) -> str:
    """Shifts and bitwise operations."""
    t, name = parse(e.dtype), e.op.name
    op = BITS[name]
    if t.lanes > 1 and p.native_vector(t):
        return f"({p.expr(e.args[0])} {op} {p.expr(e.args[1])})"
    scalar = p.type(t.element)
    if name == "tir.shift_left" and t.is_int and is_data(e, p.lets):
        wide = p.type(f"uint{max(t.bits, 32)}")
        write = lambda a, b: f"(({scalar})(({wide}){a} << {b}))"  # noqa: E731
    elif t.is_bool or t.bits < 32:
        write = lambda a, b: p.from_int(f"({a} {op} {b})", t)  # noqa: E731
    else:
        write = lambda a, b: f"({a} {op} {b})"  # noqa: E731
    return str(p.lanewise(e, e.args, write))


def bitwise_not(p: Any, e: E.Call) -> str:
    t = parse(e.dtype)
    if t.lanes > 1 and p.native_vector(t):
        return f"(~{p.expr(e.args[0])})"
    if t.is_bool:
        return str(p.lanewise(e, e.args, lambda a: f"(!{a})"))
    return str(p.lanewise(e, e.args, lambda a: p.from_int(f"(~{a})", t)))


EXPRS: dict[type, ExprRule] = {
    E.Var: _var,
    E.SizeVar: _var,
    E.IntImm: _int_imm,
    E.FloatImm: _float_imm,
    E.StringImm: _string,
    **dict.fromkeys((E.Add, E.Sub, E.Mul), _arith),
    **dict.fromkeys((E.Div, E.Mod, E.FloorDiv, E.FloorMod), _divide),
    **dict.fromkeys((E.Min, E.Max), _extreme),
    **dict.fromkeys((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE), _compare),
    **dict.fromkeys((E.And, E.Or), _logic),
    E.Not: _not,
    E.Select: _select,
    E.Cast: _cast,
    E.Ramp: _ramp,
    E.Broadcast: _broadcast,
    E.Shuffle: _shuffle,
    E.Let: _let,
}
