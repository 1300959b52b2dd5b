"""Multiply whole numbers where a product's or a convolution's inputs are converted from such.

What is computed as `sum of (x - z) * s * w * t` over floats is `(sum of x * w - z * sum of w)`,
exact in int32, times `s * t`: the scales of data and of each filter come out of the sum. What
follows (a bias, a residual, an activation, the conversion back) stays as it is, element by element,
and so joins the kernel of the sums.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import Graph, Node, Value, constant
from ..ops import node_of
from ..ops.quantize import less_zero

Array = np.ndarray[Any, Any]


def multiply_whole(graph: Graph) -> Graph:
    """Rewrite dense layers and convolutions of dequantised data and constants. Needs constants that
    know how they were computed (`Value.recipe`)."""
    return graph.rewrite(lambda n: _rewritten(n) if n.op in ("dense", "conv2d") else None)


def _rewritten(node: Node) -> list[Node] | None:
    """The nodes that take the place of one; None where its inputs are no such conversions."""
    data, weight = node.inputs
    source, shape = data.producer, data.shape
    while source is not None and source.op == "reshape":
        source = source.inputs[0].producer
    filters = _filters(weight)
    if source is None or source.op != "dequantize" or filters is None or len(source.inputs) < 2:
        return None
    x, scale, *zeros = source.inputs
    known = x.dtype in ("uint8", "int8") and scale.data is not None and not scale.shape
    known = known and all(z.data is not None and z.dtype == x.dtype for z in zeros)
    if not known or node.attrs.get("groups", 1) != 1 or node.output.dtype != "float32":
        return None
    whole, scales = filters
    if prod(whole.shape[1:]) * 255 * 128 >= 1 << 31:  # the sums
        return None
    zero = int(zeros[0].data) if zeros and zeros[0].data is not None else 0
    added: list[Node] = []

    def add(op: str, inputs: list[Value], **attrs: Any) -> Value:
        added.append(node_of(op, inputs, f"{node.name}.{op}", attrs))
        return added[-1].output

    attrs = {**node.attrs, "out_dtype": "int32"}
    if x.shape != shape:
        x = add("reshape", [x], shape=shape)
    if zero and any(attrs.get("padding", ())):
        x = add("pad", [x], **_padding(attrs["padding"], zero))
        attrs["padding"] = (0, 0, 0, 0)
    total = add(node.op, [x, constant(weight.name + ".whole", whole)], **attrs)
    each = (-1, *[1] * (whole.ndim - 2))  # filters are axis 1 of the result
    if zero:
        lost = zero * whole.astype("int32").sum(tuple(range(1, whole.ndim)), dtype="int32")
        total = add("subtract", [total, constant(node.name + ".lost", lost.reshape(each))])
    wide = add("cast", [total], dtype="float32")
    factor = (np.float32(scale.data) * scales).astype("float32")
    factors = constant(node.name + ".scale", factor.reshape(each if factor.ndim else ()))
    return [*added, Node("multiply", node.name, [wide, factors], node.outputs)]


def _filters(weight: Value) -> tuple[Array, Array] | None:
    """Whole numbers (filters, ..) of 8 bits and the scale of each filter, or the one of all, that a
    constant was made of; None where it was not."""
    recipe = weight.recipe
    turned = recipe is not None and recipe.op == "transpose"
    if turned and recipe is not None:
        if tuple(recipe.attrs["axes"]) != (1, 0):
            return None
        recipe = recipe.inputs[0].recipe
    if recipe is None or recipe.op != "dequantize" or recipe.attrs["block"]:
        return None
    given, scale, *zeros = (v.data for v in recipe.inputs)
    axis = recipe.attrs["axis"]
    if given is None or scale is None or (scale.ndim and axis != (1 if turned else 0)):
        return None
    zero = zeros[0] if zeros else None
    if zero is not None and zero.ndim:
        zero = zero.reshape([-1 if k == axis else 1 for k in range(given.ndim)])
    whole = less_zero(given, zero)
    if whole is None:
        return None
    return (np.ascontiguousarray(whole.T) if turned else whole), scale


def _padding(padding: Any, zero: int) -> dict[str, Any]:
    """Attributes of a pad of images with a zero point; `padding`: top, left, bottom, right."""
    top, left, bottom, right = padding
    return {"before": (0, 0, top, left), "after": (0, 0, bottom, right), "value": zero}
