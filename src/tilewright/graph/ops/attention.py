"""Operations of attention."""

from __future__ import annotations

from ...topi import nn
from .spec import INJECTIVE, OPAQUE, OpSpec

OPS: dict[str, OpSpec] = {
    "masked_softmax": OpSpec(lambda t, a: nn.masked_softmax(t[0], a["axis"]), OPAQUE),
    "rotary": OpSpec(
        lambda t, a: nn.rotary_embedding(t[0], t[1], t[2], a["interleaved"], a["seq_axis"]),
        INJECTIVE,
    ),
}
