"""Arithmetic that keeps a ramp of indices a ramp, so that vectors stay contiguous loads and
stores."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.copies import fold_pair
from ..loopir.expr import const


def lanes_of(e: Any) -> int:
    return parse(e.dtype).lanes


def broadcast(e: Any, lanes: int) -> Any:
    """`e` in all lanes, unless it is a vector already."""
    return e if parse(e.dtype).lanes == lanes else E.Broadcast(e, lanes)


@recursive
def divisibility(e: Any) -> tuple[int, int]:
    """(m, r) such that e = r modulo m; (0, r) for the constant r, (1, 0) where nothing is known."""
    kind = type(e)
    if kind is E.IntImm:
        return 0, e.value
    if kind is E.Add or kind is E.Sub:
        (ma, ra), (mb, rb) = divisibility(e.a), divisibility(e.b)
        m = gcd(ma, mb)
        r = ra + rb if kind is E.Add else ra - rb
        return m, r % m if m else r
    if kind is E.Mul and type(e.b) is E.IntImm:
        m, r = divisibility(e.a)
        c = e.b.value
        return abs(m * c), (r * c) % abs(m * c) if m * c else r * c
    return 1, 0


def _add(a: Any, b: Any) -> Any:
    if type(b) is E.Ramp and type(a) is not E.Ramp:
        a, b = b, a
    if type(a) is not E.Ramp:
        return None
    if type(b) is E.Ramp:
        stride = fold_pair(E.Add, a.stride, b.stride)
        return E.Ramp(fold_pair(E.Add, a.base, b.base), stride, a.lanes)
    if lanes_of(b) == 1:
        return E.Ramp(fold_pair(E.Add, a.base, b), a.stride, a.lanes)
    return None


def _sub(a: Any, b: Any) -> Any:
    if type(a) is E.Ramp and type(b) is E.Ramp:
        stride = fold_pair(E.Sub, a.stride, b.stride)
        return E.Ramp(fold_pair(E.Sub, a.base, b.base), stride, a.lanes)
    if type(a) is E.Ramp and lanes_of(b) == 1:
        return E.Ramp(fold_pair(E.Sub, a.base, b), a.stride, a.lanes)
    if type(b) is E.Ramp and lanes_of(a) == 1:
        stride = fold_pair(E.Sub, const(0, b.stride.dtype), b.stride)
        return E.Ramp(fold_pair(E.Sub, a, b.base), stride, b.lanes)
    return None


def _mul(a: Any, b: Any) -> Any:
    if type(b) is E.Ramp:
        a, b = b, a
    if type(a) is E.Ramp and lanes_of(b) == 1:
        return E.Ramp(fold_pair(E.Mul, a.base, b), fold_pair(E.Mul, a.stride, b), a.lanes)
    return None


def _within_block(a: Any, b: Any) -> int | None:
    """The divisor, if all lanes of the ramp `a` lie in one block of that size, or on multiples of
    the block's size apart (then negative)."""
    if type(a) is not E.Ramp or type(b) is not E.IntImm or type(a.stride) is not E.IntImm:
        return None
    block, stride = b.value, a.stride.value
    if block <= 0:
        return None
    if stride % block == 0:
        return -block
    m, r = divisibility(a.base)
    if stride > 0 and m % block == 0 and r % block + stride * (a.lanes - 1) < block:
        return block
    return None


def _floordiv(a: Any, b: Any) -> Any:
    block = _within_block(a, b)
    if block is None:
        return None
    base = fold_pair(E.FloorDiv, a.base, b)
    if block > 0:
        return base
    return E.Ramp(base, fold_pair(E.FloorDiv, a.stride, b), a.lanes)


def _floormod(a: Any, b: Any) -> Any:
    block = _within_block(a, b)
    if block is None:
        return None
    base = fold_pair(E.FloorMod, a.base, b)
    return E.Ramp(base, a.stride, a.lanes) if block > 0 else base


RAMP_RULES: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: _add,
    E.Sub: _sub,
    E.Mul: _mul,
    E.FloorDiv: _floordiv,
    E.FloorMod: _floormod,
}
