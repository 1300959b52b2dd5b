"""Addresses that inline PTX takes: a register and a constant.

PTX writes an address as [register + constant], and the machine adds the constant for nothing. The
operand of an asm statement is a register alone, so what is added before it takes an instruction,
and a register, for each access: a tile's sixteen fragments lie at sixteen constants from one place.
"""

from __future__ import annotations

from typing import Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.expr import const, const_int
from .c_calls import element_address, place_of
from .c_family import bare

_POINTERS = ("tir.address_of", "tir.tvm_access_ptr")
_MOST = 1 << 20  # bytes; constants of an instruction have 24 bits and a sign


def divided(p: Any, e: Any, more: Any = 0, constant: bool = True) -> tuple[str, int]:
    """A pointer, moved by `more` elements, as C's text and the constant number of bytes behind it
    that the text leaves out; 0 bytes unless `constant`."""
    if not (isinstance(e, E.Call) and e.op.name in _POINTERS):
        offset = p.expr(E.convert(more))
        text = p.expr(e)
        return bare(text) if offset == "0" else f"{text} + {offset}", 0
    data, element, at = place_of(e)
    rest, number = _without_constant(at + more) if constant else (at + more, 0)
    nbytes = number * parse(element).nbytes
    if abs(nbytes) > _MOST:
        rest, nbytes = at + more, 0
    return bare(element_address(p, data, element, rest)), nbytes


@recursive
def _without_constant(e: Any) -> tuple[Any, int]:
    """(a sum without its constant, that constant)"""
    value = const_int(e)
    if value is not None:
        return const(0, e.dtype), value
    if type(e) in (E.Add, E.Sub):
        (a, first), (b, second) = _without_constant(e.a), _without_constant(e.b)
        if type(e) is E.Sub:
            return (a if const_int(b) == 0 else E.Sub(a, b)), first - second
        if const_int(a) == 0:
            return b, first + second
        return (a if const_int(b) == 0 else E.Add(a, b)), first + second
    times = const_int(e.b) if type(e) is E.Mul else None
    if times is not None:
        rest, constant = _without_constant(e.a)
        return (E.Mul(rest, e.b) if constant else e), constant * times
    return e, 0
