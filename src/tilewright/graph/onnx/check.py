"""Check a model against the operators' specifications, without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.errors import ImportModelError
from ..ir import Value
from ..sizes import Size
from .model import Model

_SMALL = 4096  # elements: such weights may be shapes and axes, which the checker looks into
_IR_VERSION = 8  # of the copy, at least: what later ones add does not change what operators mean
_NEWEST = 13

UNCHECKED = {"SimplifiedLayerNormalization", "GroupNormalization"}
"""What runtimes write into the standard domain without the format knowing it, or of which it has
withdrawn a version that models have."""

_WITH_DEFAULTS = {"MeanVarianceNormalization", "STFT"}


def check_model(
    model: Model,
    inputs: Sequence[Value],
    outputs: Mapping[str, Value],
    known: Mapping[str, Value],
) -> None:
    """ImportModelError where onnx finds attributes, types or shapes that an operator does not take.

    `inputs` and `outputs` have the shapes that are compiled for, `known` are the values by name.
    Shapes that the model declares for outputs are not read, since some exporters write stale ones.
    Weights of many elements become inputs of the copy that is checked, so that it stays small.
    """
    onnx = model.onnx
    try:
        lean = _copy(onnx, model.proto, inputs, outputs)
        version = max(model.opsets.get("", 1), 1)
        _without_sparse(onnx, lean.graph, known)
        for node in lean.graph.node:
            _without_ceiling(onnx, node, known)
            _with_defaults(onnx, node, version)
        onnx.checker.check_model(lean, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ImportModelError(f"the model is not valid ONNX: {error}") from None
    except (RuntimeError, ValueError, TypeError) as error:
        raise ImportModelError(f"the model cannot be checked: {error}") from None


def _without_sparse(onnx: Any, graph: Any, known: Mapping[str, Value]) -> None:
    """Make inputs of constants that are stored sparse: they are dense where they are read, for
    which onnx does not take them. Those of the model are not in the copy."""
    declared = {item.name for item in (*graph.input, *graph.initializer)}
    computed = {name for node in graph.node for name in node.output}
    names = [n for node in graph.node for n in node.input if n and n not in declared | computed]
    for node in [n for n in graph.node if any(a.name == "sparse_value" for a in n.attribute)]:
        names.append(node.output[0])
        graph.node.remove(node)
    for name in dict.fromkeys(names):
        if name in known:
            number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(parse(known[name].dtype).numpy))
            _declare(onnx, graph.input, name, number, known[name].shape)


def _without_ceiling(onnx: Any, node: Any, known: Mapping[str, Value]) -> None:
    """Make pooling with `ceil_mode` one of the same shape without it: onnx counts windows that lie
    in the padding behind the data alone, runtimes do not."""
    attrs = {a.name: a for a in node.attribute}
    same = "auto_pad" in attrs and attrs["auto_pad"].s.startswith(b"SAME")
    absent = any(name not in known for name in (*node.input[:1], *node.output[:1]))
    if "ceil_mode" not in attrs or same or absent:
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
        left = reach - size
        pads[len(data) + k] = max(left.likely if isinstance(left, Size) else left, 0)
    kept = [a for a in node.attribute if a.name not in ("ceil_mode", "pads", "auto_pad")]
    kept = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])


def _with_defaults(onnx: Any, node: Any, opset: int) -> None:
    """Write out attributes that are left out, where onnx does not find their defaults when it
    infers shapes."""
    if node.op_type not in _WITH_DEFAULTS or node.domain not in ("", "ai.onnx"):
        return
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    given = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def _copy(onnx: Any, proto: Any, inputs: Sequence[Value], outputs: Mapping[str, Value]) -> Any:
    """The model without large weights."""
    lean = onnx.ModelProto(ir_version=max(_IR_VERSION, min(proto.ir_version, _NEWEST)))
    lean.opset_import.extend(proto.opset_import)
    lean.functions.extend(proto.functions)
    if not lean.opset_import:
        lean.opset_import.add(domain="", version=1)
    graph = lean.graph
    graph.name = proto.graph.name or "network"
    graph.node.extend(proto.graph.node)
    for node in graph.node:
        if node.op_type in UNCHECKED and node.domain in ("", "ai.onnx"):
            node.domain = "com.microsoft"
            if all(o.domain != node.domain for o in lean.opset_import):
                lean.opset_import.add(domain=node.domain, version=1)
    shapes = {value.name: value.shape for value in inputs}
    weights = {w.name for w in proto.graph.initializer}
    for item in proto.graph.input:
        if item.name in shapes:
            kind = item.type.tensor_type.elem_type
            _declare(onnx, graph.input, item.name, kind, shapes[item.name])
        elif item.name not in weights:
            graph.input.append(item)
    for weight in proto.graph.initializer:
        size = 1
        for extent in weight.dims:
            size *= extent
        external = weight.data_location == onnx.TensorProto.EXTERNAL
        if size <= _SMALL and not external:
            graph.initializer.append(weight)
        else:
            _declare(onnx, graph.input, weight.name, weight.data_type, weight.dims)
    for item in proto.graph.output:  # those that say nothing of themselves are left out
        kind = item.type.tensor_type.elem_type
        if item.name in outputs:
            _declare(onnx, graph.output, item.name, kind, outputs[item.name].shape)
        elif item.type.WhichOneof("value") == "tensor_type":
            dims = item.type.tensor_type.shape.dim
            if item.type.tensor_type.HasField("shape"):
                _declare(onnx, graph.output, item.name, kind, [None] * len(dims))
        elif item.type.WhichOneof("value") is not None:
            graph.output.append(item)
    return lean


def _declare(onnx: Any, where: Any, name: str, kind: int, shape: Sequence[int | None]) -> None:
    told = [d if d is None or isinstance(d, int) else str(d) for d in shape]
    where.append(onnx.helper.make_tensor_value_info(name, kind, told))
