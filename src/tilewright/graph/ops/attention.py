"""Operations of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import topi
from ...base.dtype import parse
from ...loopir.expr import const
from ...tensor.tensor import Tensor
from ...topi import nn
from ...topi.nn.attention import Sizes, attention
from .spec import INJECTIVE, OPAQUE, Compute, OpSpec, follow


def attention_op(operation: Mapping[str, Compute]) -> OpSpec:
    """Attention, in whose scores element-wise operations may stand; they are looked up by name.

    Inputs: queries, keys and values, then what the steps read. `reads` says for each dimension of
    the first three which axis is its index, and where that begins: of (*batch, *rows, size),
    (*batch, keys, size) and (*batch, keys, last). `steps` (operation, inputs, attributes) compute
    what the softmax is taken of: input 0 is the product (*batch, *rows, keys), those from 1 on the
    further inputs, which are broadcast to it, and the steps before. `block`: keys at a time;
    `window`, `cut`: see `Sizes`.
    """

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        lengths = (a["keys"], a["size"], a["last"])
        seen = (a.get("window"), a.get("cut", False))
        sizes = Sizes(tuple(a["batch"]), tuple(a["rows"]), *lengths, *seen)
        lead = len(sizes.batch) + len(sizes.rows)

        def read(n: int) -> Any:
            def element(outer: Sequence[Any], i: Any, j: Any) -> Any:
                axes = (*outer, i, j)
                return t[n](
                    *((axes[k] + b if b else axes[k]) if k >= 0 else b for k, b in a["reads"][n])
                )

            return element

        def score(x: Tensor) -> Tensor:
            if a["scale"] != 1:
                x = topi.multiply(x, const(a["scale"], x.dtype))
            values = [x, *(_as_wide(v, x.dtype) for v in t[3:])]
            follow(operation, a["steps"], values, x.dtype)
            return values[-1] if a["steps"] else x

        order = list(a["order"])
        assert sorted(order) == list(range(lead + 1))
        sides = (read(0), read(1), read(2), t[0].dtype)
        return attention(sizes, *sides, score, a["empty"], order, a.get("block", 0))

    return OpSpec(apply, OPAQUE)


def _as_wide(v: Tensor, dtype: str) -> Tensor:
    """What steps read of floats, in the type of the scores."""
    narrow = parse(v.dtype).is_float and v.dtype != dtype
    return topi.cast(v, dtype) if narrow else v


OPS: dict[str, OpSpec] = {
    "masked_softmax": OpSpec(lambda t, a: nn.masked_softmax(t[0], a["axis"]), OPAQUE),
    "rotary": OpSpec(
        lambda t, a: nn.rotary_embedding(t[0], t[1], t[2], a["interleaved"], a["seq_axis"]),
        INJECTIVE,
    ),
}
