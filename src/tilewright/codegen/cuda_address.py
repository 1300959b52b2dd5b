"""Addresses that inline PTX takes: a register and a constant.

PTX writes an address as [register + constant], and the machine adds the constant for nothing. The
operand of an asm statement is a register alone, so what is added before it takes an instruction,
and a register, for each access: a tile's sixteen fragments lie at sixteen constants from one place.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir.expr import const, const_int
from ..loopir.visit import free_vars
from .c_calls import element_address, place_of
from .c_family import bare

_POINTERS = ("tir.address_of", "tir.tvm_access_ptr")
_MOST = 1 << 20  # bytes; constants of an instruction have 24 bits and a sign
_NEAR = 1 << 12  # those of asynchronous copies, of the address in device memory


def divided(p: Any, e: Any, more: Any = 0, constant: bool = True) -> tuple[str, int]:
    """A pointer, moved by `more` elements, as C's text and the constant number of bytes behind it
    that the text leaves out; 0 bytes unless `constant`."""
    if not (isinstance(e, E.Call) and e.op.name in _POINTERS):
        offset = p.expr(E.convert(more))
        text = p.expr(e)
        return bare(text) if offset == "0" else f"{text} + {offset}", 0
    data, element, at = place_of(e)
    if not constant:
        return bare(element_address(p, data, element, at + more)), 0
    rest, number = _without_constant(at + more)
    size = parse(element).nbytes
    if abs(number) * size > _MOST:
        rest, number = at + more, 0
    rest, number = _parted(p, rest, number, _NEAR // size)
    return bare(element_address(p, data, element, rest)), number * size


def _parted(p: Any, e: Any, number: int, near: int) -> tuple[Any, int]:
    """A sum with what is the same all through a thread's loops first, as one term, which compilers
    then compute before them: they keep the order of sums. Of the constant behind it that term takes
    what instructions have no room for, unless the rest is a counter, which has one register for all
    such sums."""
    fixed: list[Any] = []
    moved: list[Any] = []
    for term in _terms(e):
        is_fixed = all(v in p.threads for v in free_vars(term))
        (fixed if is_fixed else moved).append(term)
    if not fixed or not moved:
        return e, number
    if not all(type(x.a if type(x) is E.Mul else x) is E.Var for x in moved):
        far = number // near * near
        number -= far
        fixed += [const(far, e.dtype)] if far else []
    return reduce(E.Add, fixed) + reduce(E.Add, moved), number


@recursive
def _terms(e: Any) -> list[Any]:
    return [*_terms(e.a), *_terms(e.b)] if type(e) is E.Add else [e]


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
