"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

from ...loopir import op as O
from ...loopir.expr import cast
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..elemwise import accumulator
from ..utils import get_const_int


def rotary_embedding(
    data: Tensor, cosine: Tensor, sine: Tensor, interleaved: bool, seq_axis: int
) -> Tensor:
    """Pairs of elements on the last axis of data (batch, ., ., size) turned by angles (batch or 1,
    steps, pairs), the steps being dimension `seq_axis`. A pair is neighbours (`interleaved`) or one
    element of each half; what is behind the pairs stays. The result has the type of `data`. Su et
    al., RoFormer, 2021 (arXiv:2104.09864). Raises UsageError where `cosine` or `data` has an extent
    or a value that has to be constant and is not."""
    pairs = get_const_int(cosine.shape[2])
    whole = get_const_int(data.shape[3])
    one = get_const_int(cosine.shape[0]) == 1
    wide = accumulator(data.dtype)

    def element(*i: Any) -> Any:
        d = i[3]
        second = (d % 2).equal(1) if interleaved else d >= pairs
        pair = d // 2 if interleaved else O.select(second, d - pairs, d)
        pair = O.min(pair, pairs - 1)
        step = 1 if interleaved else pairs
        other = O.max(O.min(O.select(second, d - step, d + step), whole - 1), 0)
        at = (0 if one else i[0], i[seq_axis], pair)
        c, s = cast(wide, cosine(*at)), cast(wide, sine(*at))
        mine, theirs = cast(wide, data(*i)), cast(wide, data(*i[:3], other))
        turned = cast(data.dtype, mine * c + theirs * O.select(second, s, -s))
        return turned if 2 * pairs == whole else O.select(d < 2 * pairs, turned, data(*i))

    result: Tensor = compute(data.shape, element, "T_rotary", "injective")
    return result
