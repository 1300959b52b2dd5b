"""`tvm.topi.random`: numbers that look random, by hashing a counter (Threefry), the same on every
machine.

A generator is ten words of uint64: four of a key, two of a path (which splits led here), two of a
counter, two with one bit, where the path's next step is written. Salmon and others: Parallel random
numbers: as easy as 1, 2, 3, SC 2011; Claessen, Palka: Splittable pseudorandom number generators
using cryptographic hashing, Haskell 2013; constants of The Skein hash function family, 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..base.face import face
from ..loopir import op as O
from ..loopir.expr import cast, const
from ..loopir.ir_builder import IRBuilder, create
from ..tensor.compute import compute
from ..tensor.extern import extern
from ..tensor.tensor import Tensor
from .lines import each, variable
from .utils import get_const_int, ravel_index, unravel_index

WORD = "uint64"
_TURNS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_LAST = 2**64 - 1


def _word(value: int) -> Any:
    return const(value, WORD)


def _hash(ib: IRBuilder, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """Twenty rounds of Threefry of four words."""
    parity: Any = _word(_PARITY)
    for k in key:
        parity = O.bitwise_xor(parity, k)
    keys = [*key, ib.let("parity", parity)]
    words = list(counter)
    for stage in range(5):
        words = [w + keys[(stage + n) % 5] for n, w in enumerate(words)]
        words[3] = words[3] + _word(stage)
        for turn in range(4):
            new: list[Any] = []
            for pair in (0, 1):
                a, b = words[2 * pair], words[2 * pair + 1]
                r = _TURNS[(4 * stage + turn) % 8][pair]
                total = ib.let("total", a + b)
                turned = O.bitwise_or(O.shift_left(b, _word(r)), O.shift_right(b, _word(64 - r)))
                new += [total, ib.let("mixed", O.bitwise_xor(total, turned))]
            words = [new[0], new[3], new[2], new[1]]
    return words


def _halved(a: Any, b: Any) -> tuple[Any, Any]:
    """The one bit of two words, one place to the right."""
    one, zero, top = _word(1), _word(0), _word(1 << 63)
    low = O.select(a.equal(one), top, O.select(a.equal(zero), O.shift_right(b, one), zero))
    return O.select(a.equal(one), zero, O.shift_right(a, one)), low


def _check(gen: Tensor) -> None:
    if gen.dtype != WORD or [get_const_int(d) for d in gen.shape] != [10]:
        raise TilewrightError(f"a generator is ten words of uint64, got {gen!r}")


def threefry_generate(gen: Tensor, out_shape: Sequence[Any]) -> list[Tensor]:
    """[the generator after it, numbers of uint64 of `out_shape`]."""
    _check(gen)
    shape = [get_const_int(d) for d in out_shape]
    size = prod(shape)
    lines, rest = divmod(size, 4)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        old, new, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        state = ib.allocate(WORD, 10, name="state", scope="global")
        with ib.if_scope(old[7] < _word(_LAST) - _word(size)):
            for k in range(10):
                state[k] = old[k]
        with ib.else_scope():
            _renew(ib, old, state)
        for k in range(10):
            new[k] = _word(0) if k == 6 else state[k]

        def line(n: Any, step: Any, count: int) -> None:
            key = [ib.let("key", state[k]) for k in range(4)]
            counter = [state[4 + k] + cast(WORD, step) for k in range(4)]
            for k, value in enumerate(_hash(ib, key, counter)[:count]):
                out[tuple(unravel_index(n * 4 + k, shape))] = value

        with ib.for_range(0, lines, name="line") as n:
            line(n, n, 4)
        if rest:  # numbers of a line of its own
            state[7] = state[7] + _word(4 * lines)
            line(const(lines), const(0), rest)
        new[7] = state[7] + _word(4 if rest else size)
        return ib.get()

    found: list[Tensor] = extern(
        [(10,), shape], [gen], body, "threefry_generate", [WORD, WORD], tag="threefry_generate"
    )
    return found


def _renew(ib: IRBuilder, old: Any, state: Any) -> None:
    """A counter from zero on: along another path, or with another key where there is none left."""
    with ib.if_scope(O.all(old[8].equal(_word(0)), old[9].equal(_word(0)))):
        full = [old[4], old[5], _word(_LAST), _word(_LAST)]
        for k, value in enumerate(_hash(ib, [old[k] for k in range(4)], full)):
            state[k] = value
        for k, start in enumerate((0, 0, 0, 0, 1 << 63, 0)):
            state[4 + k] = _word(start)
    with ib.else_scope():
        for k in range(4):
            state[k] = old[k]
        state[4] = O.bitwise_or(old[4], old[8])
        state[5] = O.bitwise_or(old[5], old[9])
        state[6] = state[7] = _word(0)
        state[8], state[9] = _halved(old[8], old[9])


def threefry_split(gen: Tensor) -> list[Tensor]:
    """Two generators whose numbers have nothing to do with each other."""
    _check(gen)

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        old, left, right = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with ib.if_scope(O.all(old[8].equal(_word(0)), old[9].equal(_word(0)))):
            key = [old[k] for k in range(4)]
            for k, value in enumerate(_hash(ib, key, [old[4 + k] for k in range(4)])):
                left[k] = value
            for k, start in enumerate((0, 0, 0, 0, 1 << 62, 0)):
                left[4 + k] = _word(start)
            for k in range(10):
                right[k] = left[k]
            right[4] = _word(1 << 63)
        with ib.else_scope():
            for k in range(6):
                left[k] = old[k]
            left[6] = left[7] = _word(0)
            left[8], left[9] = _halved(old[8], old[9])
            for k in range(10):
                right[k] = left[k]
            right[4] = O.bitwise_or(old[4], old[8])
            right[5] = O.bitwise_or(old[5], old[9])
        return ib.get()

    found: list[Tensor] = extern(
        [(10,), (10,)], [gen], body, "threefry_split", [WORD, WORD], tag="threefry_split"
    )
    return found


def _fraction(word: Any, dtype: str) -> Any:
    """A number in [0, 1): the highest bits of the lower part of a word that is as wide as the
    number become the digits of one in [1, 2)."""
    t = parse(dtype)
    digits = {16: 10, 32: 23, 64: 52}[t.bits]
    kind = f"uint{t.bits}"
    high = O.shift_right(cast(kind, word), const(t.bits - digits, kind))
    one = const({16: 15, 32: 127, 64: 1023}[t.bits] << digits, kind)
    return O.reinterpret(dtype, O.bitwise_or(high, one)) - const(1, dtype)


def _value(x: Any, dtype: str) -> Any:
    """A tensor without dimensions, an expression or a number."""
    return cast(dtype, x() if isinstance(x, Tensor) else x)


def uniform(
    gen: Tensor, low: Any, high: Any, out_shape: Sequence[Any], out_dtype: str
) -> list[Tensor]:
    """[the generator after it, numbers in [low, high) of `out_shape`]; low and high are tensors
    without dimensions, or expressions."""
    shape = [get_const_int(d) for d in out_shape]
    new, words = threefry_generate(gen, (prod(shape),))

    def element(*i: Any) -> Any:
        share = _fraction(words(ravel_index(i, shape) if i else 0), out_dtype)
        start, end = _value(low, out_dtype), _value(high, out_dtype)
        return share * (end - start) + start

    numbers: Tensor = compute(shape, element, "uniform", "injective")
    return [new, numbers]


def normal(
    gen: Tensor, mean: Any, scale: Any, out_shape: Sequence[Any], out_dtype: str
) -> list[Tensor]:
    """[the generator after it, normally distributed numbers of `out_shape`], by Box and Muller's
    method; mean and scale are tensors without dimensions, or expressions."""
    shape = [get_const_int(d) for d in out_shape]
    size = prod(shape)
    new, words = threefry_generate(gen, (2 * size,))

    def element(*i: Any) -> Any:
        n: Any = ravel_index(i, shape) if i else const(0)
        u, v = (_fraction(words(k), out_dtype) for k in (n, n + size))
        one = const(1, out_dtype)
        length = O.sqrt(const(-2, out_dtype) * O.log(one - u))
        value = length * O.sin(const(2 * pi, out_dtype) * v)
        return value * _value(scale, out_dtype) + _value(mean, out_dtype)

    numbers: Tensor = compute(shape, element, "normal", "injective")
    return [new, numbers]


def multinomial(gen: Tensor, probs: Tensor, num_samples: Any) -> list[Tensor]:
    """[the generator after it, (..., num_samples) places along the last dimension of probs, drawn
    by their share of its sum], int32; the same place may come again. What is below zero is never
    drawn. Shares and what is drawn by are of float32."""
    count = get_const_int(num_samples)
    *head, size = [get_const_int(d) for d in probs.shape]
    shape = [*head, count]
    new, words = threefry_generate(gen, (prod(shape),))
    kind = "float32"

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        p, w, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with each(ib, prod(shape), prod(shape) * size) as n:
            at = unravel_index(n, shape)

            def share(k: Any) -> Any:
                return O.max(cast(kind, p[(*at[:-1], k)]), const(0, kind))

            total, below = (variable(ib, kind, const(0, kind), x) for x in ("total", "below"))
            place = variable(ib, "int32", 0, "place")
            with ib.for_range(0, size, name="k") as k:
                total[0] = total[0] + share(k)
            wanted = ib.let("wanted", _fraction(w[n], kind))
            with ib.for_range(0, size, name="k") as k:
                below[0] = below[0] + share(k) / total[0]
                place[0] = place[0] + cast("int32", below[0] <= wanted)
            # shares may add up to less than one
            out[tuple(at)] = O.select(place[0] < size, place[0], const(0))
        return ib.get()

    places: Tensor = extern(shape, [probs, words], body, "multinomial", "int32")
    return [new, places]


__getattr__, _ = face(__name__, {"driver.compare": "threefry_test_wrapping"})
