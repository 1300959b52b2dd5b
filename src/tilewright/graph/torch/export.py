"""from_torch: a network from a PyTorch module, through torch.export."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from ...base.errors import ImportModelError, TilewrightError
from ..ir import Graph, Value, constant
from ..limits import Budget
from .complexes import Complex, any_complex
from .extents import Extents
from .importer import (
    Importer,
    array_of,
    decompositions,
    graph_of,
    is_ordered_check,
    real_type,
    type_name,
)

_TRACING = RLock()
"""PyTorch traces and decomposes one program at a time."""

_BROKEN = object()
"""A number that is no whole one, computed of open extents."""

_TOKEN = "token"
"""What torch.export hands from one call with effects to the next, to keep their order."""


def from_torch(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    dynamic_shapes: Any = None,
) -> Graph:
    """Read a torch.nn.Module, called as module(*args, **kwargs), or a torch.export.ExportedProgram.

    Inputs have the names of `forward`'s arguments, and the shapes of those given, but for what
    `dynamic_shapes`, as of torch.export.export, leaves open: each call gives such sizes, within the
    ranges that PyTorch states for them, and the network is compiled once for all. Outputs are
    output_0, output_1 ... in the order in which `forward` returns tensors. Weights share their
    memory with the module: they are read when the graph is compiled. A module in training mode is
    read as it is, so call `eval()` first.

    Raises ImportModelError where torch.export cannot follow the module, where it changes its own
    buffers or inputs, and with all operators that are not supported.
    """
    try:
        import torch
        from torch.export import ExportedProgram, export
    except ModuleNotFoundError as error:
        raise ImportModelError(
            f"modules are read with PyTorch, which is not installed ({error}): "
            "pip install 'tilewright[torch]'"
        ) from error

    if isinstance(module, ExportedProgram):
        if args or kwargs or dynamic_shapes:
            raise ImportModelError("an ExportedProgram has its arguments already, and their shapes")
        program = module
    elif isinstance(module, torch.nn.Module):
        how: dict[str, Any] = {"strict": False, "dynamic_shapes": dynamic_shapes}
        try:
            with _TRACING:
                program = export(module, tuple(args), dict(kwargs or {}), **how)
        except Exception as error:  # whatever tracing a user's code runs into
            raise ImportModelError(
                f"torch.export cannot read {type(module).__name__}: {_hint(error, args)}{error}"
            ) from error
    else:
        raise ImportModelError(f"a module is a torch.nn.Module, not {type(module).__name__}")
    name = name or type(module).__name__
    return _graph(name, _decomposed(program))


_IN_PARTS = (
    'torch.compile(module, backend="tilewright") compiles what can be, and leaves the rest to '
    "PyTorch"
)


def _hint(error: Exception, args: Sequence[Any]) -> str:
    """What would be right, where that is known; PyTorch's own words follow."""
    text = str(error)
    if not args and "required argument" in text:
        return "give inputs to call it with, as in from_torch(module, (torch.zeros(1, 3),)). "
    if "data-dependent" in text:
        return (
            "what it computes, or its shapes, depends on values of tensors, as with `if x.sum() > "
            f"0`; torch.where chooses without that, and {_IN_PARTS}. "
        )
    return ""


def _decomposed(program: Any) -> Any:
    with _TRACING, warnings.catch_warnings():
        # PyTorch 2.13 copies what it has itself deprecated: nothing that a user could mend
        warnings.filterwarnings("ignore", r".*LeafSpec", FutureWarning)
        return program.run_decompositions(decompositions())


def _graph(name: str, program: Any) -> Graph:
    from torch.export.graph_signature import InputKind, OutputKind

    signature = program.graph_signature
    for spec in signature.output_specs:
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.TOKEN):
            raise ImportModelError(
                f"the module changes {spec.target or spec.arg.name!r} when called"
            )
    nodes = list(program.graph.nodes)
    metas = {n: n.meta.get("val") for n in nodes}
    weights = _weights(program)
    placed = [n for n in nodes if n.op == "placeholder"]
    extents = Extents([n for n in placed if n.name not in weights])
    extents.keep_to(program.range_constraints)
    budget = Budget(sum(a.nbytes for a in weights.values()))
    importer = Importer(budget, metas, extents.of, complexes=True)
    inputs = []
    for spec, node in zip(signature.input_specs, placed):
        if node.name in weights:
            importer.known[node] = _constant(spec.target or node.name, weights[node.name])
        elif spec.kind == InputKind.TOKEN:
            importer.known[node] = _TOKEN
        elif hasattr(metas[node], "dtype"):
            value = _input(node.name, metas[node], extents)
            inputs.append(value)
            importer.known[node] = value
        else:  # a number or a text, which torch.export keeps as it was
            importer.known[node] = spec.arg.value if hasattr(spec.arg, "value") else metas[node]
    importer.builder.budget.declare(inputs)
    failed: dict[str, list[str]] = {}
    outputs: list[Value] = []
    with extents.symbols.asking():
        for node in nodes:
            if node.op == "get_attr":  # a graph, which an operator of control takes
                importer.known[node] = node.target
            elif node.op == "call_function":
                _convert(importer, node, failed)
            elif node.op == "output" and not failed:
                found = importer.reads(list(node.args[0]))
                outputs = [v for v in found if isinstance(v, Value)]
                if any_complex(found):
                    raise ImportModelError(
                        "the module returns complex numbers; torch.view_as_real gives them as pairs"
                    )
    if failed:
        lines = [f"  {kind}: {'; '.join(why[:3])}" for kind, why in sorted(failed.items())]
        raise ImportModelError(
            "the module has operators that are not supported (operator: reason):\n"
            + "\n".join(lines)
            + f"\n{_IN_PARTS}"
        )
    return graph_of(name, inputs, outputs, importer.builder)


def _convert(importer: Importer, node: Any, failed: dict[str, list[str]]) -> None:
    """Convert a call; what reads one that failed is not tried."""
    if any(n not in importer.known for n in node.all_input_nodes):
        return
    if not node.users:
        return
    if is_ordered_check(node):
        importer.known[node] = [_TOKEN]
        return
    kind = type(importer.metas.get(node)).__name__
    if kind == "SymFloat":  # on the way to an extent, which PyTorch tells as a whole
        importer.known[node] = _BROKEN
        return
    try:
        if kind != "SymInt" and any(importer.known[n] is _BROKEN for n in node.all_input_nodes):
            raise ImportModelError("it takes a number that is computed of open extents")
        importer.convert(node)
    except TilewrightError as error:
        failed.setdefault(str(node.target), []).append(str(error))


def _weights(program: Any) -> dict[str, Any]:
    """The arrays of parameters, buffers and constants by the names of their placeholders."""
    import torch

    signature = program.graph_signature
    held = {**program.constants, **program.state_dict}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    found = {node: held[target] for node, target in names.items()}
    for node, tensor in found.items():
        known = type_name(tensor.dtype) or real_type(tensor.dtype)
        if known is None or tensor.device != torch.device("cpu"):
            raise ImportModelError(f"{names[node]} is {tensor.dtype} on {tensor.device}")
    return {node: array_of(tensor.resolve_conj().contiguous()) for node, tensor in found.items()}


def _constant(name: str, data: Any) -> Value | Complex:
    if np.iscomplexobj(data):
        return Complex(constant(f"{name}.real", data.real), constant(f"{name}.imag", data.imag))
    return constant(name, data)


def _input(name: str, meta: Any, extents: Extents) -> Value:
    dtype = type_name(meta.dtype)
    if dtype is None:
        raise ImportModelError(f"input {name!r} is {meta.dtype}, which is not supported")
    return Value(name, [extents.of(d) for d in meta.shape], dtype)
