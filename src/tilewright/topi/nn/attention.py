"""Scaled dot-product attention: two products with a softmax between them, as one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...target.target import Target
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import comm_reducer
from ...tensor.reduce import max as reduce_max
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from .attention_in_one import attention_in_one, plan_of
from .softmax import least

ATTENTION = "attention_output"
"""The tag of the output: rows are computed from their scores to their end, see
schedules/attention.py."""
PLAIN, MASKED, NUMBERS = "plain", "masked", "numbers"
"""Rows of scores without a number: NaN as for softmax; those of -infinity throughout zeros; all
that have no sum zeros."""

Element = Callable[[Sequence[Any], Any, Any], Any]


@dataclass(frozen=True)
class Sizes:
    """Extents of attention: `batch` dimensions, each with keys of its own, `rows` of queries that
    share these; `keys`; elements of a key (`size`) and of a value (`last`). `window` (low, high):
    row r, of the last of `rows`, takes something of keys t with low <= t - r < high alone, of one
    at least; the scores of others are -infinity, or as good, and they may be left out. With `cut`
    they may be anything, and are left out."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    keys: int
    size: int
    last: int
    window: tuple[int, int] | None = None
    cut: bool = False

    def seen(self, value: Any, away: Any) -> Any:
        """The score of a key so far behind its row, -infinity where it is left out."""
        bounds = []
        if self.window is not None and self.cut:
            low, high = self.window
            bounds += [away >= low] if low > 1 - self.rows[-1] else []
            bounds += [away < high] if high < self.keys else []
        none = const(float("-inf"), value.dtype)
        return O.if_then_else(O.all(*bounds), value, none) if bounds else value


def attention(
    sizes: Sizes,
    query: Element,
    key: Element,
    value: Element,
    dtype: str,
    score: Callable[[Tensor], Tensor] = lambda x: x,
    empty: str = PLAIN,
    order: Sequence[int] | None = None,
    block: int = 0,
) -> Tensor:
    """softmax(score(query x key)) x value. query(outer, row, d), key(batch, t, d) and value(batch,
    t, e) are elements: `outer` are the indices of all but the last dimension of rows.

    `score` makes what the softmax is taken of from the products (*batch, *rows, keys), element by
    element. Returns (*batch, *rows, last), its dimensions in `order`, of `dtype`; sums are taken in
    float32 or wider. With a `block`, so many keys at a time, one block after the other.
    """
    wide = accumulator(dtype)
    lead, at = (*sizes.batch, *sizes.rows), len(sizes.batch)

    def product(*i: Any) -> Any:
        d = reduce_axis((0, sizes.size), "d")
        a, b = query(i[: len(lead) - 1], i[-2], d.var), key(i[:at], i[-1], d.var)
        return reduce_sum(cast(wide, a) * cast(wide, b), axis=d)

    places = list(order) if order is not None else list(range(len(lead) + 1))
    plan = plan_of(sizes, dtype, Target.current(allow_none=True))
    if plan is not None:
        sides, end = (query, key, value), partial(_end, empty=empty)
        return attention_in_one(plan, sides, score, end, places)
    scored = score(compute((*lead, sizes.keys), product, "T_scores"))

    def seen(*i: Any) -> Any:
        return sizes.seen(scored(*i), i[-1] - i[-2])

    scores = compute(scored.shape, seen, "T_seen_scores") if sizes.cut else scored

    def element_of(i: Sequence[Any], t: Any, e: Any) -> Any:
        return cast(wide, value(i[:at], t, e))

    if 0 < block < sizes.keys:
        total, sums = _in_blocks(scores, element_of, sizes, block)
    else:
        whole = _Parts(scores, element_of, sizes.last, empty == MASKED)
        total, sums = whole.total, whole.sums

    def element(*i: Any) -> Any:
        axes = [i[places.index(d)] for d in range(len(places))]
        return cast(dtype, _end(total(*axes[: total.ndim]), sums(*axes), empty))

    shape = [(*lead, sizes.last)[d] for d in places]
    result: Tensor = compute(shape, element, "T_attention", ATTENTION)
    return result


def _end(whole: Any, sums: Any, empty: str) -> Any:
    """A result, of a row's sum of powers and its weighed values."""
    zero = const(0, whole.dtype)
    part = sums / (O.select(whole.equal(zero), zero + 1, whole) if empty == MASKED else whole)
    none = O.any(O.isnan(whole), whole.equal(zero))
    return O.select(none, zero, part) if empty == NUMBERS else part


class _Parts:
    """Of scores (*lead, keys): the largest of each row, the sum of their powers (of e, less the
    largest), and the sum of values that these weigh. `masked`: nothing is taken from rows of
    -infinity alone."""

    def __init__(self, scores: Tensor, value: Element, last: int, masked: bool) -> None:
        *lead, keys = scores.shape
        self.scores, self.value, self.last = scores, value, last

        def over_keys(what: Callable[[Any, Any], Any], reduction: Any, name: str) -> Tensor:
            def element(*i: Any) -> Any:
                k = reduce_axis((0, keys), "t")
                return reduction(what(i, k.var), axis=k)

            result: Tensor = compute(lead, element, name, "comm_reduce")
            return result

        def power(*i: Any) -> Any:
            most = self.largest(*i[:-1])
            return O.exp(scores(*i) - (least(most) if masked else most))

        def mixed(*i: Any) -> Any:
            t = reduce_axis((0, keys), "t")
            weighed = self.powers(*i[:-1], t.var) * value(i[:-1], t.var, i[-1])
            return reduce_sum(weighed, axis=t)

        self.largest = over_keys(lambda i, k: scores(*i, k), reduce_max, "T_largest")
        self.powers: Tensor = compute(scores.shape, power, "T_powers", "attention_powers")
        self.total = over_keys(lambda i, k: self.powers(*i, k), reduce_sum, "T_total")
        self.sums: Tensor = compute((*lead, last), mixed, "T_attended")


def _in_blocks(scores: Tensor, value: Element, sizes: Sizes, block: int) -> tuple[Tensor, Tensor]:
    """The sums of powers and of weighed values, over blocks of keys one after the other: both are
    scaled whenever a block has a larger score than those before. What is summed up is (*lead,
    last), sums of powers as well. Milakov and Gimelshein: Online normalizer calculation for
    softmax, 2018; Dao et al.: FlashAttention, NeurIPS 2022.

    Of blocks of equal size, the last one begins early enough to end with the keys; what it shares
    with the one before counts there.
    """
    keys, count = sizes.keys, -(-sizes.keys // block)
    size = -(-keys // count)
    ragged = count * size > keys

    def begin(k: Any) -> Any:
        return O.min(k * size, keys - size) if ragged else k * size

    def seen(k: Any, *i: Any) -> Any:
        t = begin(k) + i[-1]
        x = scores(*i[:-1], t)
        return O.if_then_else(t >= k * size, x, const(float("-inf"), x.dtype)) if ragged else x

    own: Tensor = compute((count, *scores.shape[:-1], size), seen, "T_seen", "attention_seen")
    parts = _Parts(own, lambda i, t, e: value(i[1:], begin(i[0]) + t, e), sizes.last, True)
    k = reduce_axis((0, count), "block")

    def sources(*i: Any) -> Any:
        row = (k.var, *i[:-1])
        found = (parts.largest(*row), parts.total(*row), parts.sums(k.var, *i))
        return _ONLINE(found, axis=k)

    _, total, sums = compute((*scores.shape[:-1], sizes.last), sources, "T_online")
    return total, sums


def _joined(x: Sequence[Any], y: Sequence[Any]) -> tuple[Any, ...]:
    most = O.max(x[0], y[0])
    apart = [O.exp(side[0] - least(most)) for side in (x, y)]
    return (most, *(x[n] * apart[0] + y[n] * apart[1] for n in (1, 2)))


_ONLINE = comm_reducer(
    _joined, lambda m, t, s: (const(float("-inf"), m), const(0, t), const(0, s)), "online_softmax"
)
