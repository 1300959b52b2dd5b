"""load_onnx: a network from an ONNX file.

The one module that imports onnx. Everything that could be wrong with a file is found before any
work is done on it, and all unsupported operators are listed at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...base.dtype import canonical
from ...base.errors import ImportModelError, InternalError, TilewrightError
from ...base.files import read_file
from ..ir import Graph, Value, constant
from ..limits import Budget
from . import math, nn, tensor
from .check import check_model
from .convert import Builder, Converter, OnnxNode
from .inline import inlined_nodes

CONVERTERS: dict[str, Converter] = {**nn.CONVERTERS, **math.CONVERTERS, **tensor.CONVERTERS}


def load_onnx(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """Read a model: a path, bytes, or an onnx.ModelProto.

    `shapes` gives the extents of inputs whose dimensions the file leaves open (a batch dimension
    that is left open is taken as 1). Raises ImportModelError for files that are cut off or no
    ONNX, operators that are not supported (all are listed), and external data outside the model's
    folder.
    """
    import onnx

    try:
        return _load(onnx, model, shapes)
    except UnicodeDecodeError as error:  # names and attributes are decoded where they are asked for
        raise ImportModelError(
            f"the model holds text that is not UTF-8: {bytes(error.object)!r:.60}"
        ) from None


def _load(onnx: Any, model: Any, shapes: Mapping[str, Sequence[int]] | None) -> Graph:
    proto, folder = _read(onnx, model)
    graph = proto.graph
    for item in (*proto.opset_import, *(o for f in proto.functions for o in f.opset_import)):
        if not 0 <= item.version < 1 << 31:
            raise ImportModelError(f"the model names operator set {item.version}")
    budget = Budget(proto.ByteSize())
    nodes = inlined_nodes(onnx, proto, budget)
    _check_operators(nodes)
    if graph.sparse_initializer:
        raise ImportModelError("the model has sparse weights, which are not supported")
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=0)
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ImportModelError(
            f"the model is written for operator set {opset}; the onnx package that is installed "
            f"knows those up to {newest}"
        )
    builder = Builder(opset, budget)
    known: dict[str, Value] = {}
    for t in graph.initializer:
        known[t.name] = constant(t.name, _array(onnx, t, folder))
    inputs = []
    for item in graph.input:
        if item.name not in known:
            known[item.name] = _input(onnx, item, shapes or {})
            inputs.append(known[item.name])
    unknown = sorted(set(shapes or {}) - {v.name for v in inputs})
    if unknown:
        has = ", ".join(v.name for v in inputs) or "none"
        raise ImportModelError(f"the model has no input {unknown[0]!r} to shape; inputs: {has}")
    budget.declare(inputs)
    read = {o.name for o in graph.output} | {i for n in nodes for i in n.input}
    for node in nodes:
        _convert(onnx, builder, node, known, folder, read)
    outputs: list[Value] = []
    taken: set[Value] = set()
    for item in graph.output:
        value = _output(known, item.name)
        if value.producer is None or value in taken:
            value = builder.add("identity", [value], item.name)
        value.name = item.name
        outputs.append(value)
        taken.add(value)
    check_model(onnx, proto, nodes, inputs, outputs, known)
    return Graph(graph.name or "network", inputs, outputs, builder.nodes)


def input_names(path: str | os.PathLike[str]) -> list[str]:
    """The inputs of a model that are no weights: what `shapes` of `load_onnx` may name."""
    import onnx

    graph = _read(onnx, path)[0].graph
    known = {t.name for t in graph.initializer}
    return [item.name for item in graph.input if item.name not in known]


def load_tensor(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array in a file that holds one ONNX TensorProto, as model zoos give expected outputs."""
    import onnx
    from google.protobuf.message import DecodeError

    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(read_file(path))
    except (OSError, DecodeError) as error:
        raise ImportModelError(f"cannot read an ONNX tensor from {path}: {error}") from None
    if not proto.data_type:
        raise ImportModelError(f"{path} holds no ONNX tensor")
    return _array(onnx, proto, None)


def _read(onnx: Any, model: Any) -> tuple[Any, Path | None]:
    from google.protobuf.message import DecodeError

    if isinstance(model, onnx.ModelProto):
        return model, None
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        what = str(path)
        try:
            data = read_file(path)
        except OSError as error:
            raise ImportModelError(f"cannot read {path}: {error.strerror}") from None
        folder = path.resolve().parent
    else:
        if not isinstance(model, (bytes, bytearray, memoryview)):
            raise ImportModelError(f"a model is a path, bytes or a ModelProto, got {model!r}")
        what, data = "the model", bytes(model)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise ImportModelError(
            f"{what} is no ONNX model, or the file is cut off ({len(data)} bytes)"
        ) from None
    if proto.graph.node and not proto.graph.output:
        raise ImportModelError(f"{what} has no outputs")
    if not proto.graph.node and not proto.graph.output:
        raise ImportModelError(f"{what} is no ONNX model: it has no graph")
    if not proto.opset_import and proto.ir_version >= 3:
        raise ImportModelError(f"{what} is no valid ONNX model: it names no operator set")
    return proto, folder


def _check_operators(nodes: Sequence[Any]) -> None:
    missing: dict[str, list[str]] = {}
    for k, node in enumerate(nodes):
        standard = node.domain in ("", "ai.onnx")
        if not standard or node.op_type not in CONVERTERS:
            kind = node.op_type if standard else f"{node.domain}.{node.op_type}"
            missing.setdefault(kind, []).append(node.name or f"#{k}")
    if missing:
        lines = [
            f"  {kind}: {', '.join(names)}" for kind, names in sorted(missing.items(), key=str)
        ]
        raise ImportModelError(
            "the model has operators that are not supported (operator: nodes):\n" + "\n".join(lines)
        )


def _array(onnx: Any, tensor_proto: Any, folder: Path | None) -> np.ndarray[Any, Any]:
    """The data of an initializer, which may lie in a file beside the model."""
    if tensor_proto.data_location == onnx.TensorProto.EXTERNAL:
        return _external(onnx, tensor_proto, folder)
    _element_type(onnx, tensor_proto.data_type, f"weight {tensor_proto.name!r}")
    try:
        result: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor_proto)
    except (ValueError, TypeError) as error:
        raise ImportModelError(f"weight {tensor_proto.name!r} is damaged: {error}") from None
    return result


def _external(onnx: Any, tensor_proto: Any, folder: Path | None) -> np.ndarray[Any, Any]:
    name = tensor_proto.name
    entries = {e.key: e.value for e in tensor_proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ImportModelError(
            f"weight {name!r} is in file {location!r}: load the model by its path"
        )
    path = (folder / location).resolve()
    if not location or os.path.isabs(location) or not path.is_relative_to(folder):
        raise ImportModelError(
            f"weight {name!r}: external data {location!r} is outside the model's folder"
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError:
        raise ImportModelError(f"weight {name!r}: offset or length is no number") from None
    shape = tuple(tensor_proto.dims)
    dtype = _element_type(onnx, tensor_proto.data_type, f"weight {name!r}")
    needed = prod(shape) * dtype.itemsize
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ImportModelError(f"weight {name!r}: cannot read {path}: {error.strerror}") from None
    if offset < 0 or size < offset + needed:
        raise ImportModelError(
            f"weight {name!r}: {location} has {size} bytes, "
            f"{offset + needed} are needed: the file is cut off"
        )
    if length not in (-1, needed):
        raise ImportModelError(
            f"weight {name!r} of shape {list(shape)} has {needed} bytes, "
            f"the model says {length} bytes of {location}"
        )
    if not needed:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape)


def _element_type(onnx: Any, number: int, what: str) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type."""
    try:
        dtype: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
        canonical(dtype)
    except (KeyError, TypeError, TilewrightError):
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise ImportModelError(
            f"{what} has elements of type {kinds.get(number, number)}, which is not supported"
        ) from None
    return dtype


def _input(onnx: Any, item: Any, shapes: Mapping[str, Sequence[int]]) -> Value:
    what = f"input {item.name!r}"
    if item.type.WhichOneof("value") != "tensor_type":
        kind = item.type.WhichOneof("value") or "unknown type"
        raise ImportModelError(f"{what} is no tensor but of {kind}, which is not supported")
    tensor_type = item.type.tensor_type
    dtype = canonical(_element_type(onnx, tensor_type.elem_type, what))
    given = shapes.get(item.name)
    if not tensor_type.HasField("shape"):
        if given is None:
            raise ImportModelError(f"{what} has no shape; give shapes={{{item.name!r}: (...)}}")
        return Value(item.name, given, dtype)
    dims = list(tensor_type.shape.dim)
    if given is not None and len(given) != len(dims):
        raise ImportModelError(f"{what} has {len(dims)} dimensions, got shape {list(given)}")
    shape = []
    for k, d in enumerate(dims):
        fixed = d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None
        extent = fixed if given is None else given[k]
        if extent is None and k > 0:
            raise ImportModelError(
                f"{what}: dimension {k} ({d.dim_param or '?'}) is open; "
                f"give shapes={{{item.name!r}: (...)}}"
            )
        if fixed is not None and extent != fixed:
            raise ImportModelError(f"{what}: dimension {k} is {fixed} in the model, got {extent}")
        shape.append(1 if extent is None else extent)
    if min(shape, default=0) < 0:
        raise ImportModelError(f"{what}: extents must not be negative, got shape {shape}")
    return Value(item.name, shape, dtype)


def _convert(
    onnx: Any,
    builder: Builder,
    node: Any,
    known: dict[str, Value],
    folder: Path | None,
    read: Set[str],
) -> None:
    """Add one node of the file; `read` names the values that something reads."""
    attrs = {a.name: _attribute(onnx, a, folder) for a in node.attribute}
    for name in node.input:
        if name and name not in known:
            raise ImportModelError(
                f"{node.op_type} node {node.name!r} reads {name!r}, which nothing computes"
            )
    name = node.name or (node.output[0] if node.output else node.op_type)
    inputs = [known[i] if i else None for i in node.input]
    wrapped = OnnxNode(node.op_type, name, inputs, list(node.output), attrs)
    try:
        result = CONVERTERS[node.op_type](builder, wrapped)
    except (ImportModelError, InternalError):
        raise
    except Exception as error:
        kind = "" if isinstance(error, TilewrightError) else f"{type(error).__name__}: "
        raise ImportModelError(
            f"{node.op_type} node {name!r} cannot be imported: {kind}{error}"
        ) from error
    results = result if isinstance(result, list) else [result]
    for out, value in zip(node.output, results):
        known[out] = value
    for k, out in enumerate(node.output[len(results) :], len(results)):
        if out in read:
            raise ImportModelError(
                f"{node.op_type} node {name!r}: output {k} ({out}) is not supported"
            )


def _attribute(onnx: Any, a: Any, folder: Path | None) -> Any:
    kinds = onnx.AttributeProto
    if a.type == kinds.TENSOR:
        return _array(onnx, a.t, folder)
    if a.type == kinds.STRING:
        return a.s.decode()
    if a.type == kinds.FLOAT:
        return float(a.f)
    if a.type == kinds.INT:
        return int(a.i)
    if a.type == kinds.FLOATS:
        return list(a.floats)
    if a.type == kinds.INTS:
        return list(a.ints)
    return None


def _output(known: Mapping[str, Value], name: str) -> Value:
    if name not in known:
        raise ImportModelError(f"output {name!r} is computed by no node")
    return known[name]
