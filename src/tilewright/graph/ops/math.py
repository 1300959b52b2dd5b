"""Element-wise arithmetic, softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import topi
from ...loopir.expr import const
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ...topi import nn
from ...topi.elemwise import accumulator, cast
from .spec import INSIDE, OPAQUE, WIDE, Compute, OpSpec, elementwise


def _scale_shift(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """Of narrow floats in float32, rounded once."""
    dtype = t[0].dtype
    wide = accumulator(dtype)
    x, scale, shift = (v if v.dtype == wide else cast(v, wide) for v in t)
    result = nn.scale_shift(x, scale, shift, a["axis"])
    return result if result.dtype == dtype else cast(result, dtype)


def _clip(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
    """As NumPy and ONNX: the maximum, where it is less than the minimum."""
    return topi.clip(t[0], min(a["min"], a["max"]), a["max"])


def divide_by_op(operation: Mapping[str, Compute]) -> OpSpec:
    """A division of whole numbers, looked up by the name `op`, by one that is known."""

    def apply(t: Sequence[Tensor], a: Mapping[str, Any]) -> Tensor:
        dtype = t[0].dtype
        by: Tensor = compute((), lambda: const(a["number"], dtype), "T_number", "elemwise")
        return operation[a["op"]]([t[0], by], dict(a["how"]))

    return OpSpec(apply)


OPS: dict[str, OpSpec] = {
    "softmax": OpSpec(lambda t, a: nn.softmax(t[0], a["axis"]), OPAQUE, precision=INSIDE),
    "log_softmax": OpSpec(lambda t, a: nn.log_softmax(t[0], a["axis"]), OPAQUE, precision=INSIDE),
    "bias_add": OpSpec(lambda t, a: nn.bias_add(t[0], t[1], a["axis"])),
    "scale_shift": OpSpec(_scale_shift),
    "relu": elementwise(nn.relu),
    "leaky_relu": OpSpec(lambda t, a: nn.leaky_relu(t[0], a["alpha"])),
    "clip": OpSpec(_clip),
    "cast": OpSpec(lambda t, a: topi.cast(t[0], a["dtype"])),
    "identity": elementwise(topi.identity),
    **{
        name: elementwise(getattr(topi, name))
        for name in (
            *("add", "subtract", "multiply", "maximum", "minimum", "where", "sqrt", "tanh"),
            *("sigmoid", "abs", "negative", "floor", "ceil", "sin", "cos", "round", "less"),
            *("greater", "equal"),
        )
    },
    **{
        name: elementwise(getattr(topi, name), WIDE)
        for name in ("divide", "power", "exp", "log", "erf")
    },
}
