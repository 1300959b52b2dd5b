"""Scaled dot-product attention: two products with a softmax between them, as one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast, const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute
from ...tensor.reduce import max as reduce_max
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
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
    share these; `keys`; elements of a key (`size`) and of a value (`last`)."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    keys: int
    size: int
    last: int


def attention(
    sizes: Sizes,
    query: Element,
    key: Element,
    value: Element,
    dtype: str,
    score: Callable[[Tensor], Tensor] = lambda x: x,
    empty: str = PLAIN,
    order: Sequence[int] | None = None,
) -> Tensor:
    """softmax(score(query x key)) x value. query(outer, row, d), key(batch, t, d) and value(batch,
    t, e) are elements: `outer` are the indices of all but the last dimension of rows.

    `score` makes what the softmax is taken of from the products (*batch, *rows, keys), element by
    element. Returns (*batch, *rows, last), its dimensions in `order`, of `dtype`; sums are taken in
    float32 or wider.
    """
    wide = accumulator(dtype)
    lead, at = (*sizes.batch, *sizes.rows), len(sizes.batch)

    def product(*i: Any) -> Any:
        d = reduce_axis((0, sizes.size), "d")
        a, b = query(i[: len(lead) - 1], i[-2], d.var), key(i[:at], i[-1], d.var)
        return reduce_sum(cast(wide, a) * cast(wide, b), axis=d)

    scores = score(compute((*lead, sizes.keys), product, "T_scores"))

    def over_keys(what: Callable[[Any, Any], Any], reduction: Any, name: str) -> Tensor:
        def element(*i: Any) -> Any:
            k = reduce_axis((0, sizes.keys), "t")
            return reduction(what(i, k.var), axis=k)

        result: Tensor = compute(lead, element, name, "comm_reduce")
        return result

    largest = over_keys(lambda i, k: scores(*i, k), reduce_max, "T_largest")

    def power(*i: Any) -> Any:
        most = largest(*i[:-1])
        return O.exp(scores(*i) - (least(most) if empty == MASKED else most))

    powers: Tensor = compute((*lead, sizes.keys), power, "T_powers", "attention_powers")
    total = over_keys(lambda i, k: powers(*i, k), reduce_sum, "T_total")

    def mixed(*i: Any) -> Any:
        t = reduce_axis((0, sizes.keys), "t")
        return reduce_sum(powers(*i[:-1], t.var) * cast(wide, value(i[:at], t.var, i[-1])), axis=t)

    sums: Tensor = compute((*lead, sizes.last), mixed, "T_attended")
    places = list(order) if order is not None else list(range(len(lead) + 1))

    def element(*i: Any) -> Any:
        axes = [i[places.index(d)] for d in range(len(places))]
        whole, zero = total(*axes[:-1]), const(0, wide)
        part = sums(*axes) / (
            O.select(whole.equal(zero), zero + 1, whole) if empty == MASKED else whole
        )
        return cast(dtype, O.select(O.isnan(whole), zero, part) if empty == NUMBERS else part)

    shape = [(*lead, sizes.last)[d] for d in places]
    result: Tensor = compute(shape, element, "T_attention", ATTENTION)
    return result
