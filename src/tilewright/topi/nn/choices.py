"""What a graph's compiler asks of operators before it calls them: in which layout they want their
inputs, and whether they want to be another operator. Each is a generic function, for which scripts
register functions of their own by target; by default nothing changes.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ...target.generic_func import generic_func
from .utils import get_pad_tuple, named, several

Workload = namedtuple(
    "Workload",
    "in_dtype out_dtype height width in_filter out_filter kernel_h kernel_w padt padl padb padr "
    "dilation_h dilation_w stride_h stride_w",
)
Workload.__doc__ = "The sizes of a depthwise convolution."

Shapes = tuple[tuple[tuple[Any, ...], str], ...]
"""Shapes, each with its layout."""


def _missing(name: str, text: str) -> Any:
    def infer(workload: Any, cfg: Any) -> Any:
        """Raises ValueError where the target is no CPU."""
        raise ValueError(f"missing register for topi.nn.{name}: it is known for CPUs")

    return generic_func(named(infer, name, text))


def _infer(workload: Any, cfg: Any, depthwise: bool) -> tuple[Shapes, Shapes]:
    """The shapes and layouts of a convolution in blocks of "tile_ic" channels and "tile_oc" filters
    of a configuration, by its arguments: what its inputs are, and what its results."""
    _, (_, shape, *_), (_, filters, *_), strides, padding, dilation, *_ = workload
    n, channels, height, width = shape
    taps = filters[2:4]
    results = filters[0] * filters[1] if depthwise else filters[0]
    steps, apart = several(strides, 2), several(dilation, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(taps, apart)]
    top, left, bottom, right = get_pad_tuple(padding, reach)
    rows = (height + top + bottom - reach[0]) // steps[0] + 1
    columns = (width + left + right - reach[1]) // steps[1] + 1
    ic, oc = (cfg[name].size[-1] for name in ("tile_ic", "tile_oc"))
    source = ((n, channels // ic, height, width, ic), f"NCHW{ic}c")
    result = ((n, results // oc, rows, columns, oc), f"NCHW{oc}c")
    return (source,), (result,)


conv2d_infer_layout = _missing(
    "conv2d_infer_layout",
    """The shapes and layouts of the input and the result of a convolution in blocks, of its
    workload (the task's arguments) and a configuration: on CPUs; ValueError elsewhere.""",
)
depthwise_conv2d_infer_layout = _missing(
    "depthwise_conv2d_infer_layout", "As conv2d_infer_layout, of a depthwise convolution."
)
conv2d_infer_layout.register("cpu", lambda workload, cfg: _infer(workload, cfg, False))
depthwise_conv2d_infer_layout.register("cpu", lambda workload, cfg: _infer(workload, cfg, True))


def _alter(name: str) -> Any:
    def alter(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
        return None

    text = "Another operator in the place of one, in a layout that suits the target; None for none."
    return generic_func(named(alter, name, text))


def _legalize(name: str) -> Any:
    def legalize(attrs: Any, inputs: Any, types: Any) -> Any:
        return None

    text = "Another operator in the place of one that a target does not have; None for none."
    return generic_func(named(legalize, name, text))


def _all(make: Callable[[str], Any], names: str) -> list[Any]:
    return [make(name) for name in names.split()]


(
    add_alter_layout, conv2d_alter_layout, conv3d_alter_layout, dense_alter_layout,
    qnn_add_alter_layout, qnn_conv2d_alter_layout, qnn_dense_alter_layout,
    qnn_requantize_alter_layout, sparse_conv2d_alter_layout, sparse_dense_alter_layout,
) = _all(
    _alter,
    "add_alter_layout conv2d_alter_layout conv3d_alter_layout dense_alter_layout "
    "qnn_add_alter_layout qnn_conv2d_alter_layout qnn_dense_alter_layout "
    "qnn_requantize_alter_layout sparse_conv2d_alter_layout sparse_dense_alter_layout",
)  # fmt: skip
(
    batch_matmul_legalize, bias_add_legalize, bitserial_conv2d_legalize, conv2d_legalize,
    conv2d_transpose_legalize, dense_legalize, matmul_legalize, qnn_bias_add_legalize,
    take_legalize,
) = _all(
    _legalize,
    "batch_matmul_legalize bias_add_legalize bitserial_conv2d_legalize conv2d_legalize "
    "conv2d_transpose_legalize dense_legalize matmul_legalize qnn_bias_add_legalize take_legalize",
)  # fmt: skip
