"""Check a model against the operators' specifications, without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import ImportModelError
from ..ir import Value

_SMALL = 4096  # elements: such weights may be shapes and axes, which the checker looks into
_IR_VERSION = 8  # of the copy: what later versions add does not change what operators mean


def check_model(
    onnx: Any,
    proto: Any,
    nodes: Sequence[Any],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    known: Mapping[str, Value],
) -> None:
    """ImportModelError where onnx finds attributes, types or shapes that an operator does not take.

    `nodes` are those of its graph without calls of functions, `known` the values by name. `inputs`
    and `outputs` have the shapes that are compiled for; those that the model declares for outputs
    are not read, since some exporters write stale ones. Weights of many elements become
    inputs of the copy that is checked, so that it stays small.
    """
    try:
        lean = _copy(onnx, proto, nodes, inputs, outputs)
        for node in lean.graph.node:
            _without_ceiling(onnx, node, known)
        onnx.checker.check_model(lean, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ImportModelError(f"the model is not valid ONNX: {error}") from None
    except (RuntimeError, ValueError, TypeError) as error:
        raise ImportModelError(f"the model cannot be checked: {error}") from None


def _without_ceiling(onnx: Any, node: Any, known: Mapping[str, Value]) -> None:
    """Make pooling with `ceil_mode` one of the same shape without it: onnx counts windows that lie
    in the padding behind the data alone, runtimes do not."""
    attrs = {a.name: a for a in node.attribute}
    same = "auto_pad" in attrs and attrs["auto_pad"].s.startswith(b"SAME")
    if "ceil_mode" not in attrs or same:
        return
    data, result = known[node.input[0]].shape[2:], known[node.output[0]].shape[2:]
    ones = [1] * len(data)
    steps = [attrs[n].ints if n in attrs else ones for n in ("strides", "dilations")]
    windows_of = attrs["kernel_shape"].ints if "kernel_shape" in attrs else ()
    if any(len(x) != len(data) for x in (windows_of, *steps)):
        return  # the checker says what is wrong
    pads = [0] * (2 * len(data))
    for k, (size, windows) in enumerate(zip(data, result)):
        stride, dilation = (x[k] for x in steps)
        reach = (windows - 1) * stride + dilation * (windows_of[k] - 1) + 1
        pads[len(data) + k] = max(reach - size, 0)
    kept = [a for a in node.attribute if a.name not in ("ceil_mode", "pads", "auto_pad")]
    kept = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])


def _copy(
    onnx: Any, proto: Any, nodes: Sequence[Any], inputs: Sequence[Value], outputs: Sequence[Value]
) -> Any:
    """The model without large weights."""
    lean = onnx.ModelProto(ir_version=_IR_VERSION, opset_import=proto.opset_import)
    if not lean.opset_import:
        lean.opset_import.add(domain="", version=1)
    graph = lean.graph
    graph.name = proto.graph.name or "network"
    graph.node.extend(nodes)
    types = {item.name: item.type.tensor_type.elem_type for item in proto.graph.input}
    for value in inputs:
        _declare(onnx, graph.input, value.name, types[value.name], value.shape)
    for weight in proto.graph.initializer:
        size = 1
        for extent in weight.dims:
            size *= extent
        external = weight.data_location == onnx.TensorProto.EXTERNAL
        if size <= _SMALL and not external:
            graph.initializer.append(weight)
        else:
            _declare(onnx, graph.input, weight.name, weight.data_type, weight.dims)
    for item, value in zip(proto.graph.output, outputs):
        _declare(onnx, graph.output, item.name, item.type.tensor_type.elem_type, value.shape)
    return lean


def _declare(onnx: Any, where: Any, name: str, kind: int, shape: Sequence[int]) -> None:
    where.append(onnx.helper.make_tensor_value_info(name, kind, shape))
