"""What lies in ONNX files: models, tensors, attributes, as Python data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ...base.aligned import Array
from ...base.dtype import canonical
from ...base.errors import ImportModelError, TilewrightError
from ...base.files import read_file
from ...base.mapped import map_file
from ...rt.network_file import MAGIC
from ..limits import require
from .split import split


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
    return array(onnx, proto, None)


class File(NamedTuple):
    """A model as it was read: the message, where its external data lies, and the bytes of large
    weights, which the message then does not have: of each initializer, None for one that is whole.
    """

    proto: Any
    folder: Path | None
    weights: Sequence[Array | None] = ()

    @property
    def nbytes(self) -> int:
        """The size of the whole."""
        return int(self.proto.ByteSize()) + sum(w.nbytes for w in self.weights if w is not None)


def read_model(onnx: Any, model: Any) -> File:
    """A model from its path, its bytes, or as it is. ImportModelError where it is none."""
    from google.protobuf.message import DecodeError

    if isinstance(model, onnx.ModelProto):
        return File(model, None)
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        what = str(path)
        try:
            data = map_file(path)
        except OSError as error:
            raise ImportModelError(f"cannot read {path}: {error.strerror}") from None
        folder = path.resolve().parent
    else:
        if not isinstance(model, (bytes, bytearray, memoryview)):
            raise ImportModelError(f"a model is a path, bytes or a ModelProto, got {model!r}")
        what, data = "the model", np.frombuffer(bytes(model), np.uint8)
    proto = onnx.ModelProto()
    slim, weights = split(data)
    try:
        proto.ParseFromString(slim)
    except DecodeError:
        raise ImportModelError(_not_a_model(what, data)) from None
    if proto.graph.node and not proto.graph.output:
        raise ImportModelError(f"{what} has no outputs")
    if not proto.graph.node and not proto.graph.output:
        raise ImportModelError(f"{what} is no ONNX model: it has no graph")
    if not proto.opset_import and proto.ir_version >= 3:
        raise ImportModelError(f"{what} is no valid ONNX model: it names no operator set")
    return File(proto, folder, weights)


def _not_a_model(what: str, data: Array) -> str:
    """What to say of bytes that are no ONNX."""
    if bytes(data[: len(MAGIC)]) == MAGIC:
        return (
            f"{what} is a saved network, compiled already: tilewright.load_network or `tilewright "
            "run` takes it"
        )
    return f"{what} is no ONNX model, or the file is cut off ({len(data)} bytes)"


def weight(onnx: Any, tensor_proto: Any, data: Array | None, folder: Path | None) -> Array:
    """The array of an initializer whose bytes are apart: a view of them where they are plain
    numbers, in the machine's own order and as many as there have to be."""
    if data is None:
        return array(onnx, tensor_proto, folder)
    dtype = element_type(onnx, tensor_proto.data_type, f"weight {tensor_proto.name!r}")
    shape = tuple(tensor_proto.dims)
    plain = dtype.kind in "iuf" and dtype.isbuiltin == 1 and sys.byteorder == "little"
    if plain and min(shape, default=0) >= 0 and prod(shape) * dtype.itemsize == data.nbytes:
        return data.view(dtype).reshape(shape)
    whole = onnx.TensorProto()
    whole.CopyFrom(tensor_proto)
    whole.raw_data = data.tobytes()
    return array(onnx, whole, folder)


def array(onnx: Any, tensor_proto: Any, folder: Path | None) -> np.ndarray[Any, Any]:
    """The data of an initializer, which may lie in a file beside the model."""
    if tensor_proto.data_location == onnx.TensorProto.EXTERNAL:
        return _external(onnx, tensor_proto, folder)
    element_type(onnx, tensor_proto.data_type, f"weight {tensor_proto.name!r}")
    try:
        result: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor_proto)
    except (ValueError, TypeError, KeyError) as error:
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
    dtype = element_type(onnx, tensor_proto.data_type, f"weight {name!r}")
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


def carried(dtype: np.dtype[Any]) -> str | None:
    """The name of a NumPy type here; None where compiled code knows no such elements."""
    try:
        return canonical(dtype)
    except TilewrightError:
        return None


_TYPES = [
    "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "O", "bool", "float16",
    "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn",
    "float8_e8m0fnu", "uint2", "int2",
]  # fmt: skip
"""What ONNX's numbers of types stand for."""


def numbered_type(number: Any) -> np.dtype[Any] | None:
    """The NumPy type that an ONNX number stands for (text: objects); None where there is none."""
    name = _TYPES[number] if isinstance(number, int) and 0 < number < len(_TYPES) else ""
    return np.dtype(getattr(ml_dtypes, name, name)) if name else None


def element_type(onnx: Any, number: int, what: str) -> np.dtype[Any]:
    """The NumPy type of an ONNX element type (text: objects)."""
    dtype = numbered_type(number)
    if dtype is None:
        kinds = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise ImportModelError(
            f"{what} has elements of type {kinds.get(number, number)}, which is not supported"
        )
    return dtype


def attributes(onnx: Any, node: Any, folder: Path | None) -> dict[str, Any]:
    """A node's attributes as Python data; subgraphs are left out."""
    kinds = onnx.AttributeProto
    simple: dict[int, Callable[[Any], Any]] = {
        kinds.TENSOR: lambda a: array(onnx, a.t, folder),
        kinds.STRING: lambda a: a.s.decode(),
        kinds.FLOAT: lambda a: float(a.f),
        kinds.INT: lambda a: int(a.i),
        kinds.FLOATS: lambda a: list(a.floats),
        kinds.INTS: lambda a: list(a.ints),
        kinds.STRINGS: lambda a: [s.decode() for s in a.strings],
        kinds.TENSORS: lambda a: [array(onnx, t, folder) for t in a.tensors],
        kinds.TYPE_PROTO: lambda a: a.tp,
        kinds.SPARSE_TENSOR: lambda a: dense(onnx, a.sparse_tensor, folder),
    }
    return {a.name: simple[a.type](a) for a in node.attribute if a.type in simple}


def subgraphs(onnx: Any, node: Any) -> dict[str, Any]:
    """The bodies of a node's loops and branches."""
    return {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}


def dense(onnx: Any, sparse: Any, folder: Path | None) -> np.ndarray[Any, Any]:
    """The array that a SparseTensorProto stands for: its indices are linear, or one row each."""
    name = sparse.values.name
    values = array(onnx, sparse.values, folder)
    indices = array(onnx, sparse.indices, folder)
    shape = tuple(sparse.dims)
    rank = len(shape)
    if values.ndim != 1 or indices.shape not in ((values.size,), (values.size, rank)):
        raise ImportModelError(
            f"sparse tensor {name!r} has values of shape {list(values.shape)} and indices of shape "
            f"{list(indices.shape)} for {rank} dimensions"
        )
    require(prod(shape) * values.dtype.itemsize, f"sparse tensor {name!r}", ImportModelError)
    result = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 1:
            result.reshape(-1)[indices] = values
        else:
            result[tuple(indices.T)] = values
    except IndexError as error:
        raise ImportModelError(f"sparse tensor {name!r}: {error}") from None
    return result
