"""load_onnx: a network from an ONNX file.

What is wrong with a file, and operators that are not supported, are found before any work is done
on it, and told in one error (sound.py).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from numbers import Integral
from typing import Any

from ...base.errors import ImportModelError
from ...rt.plan import Tensor, compact, tensors
from ..ir import Graph, Rest, Value
from ..limits import Budget
from ..shapes import is_open
from ..sizes import Size, Symbols, dim_of
from .check import check_model
from .converters import CONVERTERS
from .faults import Faults
from .file import carried, element_type, load_tensor, read_model
from .importer import Importer
from .model import Model, pending_nodes, weights_of
from .program import Program
from .sound import check_functions, check_names, check_nodes

__all__ = ["CONVERTERS", "input_names", "load_onnx", "load_tensor"]


LIKELY_PIXELS = 224
LIKELY_BATCH = 4
LIKELY = 128
"""Extents that are not known: of pictures, of a first dimension, of others. Conditions are answered
and schedules chosen for them."""


PARTS = (1, 4, 16)
"""So many times smaller ones are tried where a model does not fit them: a table of 64 positions
has none for 128."""


def load_onnx(
    model: Any,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbolic: bool = False,
    overridable: Collection[str] = (),
) -> Graph:
    """Read a model: a path, bytes, or an onnx.ModelProto.

    `shapes` gives the extents of inputs whose dimensions the file leaves open (a batch dimension
    that is left open is taken as 1). With `symbolic`, what is still open is a size that each call
    gives (sizes.py): under its name in the file, one size wherever the name stands. A name among
    the extents of `shapes` is such a size, too. Initialisers are constants, those too that the file
    declares as inputs; of these, `overridable` names some that each call may give: inputs behind
    the others, whose default is the file's value. What cannot be computed before the network runs
    (branches, loops, results whose extents depend on data, text, sequences) is the graph's `rest`.
    Raises ImportModelError for files that are cut off or no ONNX; for operators that are not
    supported, and for what is malformed: all of both at once.
    """
    import onnx

    try:
        if not symbolic:
            return _load(onnx, model, shapes, None, overridable)
        *parts, last = PARTS
        for part in parts:
            try:
                return _load(onnx, model, shapes, Symbols(part), overridable)
            except ImportModelError:
                continue
        return _load(onnx, model, shapes, Symbols(last), overridable)
    except UnicodeDecodeError as error:  # names and attributes are decoded where they are asked for
        raise ImportModelError(
            f"the model holds text that is not UTF-8: {bytes(error.object)!r:.60}"
        ) from None


def _load(
    onnx: Any,
    given: Any,
    shapes: Mapping[str, Sequence[Any]] | None,
    symbols: Symbols | None,
    overridable: Collection[str],
) -> Graph:
    file = read_model(onnx, given)
    graph = file.proto.graph
    model = Model(onnx, file.proto, file.folder, Budget(file.nbytes), file.weights)
    faults = Faults()
    newest = onnx.defs.onnx_opset_version()
    if model.opsets.get("", 0) > newest:
        faults.add(
            f"the model is written for operator set {model.opsets['']}; the onnx package that is "
            f"installed knows those up to {newest}"
        )
    nodes = pending_nodes(model, graph.node, model.opsets)
    check_nodes(model, nodes, faults)
    check_functions(model, faults)
    known, held = model.initializers(graph, faults.noted)
    given_shapes = checked_shapes(shapes or {})
    inputs, objects, declared = _inputs(onnx, graph, {*known, *held}, given_shapes, symbols, faults)
    inputs += _overridable(graph, known, overridable, faults)
    with faults.noted():
        model.budget.declare(inputs)
    check_names(nodes, {*declared, *(t.name for t in weights_of(graph))}, graph.output, faults)
    faults.end(of_model=True)
    name = graph.name or "network"
    wanted = [item.name for item in graph.output]
    program = Program(model, name, nodes, known, held, wanted)
    given_inputs = {v.name: v for v in inputs}
    asking = symbols.asking if symbols is not None else nullcontext
    with asking():
        importer = program.imported(given_inputs, objects)
    left = importer.left or any(n not in importer.known for n in wanted)
    if left and any(is_open(v.shape) for v in inputs):
        names = ", ".join(f"{p.kind} node {p.name!r}" for p in importer.left[:5])
        raise ImportModelError(f"shapes depend on data, or text is computed: {names}")
    if importer.left or any(n not in importer.known for n in wanted):
        segment = program.segment_of(importer, given_inputs)
        check_model(model, inputs, {}, importer.known)
        result = segment.graph
        asked = frozenset(n for p in segment.rest.pending for n in p.asked if n in given_inputs)
        result.rest = Rest(inputs, objects, wanted, asked, segment.finish)
    else:
        outputs = _outputs(importer, wanted)
        with asking():
            check_model(model, inputs, dict(zip(wanted, outputs)), importer.known)
        result = Graph(name, inputs, outputs, importer.builder.nodes)
    return result


def _outputs(importer: Importer, names: Sequence[str]) -> list[Value]:
    """The values of outputs: one each, computed by a node, under its name."""
    outputs: list[Value] = []
    for name in names:
        value = importer.builder.output(importer.known[name], outputs, name)
        value.name = name
        outputs.append(value)
    return outputs


def checked_shapes(shapes: Any) -> Mapping[str, Sequence[Any]]:
    """The shapes that a user gives; ImportModelError where they are none."""
    if not isinstance(shapes, Mapping):
        raise ImportModelError(
            f"shapes are those of inputs by their names, {{'x': (1, 3)}}, got {shapes!r}"
        )
    for name, shape in shapes.items():
        listed = isinstance(shape, Sequence) and not isinstance(shape, str)
        if not listed or not all(d is None or isinstance(d, (str, Integral)) for d in shape):
            raise ImportModelError(
                f"the shape of input {name!r} is a tuple of numbers, or, of what stays open, names "
                f"or None, got {shape!r}"
            )
    return shapes


def open_inputs(
    model: Any, shapes: Mapping[str, Sequence[Any]], overridable: Collection[str] = ()
) -> tuple[str, list[Tensor]] | None:
    """The name of a model and its inputs, where `shapes` leave extents of them open and all are
    tensors of numbers; None otherwise."""
    import onnx

    shapes = checked_shapes(shapes)
    file = read_model(onnx, model)
    graph = file.proto.graph
    known = {t.name for t in weights_of(graph)}
    symbols = Symbols()
    inputs = []
    for item in graph.input:
        if item.name in known:
            continue
        tensor = item.type.tensor_type
        if item.type.WhichOneof("value") != "tensor_type" or not (
            tensor.HasField("shape") or item.name in shapes
        ):
            return None
        value = _input(onnx, item, shapes, symbols)
        if value is None:
            return None
        inputs.append(Tensor(value.name, tuple(map(dim_of, value.shape)), value.dtype))
    if not symbols.likely:
        return None
    if overridable:
        whole = Model(onnx, file.proto, file.folder, Budget(file.nbytes), file.weights)
        inputs += tensors(_overridable(graph, whole.initializers(graph)[0], overridable, Faults()))
    return graph.name or "network", inputs


def overridable_names(path: str | os.PathLike[str]) -> list[str]:
    """The initialisers of a model that are inputs too: what `overridable` of `load_onnx` may
    name."""
    import onnx

    graph = read_model(onnx, path).proto.graph
    known = {t.name for t in weights_of(graph)}
    return [item.name for item in graph.input if item.name in known]


def _overridable(
    graph: Any, known: dict[str, Value], names: Collection[str], faults: Faults
) -> list[Value]:
    """Inputs for initialisers of these names, which are constants no more."""
    declared = {item.name for item in graph.input}
    inputs = []
    for name in dict.fromkeys(names):
        if name not in known or name not in declared:
            why = "no initialiser of numbers" if name not in known else "no input of the model"
            faults.add(f"{name!r} cannot be overridable: it is {why}")
            continue
        weight = known.pop(name)
        assert weight.data is not None
        inputs.append(Value(name, weight.shape, weight.dtype))
        inputs[-1].default = compact(weight.data)
    return inputs


def input_names(path: str | os.PathLike[str]) -> list[str]:
    """The inputs of a model that are no weights: what `shapes` of `load_onnx` may name."""
    import onnx

    graph = read_model(onnx, path).proto.graph
    known = {t.name for t in graph.initializer}
    return [item.name for item in graph.input if item.name not in known]


def _inputs(
    onnx: Any,
    graph: Any,
    weights: set[str],
    shapes: Mapping[str, Sequence[Any]],
    symbols: Symbols | None,
    faults: Faults,
) -> tuple[list[Value], list[str], list[str]]:
    """The inputs that are no weights: tensors of numbers, the names of others, and all names."""
    inputs, objects = [], []
    names = [item.name for item in graph.input if item.name not in weights]
    for item in graph.input:
        if item.name in weights:
            continue
        with faults.noted():
            value = _input(onnx, item, shapes, symbols)
            if value is None:
                objects.append(item.name)
            else:
                inputs.append(value)
    for name in sorted({n for n in names if names.count(n) > 1}):
        faults.add(f"input {name!r} is declared twice")
    unknown = sorted({*map(str, shapes)} - {*names})
    if unknown:
        has = ", ".join(v.name for v in inputs) or "none"
        faults.add(f"the model has no input {unknown[0]!r} to shape; inputs: {has}")
    return inputs, objects, names


def _input(
    onnx: Any, item: Any, shapes: Mapping[str, Sequence[Any]], symbols: Symbols | None
) -> Value | None:
    """A declared input; None where it is no tensor of numbers."""
    what = f"input {item.name!r}"
    if item.type.WhichOneof("value") != "tensor_type":
        kind = item.type.WhichOneof("value")
        if kind not in ("sequence_type", "optional_type", "map_type"):
            raise ImportModelError(f"{what} is of {kind or 'no type'}, which is not supported")
        return None
    tensor_type = item.type.tensor_type
    dtype = carried(element_type(onnx, tensor_type.elem_type, what))
    if dtype is None:
        return None
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
        if isinstance(extent, str) or (extent is None and symbols is not None):
            name = extent or d.dim_param or f"{item.name}.{k}"
            likely = LIKELY_BATCH if k == 0 else LIKELY_PIXELS if len(dims) > 3 else LIKELY
            if symbols is None:
                raise ImportModelError(f"{what}: extents are numbers here, got {extent!r}")
            extent = symbols.size(name, likely)
        if extent is None and k > 0:
            raise ImportModelError(
                f"{what}: dimension {k} ({d.dim_param or '?'}) is open; "
                f"give shapes={{{item.name!r}: (...)}}"
            )
        if fixed is not None and (isinstance(extent, Size) or extent != fixed):
            raise ImportModelError(f"{what}: dimension {k} is {fixed} in the model, got {extent}")
        shape.append(1 if extent is None else extent)
    if any(d < 0 for d in shape):
        raise ImportModelError(f"{what}: extents must not be negative, got shape {shape}")
    return Value(item.name, shape, dtype)
