"""Losses, buffers of recent data, simulated quantization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, convert
from ...tensor.compute import compute
from ...tensor.extents import dimension
from ...tensor.tensor import Tensor
from ..elemwise import divide
from ..reduction import sum as sum_over


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """`buffer` with `data` put behind it along `axis`, and as much taken away in front. Shape and
    type of `buffer` stay. Raises TilewrightError where data and buffer have not the same
    dimensions, where `axis` is no integer, or no dimension of the tensor."""
    if data.ndim != buffer.ndim:
        raise TilewrightError(f"fifo_buffer: {data!r} and {buffer!r} have not the same dimensions")
    at = dimension(axis, buffer.ndim)
    new, size = data.shape[at], buffer.shape[at]

    def element(*i: Any) -> Any:
        old = buffer(*i[:at], i[at] + new, *i[at + 1 :])
        fresh = data(*i[:at], i[at] - size + new, *i[at + 1 :])
        return O.if_then_else(i[at] < size - new, old, fresh)

    result: Tensor = compute(buffer.shape, element, "new_buffer", "injective")
    return result


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str, ignore_index: int
) -> Tensor:
    """-predictions[n, targets[n, ...], ...] * weights[targets[n, ...]], 0 where the target is
    `ignore_index`: predictions (N, C, ...), targets (N, ...), or (C,) and (). `reduction`: "none";
    "sum" of all; "mean", the sum divided by that of the weights. Takes floats; the result has the
    type of `predictions`, targets are integers. As torch.nn.NLLLoss of PyTorch. Raises
    TilewrightError where reduction is none of 'none', 'sum' and 'mean'."""
    if reduction not in ("none", "sum", "mean"):
        raise TilewrightError(f"nll_loss: reduction is none, sum or mean, got {reduction!r}")
    lone = predictions.ndim == 1

    def taken(value: Callable[[Any, Any], Any], name: str) -> Tensor:
        def element(*i: Any) -> Any:
            target = targets(*i)
            here = target != const(ignore_index, target.dtype)
            zero = const(0, predictions.dtype)
            return O.if_then_else(here, value(target, i), zero)

        result: Tensor = compute(targets.shape, element, name, "injective")
        return result

    def loss(target: Any, i: Any) -> Any:
        read = predictions(target) if lone else predictions(i[0], target, *i[1:])
        return -read * weights(target)

    each = taken(loss, "nll_loss")
    if reduction == "none":
        return each
    total = sum_over(each)
    if reduction == "sum":
        return total
    whole: Tensor = divide(total, sum_over(taken(lambda t, i: weights(t), "nll_weights")))
    return whole


SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
"""What tells simulated_quantize a type."""
SQNN_FP32, SQNN_INT8, SQNN_UINT8, SQNN_INT32 = range(4)
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}


def _reader(value: Any, axis: int, other: float) -> Callable[[Any], Any]:
    """A number for each element: of an expression, a tensor of one number, or one per channel."""
    if value is None:
        return lambda i: const(other, "float32")
    if not isinstance(value, Tensor):
        return lambda i: convert(value)
    if not value.ndim:
        return lambda i: value()
    return lambda i: value(O.indexmod(i[axis], value.shape[0]))


def simulated_quantize(
    data: Tensor,
    out_dtype: Any,
    output_scale: Any = None,
    output_zero_point: Any = None,
    axis: int = -1,
) -> Tensor:
    """What quantization would make of float32 data, in float32: round(data divided by
    `output_scale`) + zero point, within the type whose code (SQNN_DTYPE_TO_CODE) `out_dtype` is, an
    expression or a tensor. Scale and zero point: expressions, or tensors of one number per index of
    `axis`. The shape of `data` stays. Jacob et al., Quantization and Training of Neural Networks
    for Efficient Integer-Arithmetic-Only Inference, CVPR 2018. Raises OperandError where
    `output_scale` or `output_zero_point` is neither a number nor an expression."""
    scale, zero = _reader(output_scale, axis, 1.0), _reader(output_zero_point, axis, 0.0)
    code = _reader(out_dtype, axis, 0.0)

    def element(*i: Any) -> Any:
        x = data(*i)
        moved = O.round(x / cast(x.dtype, scale(i))) + cast(x.dtype, zero(i))
        result: Any = x
        for name, (low, high) in _RANGES.items():
            within = O.max(O.min(moved, const(high, x.dtype)), const(low, x.dtype))
            chosen = code(i)
            number = const(SQNN_DTYPE_TO_CODE[name], chosen.dtype)
            result = O.if_then_else(chosen.equal(number), within, result)
        return result

    quantized: Tensor = compute(data.shape, element, "simulated_quantize", "injective")
    return quantized


def simulated_dequantize(
    data: Tensor,
    in_dtype: Any,
    input_scale: Any = None,
    input_zero_point: Any = None,
    axis: int = -1,
) -> Tensor:
    """(data - `input_zero_point`) * `input_scale`, or the data itself where the code `in_dtype` is
    that of "disable"; see simulated_quantize. The shape of `data` stays. Raises OperandError where
    `input_scale` or `input_zero_point` is neither a number nor an expression."""
    scale, zero = _reader(input_scale, axis, 1.0), _reader(input_zero_point, axis, 0.0)
    code = _reader(in_dtype, axis, 0.0)

    def element(*i: Any) -> Any:
        x, chosen = data(*i), code(i)
        moved = (x - cast(x.dtype, zero(i))) * cast(x.dtype, scale(i))
        return O.if_then_else(chosen.equal(const(SQNN_FP32, chosen.dtype)), x, moved)

    result: Tensor = compute(data.shape, element, "simulated_dequantize", "injective")
    return result
