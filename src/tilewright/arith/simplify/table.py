"""Which rule simplifies which node: linear forms for int32 and int64, expressions for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.fold import fold_binary, wrap_int
from ...loopir.iter import ProducerLoad, Reduce
from ..assume import bind_range
from ..emit import emit
from ..forms import INF, LIMITS, LINEAR_TYPES, ZERO, Lin, NarrowLin, scaled
from ..wrap import in_type, is_data
from .add import sum_form
from .cmp import comparison
from .divmod import divide, floordiv_form, floormod_form, modulo
from .logic import and_form, bool_var, constant_truth, not_form, or_form
from .minmax import max_form, min_form
from .mul import mul_form
from .select import if_then_else, let, select
from .vector import vector_arithmetic

if TYPE_CHECKING:
    from ..context import Context

Handler = Callable[..., Any]


def _opaque(ctx: Context, e: Any) -> Lin:
    """The atom of an expression whose parts are simplified."""
    return Lin({ctx.space.opaque(e): 1}, 0)


def _rebuilt(ctx: Context, e: Any) -> Lin:
    """An int node that the other table simplifies to an expression."""
    result = EXPR_RULES[type(e)](ctx, e)
    if result is e or type(result) is type(e):
        return _opaque(ctx, result)
    return ctx.lin(result)


def _select_form(ctx: Context, e: Any) -> Lin:
    result = select(ctx, e)
    return _opaque(ctx, result) if type(result) is E.Select else ctx.lin(result)


def _var_form(ctx: Context, e: Any) -> Lin:
    return ctx.var(e)


def _trunc_form(ctx: Context, e: Any) -> Lin:
    """Division towards zero: that of rounding down, where both sides are not negative."""
    x, y = ctx.lin(e.a), ctx.lin(e.b)
    (x_low, x_high), (y_low, y_high) = ctx.lin_bound(x), ctx.lin_bound(y)
    quotient = type(e) is E.Div
    if x_low >= 0 and y_low > 0:
        return (divide if quotient else modulo)(ctx, x, y, e.dtype)
    if x_low == x_high and y_low == y_high and y_low:
        value = fold_binary(type(e).fold_name, e.dtype, int(x_low), int(y_low))
        if value is not None:
            return Lin({}, int(value))
    c = y.const
    if not y.terms and c and not any(k % c for k in (*x.terms.values(), x.const)):
        whole = Lin({a: k // c for a, k in x.terms.items()}, x.const // c)
        return in_type(ctx, whole, e.dtype) if quotient else ZERO
    if not y.terms and c and not is_data(ctx, x):
        if quotient and x_low > -INF and x_high < INF:
            ends = {fold_binary("div", e.dtype, int(v), c) for v in (x_low, x_high)}
            if len(ends) == 1 and None not in ends:
                return Lin({}, int(ends.pop() or 0))
        g = math.gcd(c, x.const, *x.terms.values())
        if g > 1:
            part = emit(Lin({t: k // g for t, k in x.terms.items()}, x.const // g), e.dtype)
            less = ctx.lin(type(e)(part, E.const(c // g, e.dtype)))
            return less if quotient else scaled(less, g)
    a, b = ctx.simp(e.a), ctx.simp(e.b)
    nested = _twice_divided(a, c) if quotient and not y.terms else None
    if nested is not None:
        return ctx.lin(nested)
    return _opaque(ctx, e if a is e.a and b is e.b else type(e)(a, b))


def _twice_divided(a: Any, c: int) -> E.PrimExpr | None:
    """x / d / c towards zero as x / (d * c), for divisors above zero; None for another `a`."""
    d = E.const_int(a.b) if type(a) is E.Div else None
    if d is None or d < 1 or c < 1 or d * c > LIMITS[a.dtype][1]:
        return None
    return E.Div(a.a, E.const(d * c, a.dtype))


def _cast_form(ctx: Context, e: Any) -> Lin:
    source = e.value.dtype
    if source in LINEAR_TYPES:
        x = ctx.lin(e.value)
        if source == e.dtype or (e.dtype == "int64" and not x.terms):
            return x
        if e.dtype == "int64":
            return NarrowLin(x.terms, x.const)
        if type(x) is NarrowLin:
            return x
        if _fits_int32(ctx, x) and _each_fits_int32(ctx, x):
            return x
    result = cast(ctx, e)
    return _opaque(ctx, result) if type(result) is E.Cast else ctx.lin(result)


def _fits_int32(ctx: Context, x: Lin) -> bool:
    low, high = ctx.lin_bound(x)
    least, most = LIMITS["int32"]
    return low >= least and high <= most


def _each_fits_int32(ctx: Context, x: Lin) -> bool:
    """Whether a sum may be of int32, its int64 parts converted one by one: no part and no sum of
    parts leaves int32."""
    if all(a.dtype == "int32" for a in x.terms):
        return True
    most: float = abs(x.const)
    for atom, k in x.terms.items():
        low, high = ctx.bound(atom)
        if atom.dtype != "int32" and not _fits_int32(ctx, Lin({atom: 1}, 0)):
            return False
        most += abs(k) * max(abs(low), abs(high))
    return most <= LIMITS["int32"][1]


def cast(ctx: Context, e: Any) -> Any:
    value = ctx.simp(e.value)
    if value is e.value and type(value) not in (E.IntImm, E.FloatImm, E.Broadcast):
        return e if value.dtype != e.dtype else value
    return E.cast(e.dtype, value)


def call(ctx: Context, e: Any) -> Any:
    name = e.op.name
    if name == "tir.if_then_else":
        return if_then_else(ctx, e)
    args = tuple([ctx.simp(a) for a in e.args])
    if name == "tir.likely" and constant_truth(args[0]) is not None:
        return args[0]
    folded = _folded_bits(e.op, e.dtype, args)
    if folded is not None:
        return folded
    if all(a is b for a, b in zip(args, e.args)):
        return e
    return E.Call(e.dtype, e.op, args)


def _folded_bits(op: E.Op, dtype: str, args: tuple[Any, ...]) -> Any | None:
    rule = op.row.fold
    if op.name == "tir.clz" and type(args[0]) is E.IntImm:
        bits = parse(args[0].dtype).bits
        return E.IntImm(dtype, bits - (args[0].value % (1 << bits)).bit_length())
    if rule is None or len(args) != 2 or type(args[1]) is not E.IntImm:
        return None
    right = args[1].value
    if "shift" in op.name and not 0 <= right < parse(dtype).bits:
        return None
    if type(args[0]) is E.IntImm:
        return E.IntImm(dtype, wrap_int(dtype, rule(args[0].value, right)))
    if right == 0:
        zero = {"tir.bitwise_and": args[1], "tir.int_pow": E.const(1, dtype)}
        return zero.get(op.name, args[0])
    return None


def load(ctx: Context, e: Any) -> Any:
    indices = tuple([ctx.simp(i) for i in e.indices])
    predicate = None if e.predicate is None else ctx.simp(e.predicate)
    if predicate is e.predicate and all(a is b for a, b in zip(indices, e.indices)):
        return e
    return E.BufferLoad(e.buffer, indices, predicate)


def producer_load(ctx: Context, e: Any) -> Any:
    indices = tuple([ctx.simp(i) for i in e.indices])
    if all(a is b for a, b in zip(indices, e.indices)):
        return e
    return ProducerLoad(e.producer, indices)


def reduction(ctx: Context, e: Any) -> Any:
    """A reduction with simplified parts. Its axes are known to lie in their domains, where those
    are constant: what is told of a variable outlives conditions that ends might rest on."""
    for axis in e.axis:
        if axis.dom is not None and type(axis.dom.min) is type(axis.dom.extent) is E.IntImm:
            bind_range(ctx, axis.var, axis.dom)
    source = tuple([ctx.simp(s) for s in e.source])
    init = tuple([ctx.simp(s) for s in e.init])
    condition = ctx.simp(e.condition)
    same = condition is e.condition and all(a is b for a, b in zip(source, e.source))
    if same and all(a is b for a, b in zip(init, e.init)):
        return e
    return Reduce(e.combiner, source, e.axis, condition, e.value_index, init)


def arithmetic(ctx: Context, e: Any) -> Any:
    """Floats, vectors, and integers that wrap: constants and identities that are always exact."""
    if parse(e.dtype).lanes > 1:
        done = vector_arithmetic(ctx, e)
        if done is not None:
            return done
    a, b = ctx.simp(e.a), ctx.simp(e.b)
    t = type(e)
    if type(a) in (E.IntImm, E.FloatImm) and type(b) in (E.IntImm, E.FloatImm):
        value = fold_binary(t.fold_name, e.dtype, a.number, b.number)
        if value is not None:
            return E.const(value, e.dtype)
    element = parse(e.dtype)
    if E.is_const(b, 1) and t in (E.Mul, E.Div, E.FloorDiv):
        return a
    if E.is_const(a, 1) and t is E.Mul:
        return b
    if not element.is_float:
        if E.is_const(b, 0) and t in (E.Add, E.Sub):
            return a
        if E.is_const(a, 0) and t is E.Add:
            return b
        if t is E.Mul and (E.is_const(a, 0) or E.is_const(b, 0)):
            return a if E.is_const(a, 0) else b
        if t is E.Sub and ctx.space.uid(a) == ctx.space.uid(b):
            return E.const(0, e.dtype)
    if t in (E.Min, E.Max) and ctx.space.uid(a) == ctx.space.uid(b):
        return a
    return e if a is e.a and b is e.b else t(a, b)


def ramp(ctx: Context, e: Any) -> Any:
    base, stride = ctx.simp(e.base), ctx.simp(e.stride)
    if E.is_const(stride, 0) and parse(base.dtype).lanes == 1:
        return E.Broadcast(base, e.lanes)
    return e if base is e.base and stride is e.stride else E.Ramp(base, stride, e.lanes)


def broadcast(ctx: Context, e: Any) -> Any:
    value = ctx.simp(e.value)
    return e if value is e.value else E.Broadcast(value, e.lanes)


def shuffle(ctx: Context, e: Any) -> Any:
    vectors = tuple([ctx.simp(v) for v in e.vectors])
    if all(a is b for a, b in zip(vectors, e.vectors)):
        return e
    return E.Shuffle(vectors, e.indices)


LIN_RULES: dict[type, Handler] = {
    **dict.fromkeys((E.Add, E.Sub, E.IntImm), sum_form),
    **dict.fromkeys((E.Var, E.SizeVar), _var_form),
    E.Mul: mul_form,
    E.FloorDiv: floordiv_form,
    E.FloorMod: floormod_form,
    **dict.fromkeys((E.Div, E.Mod), _trunc_form),
    E.Min: min_form,
    E.Max: max_form,
    E.Select: _select_form,
    E.Cast: _cast_form,
    **dict.fromkeys((E.Call, E.Let, E.BufferLoad, ProducerLoad, Reduce, E.Shuffle), _rebuilt),
}

EXPR_RULES: dict[type, Handler] = {
    **dict.fromkeys((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE), comparison),
    **dict.fromkeys(
        (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max), arithmetic
    ),
    **dict.fromkeys((E.Var, E.SizeVar), bool_var),
    E.And: and_form,
    E.Or: or_form,
    E.Not: not_form,
    E.Select: select,
    E.Cast: cast,
    E.Call: call,
    E.Let: let,
    E.BufferLoad: load,
    ProducerLoad: producer_load,
    Reduce: reduction,
    E.Ramp: ramp,
    E.Broadcast: broadcast,
    E.Shuffle: shuffle,
}
