"""All operators that become expressions, as "domain.Operator" outside the standard domain."""

from __future__ import annotations

from . import (
    activations,
    attention,
    convolution,
    einsum,
    lines,
    logic,
    loss,
    math,
    microsoft,
    microsoft_attention,
    microsoft_quantized,
    movement,
    nn,
    norm,
    pooling,
    quantize,
    recurrent,
    reduce,
    resize,
    scatter,
    signal,
    tensor,
)
from .convert import Converter

CONVERTERS: dict[str, Converter] = {
    **activations.CONVERTERS,
    **attention.CONVERTERS,
    **convolution.CONVERTERS,
    **einsum.CONVERTERS,
    **lines.CONVERTERS,
    **logic.CONVERTERS,
    **loss.CONVERTERS,
    **math.CONVERTERS,
    **microsoft.CONVERTERS,
    **microsoft_attention.CONVERTERS,
    **microsoft_quantized.CONVERTERS,
    **movement.CONVERTERS,
    **nn.CONVERTERS,
    **norm.CONVERTERS,
    **pooling.CONVERTERS,
    **quantize.CONVERTERS,
    **recurrent.CONVERTERS,
    **reduce.CONVERTERS,
    **resize.CONVERTERS,
    **scatter.CONVERTERS,
    **signal.CONVERTERS,
    **tensor.CONVERTERS,
}
