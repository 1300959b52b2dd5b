"""The lowering rule of integer powers on every target: repeated squaring, one select for each bit
of the exponent, so that lanes of a vector take the same steps."""

from __future__ import annotations

from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir.expr import cast, const, const_int


def as_unsigned(x: E.PrimExpr) -> E.PrimExpr:
    """An integer as the unsigned one of the same bits, at least 32 wide."""
    t = parse(x.dtype)
    unsigned = cast(parse(f"uint{t.bits}").with_lanes(t.lanes), x)
    return cast(parse(f"uint{max(t.bits, 32)}").with_lanes(t.lanes), unsigned)


class _Lets:
    """Names for values that are used more than once."""

    def __init__(self) -> None:
        self.pairs: list[tuple[E.Var, E.PrimExpr]] = []

    def name(self, name: str, value: E.PrimExpr) -> E.Var:
        var = E.Var(name, value.dtype)
        self.pairs.append((var, value))
        return var

    def around(self, body: E.PrimExpr) -> E.PrimExpr:
        for var, value in reversed(self.pairs):
            body = E.Let(var, value, body)
        return body


def int_pow(call: E.Call) -> E.PrimExpr:
    """x^n modulo 2^bits; for n below zero, 1 / x^-n rounded towards zero, or 0."""
    lets = _Lets()
    x, n = (lets.name(name, a) for name, a in zip("xn", call.args))
    exponent = call.args[1]
    known = const_int(exponent.value if isinstance(exponent, E.Broadcast) else exponent)
    bits = parse(call.dtype).bits - parse(call.dtype).is_int
    if known is not None:
        bits = known.bit_length() if known >= 0 else 0
    square, left = lets.name("square", as_unsigned(x)), lets.name("left", as_unsigned(n))
    result: E.PrimExpr = const(1, square.dtype)
    for k in range(bits):
        if k:
            square = lets.name("square", E.Mul(square, square))
        if known is None:
            more = lets.name("more", E.Mul(result, square))
            result = lets.name("power", E.Select(_bit(left, k), more, result))
        elif known >> k & 1:
            result = lets.name("power", E.Mul(result, square))
    result = cast(call.dtype, result)
    if parse(call.dtype).is_int and (known is None or known < 0):
        result = E.Select(E.LT(n, const(0, n.dtype)), _inverse(x, left), result)
    return lets.around(result)


def _bit(x: E.PrimExpr, k: int) -> E.PrimExpr:
    masked = E.Call(x.dtype, "tir.bitwise_and", (x, const(1 << k, x.dtype)))
    return E.NE(masked, const(0, x.dtype))


def _inverse(x: E.PrimExpr, n: E.PrimExpr) -> E.PrimExpr:
    """x^n for n below zero: of 1 and -1 only it is not 0."""
    zero, one, minus = (const(v, x.dtype) for v in (0, 1, -1))
    sign = E.Select(_bit(n, 0), minus, one)
    return E.Select(E.EQ(x, one), one, E.Select(E.EQ(x, minus), sign, zero))
