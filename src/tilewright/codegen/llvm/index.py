"""Index arithmetic in i64.

Index expressions are int32 in the program; their arithmetic is assumed not to overflow, so it is
done in i64 with `nsw` from the start: loop counters are i64 and addresses need no extensions. Data
(loopir/data.py) is computed with in its own type, where it wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.deep import recursive
from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.data import is_data
from .emitter import Emitter
from .types import is_constant

Ramp = tuple[str, str]


def add64(f: Emitter, a: str, b: str) -> str:
    if a == "0":
        return b
    if b == "0":
        return a
    if is_constant(a) and is_constant(b):
        return str(int(a) + int(b))
    return f.op(f"add nsw i64 {a}, {b}")


def sub64(f: Emitter, a: str, b: str) -> str:
    if b == "0":
        return a
    if is_constant(a) and is_constant(b):
        return str(int(a) - int(b))
    if is_constant(b):
        return f.op(f"add nsw i64 {a}, {-int(b)}")
    return f.op(f"sub nsw i64 {a}, {b}")


def mul64(f: Emitter, a: str, b: str) -> str:
    if a == "0" or b == "0":
        return "0"
    if a == "1":
        return b
    if b == "1":
        return a
    if is_constant(a) and is_constant(b):
        return str(int(a) * int(b))
    return f.op(f"mul nsw i64 {a}, {b}")


def index(f: Emitter, e: E.PrimExpr) -> str:
    """A scalar integer expression as an i64 operand.

    What is data wraps in its own type. A sum of data and an index does not: as an address it would
    be out of bounds, since it is not twice as far from zero as its type goes.
    """
    lets = f.module.lets
    if type(e) in _LEAVES or not is_data(e, lets):
        return _plain(f, e)
    if not isinstance(e, (E.Add, E.Sub)) or parse(e.dtype).is_uint or parse(e.dtype).bits < 32:
        return f.extend(f.expr(e), e.dtype)
    if is_data(e.a, lets) and is_data(e.b, lets):
        return f.extend(f.expr(e), e.dtype)
    return (add64 if type(e) is E.Add else sub64)(f, index(f, e.a), index(f, e.b))


def _plain(f: Emitter, e: E.PrimExpr) -> str:
    if parse(e.dtype).bits >= 32 and not e.dtype.startswith("u"):
        rule = f.index_table.get(type(e))
        if rule is not None:
            return rule(f, e)
    return f.extend(f.expr(e), e.dtype)


def _var(f: Emitter, e: E.Var) -> str:
    known = f.wide.get(e)
    return known if known is not None else f.extend(f.expr(e), e.dtype)


def _add(f: Emitter, e: E.Add) -> str:
    return add64(f, _plain(f, e.a), _plain(f, e.b))


def _sub(f: Emitter, e: E.Sub) -> str:
    return sub64(f, _plain(f, e.a), _plain(f, e.b))


def _mul(f: Emitter, e: E.Mul) -> str:
    return mul64(f, _plain(f, e.a), _plain(f, e.b))


def _extreme(f: Emitter, e: E.BinaryOp) -> str:
    name = "smin" if type(e) is E.Min else "smax"
    a, b = _plain(f, e.a), _plain(f, e.b)
    if is_constant(a) and is_constant(b):
        return str(min(int(a), int(b)) if name == "smin" else max(int(a), int(b)))
    f.module.declare(f"declare i64 @llvm.{name}.i64(i64, i64)")
    return f.op(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")


def _select(f: Emitter, e: E.Select) -> str:
    condition = f.expr(e.condition)
    a, b = _plain(f, e.true_value), _plain(f, e.false_value)
    return f.op(f"select i1 {condition}, i64 {a}, i64 {b}")


def _cast(f: Emitter, e: E.Cast) -> str:
    source = parse(e.value.dtype)
    if source.is_int and source.bits >= 32 and parse(e.dtype).bits >= source.bits:
        return _plain(f, e.value)
    return f.extend(f.expr(e), e.dtype)


def _call(f: Emitter, e: E.Call) -> str:
    name = e.op.name
    if name == "tir.likely":
        return _plain(f, e.args[0])
    if name in _BITS and parse(e.args[0].dtype).lanes == 1:
        a, b = _plain(f, e.args[0]), _plain(f, e.args[1])
        return f.op(f"{_BITS[name]} i64 {a}, {b}")
    return f.extend(f.expr(e), e.dtype)


_BITS = {"tir.shift_right": "ashr", "tir.bitwise_and": "and", "tir.shift_left": "shl nsw"}

_LEAVES = frozenset((E.IntImm, E.Var, E.SizeVar))
INDEX: dict[type, Callable[[Emitter, Any], str]] = {
    E.Var: _var,
    E.SizeVar: _var,
    E.IntImm: lambda f, e: str(e.value),
    E.Add: _add,
    E.Sub: _sub,
    E.Mul: _mul,
    E.Min: _extreme,
    E.Max: _extreme,
    E.Select: _select,
    E.Cast: _cast,
    E.Call: _call,
}


def index_like(f: Emitter, e: E.PrimExpr) -> bool:
    """Whether a scalar is arithmetic on indices only: such is best done in i64."""
    stack: list[Any] = [e]
    while stack:
        x = stack.pop()
        kind = type(x)
        if kind is E.IntImm:
            continue
        if kind in _LEAVES:
            if x in f.module.lets:
                return False
        elif kind in _PAIRS:
            stack.append(x.a)
            stack.append(x.b)
        elif kind is E.Call and (x.op.name in _BITS or x.op.name == "tir.likely"):
            stack.extend(x.args)
        else:
            return False
    return True


_PAIRS = {E.Add, E.Sub, E.Mul, E.Min, E.Max, E.FloorDiv, E.FloorMod, E.Div, E.Mod}


@recursive
def ramp_of(f: Emitter, e: Any) -> Ramp | None:
    """Base and stride (i64 operands) of a vector index in arithmetic progression, else None."""
    kind = type(e)
    if kind is E.Ramp:
        return index(f, e.base), index(f, e.stride)
    if kind is E.Broadcast:
        return index(f, e.value), "0"
    if kind is E.Cast and _widens(e):
        return ramp_of(f, e.value)
    if kind not in (E.Add, E.Sub, E.Mul) or parse(e.dtype).bits < 32:
        return None
    a = ramp_of(f, e.a)
    if a is None:
        return None
    b = ramp_of(f, e.b)
    if b is None:
        return None
    if is_data(e.a, f.module.lets) and (kind is E.Mul or is_data(e.b, f.module.lets)):
        return None  # lanes may wrap between each other
    if kind is E.Mul:
        if a[1] == "0":
            a, b = b, a
        if b[1] != "0":
            return None
        return mul64(f, a[0], b[0]), mul64(f, a[1], b[0])
    combine = add64 if kind is E.Add else sub64
    return combine(f, a[0], b[0]), combine(f, a[1], b[1])


def _widens(e: Any) -> bool:
    source, target = parse(e.value.dtype), parse(e.dtype)
    return source.is_int and target.is_int and 32 <= source.bits <= target.bits


def split_gather(f: Emitter, e: E.PrimExpr) -> tuple[str, str, str]:
    """A vector index as a scalar i64 part and the operand and type of the rest.

    Lanes of the rest are signed (unsigned ones are widened), as address arithmetic takes them.
    """
    terms, scalars, rest = [e], "0", []
    while terms:
        x = terms.pop()
        if type(x) is E.Add and parse(x.dtype).is_int and parse(x.dtype).bits >= 32:
            terms += [x.b, x.a]
        elif type(x) is E.Broadcast and not is_data(x, f.module.lets):
            scalars = add64(f, scalars, index(f, x.value))
        else:
            rest.append(x)
    t = parse(e.dtype)
    operand = f.expr(rest[0])
    kind = f.type(e.dtype)
    for x in rest[1:]:
        operand = f.op(f"add {kind} {operand}, {f.expr(x)}")
    if t.is_uint or t.is_bool:
        wide = f"<{t.lanes} x i64>"
        operand, kind = f.op(f"zext {kind} {operand} to {wide}"), wide
    return scalars, operand, kind


@recursive
def divisor(e: Any) -> int:
    """A number that divides an index expression for certain (0: the expression is 0)."""
    kind = type(e)
    if kind is E.IntImm:
        return abs(int(e.value))
    if kind is E.Mul:
        return min(divisor(e.a) * divisor(e.b), 1 << 20)
    if kind in (E.Add, E.Sub):
        a, b = divisor(e.a), divisor(e.b)
        while b:
            a, b = b, a % b
        return a
    return 1
