"""`tilewright.compile`: from a model, in whatever form, to a network that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import ImportModelError
from .build import Network, Progress
from .build import compile as compile_graph
from .ir import Graph


def compile(
    model: Any,
    target: Any = "llvm",
    *,
    dtype: str = "float32",
    records: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a model: `net = tilewright.compile("model.onnx"); outputs = net(image)`.

    model: the path of an ONNX file, its bytes, an onnx.ModelProto, a torch.nn.Module, or a
    graph.Graph. shapes: extents of inputs whose dimensions the model leaves open, (8, 3, 224, 224)
    by the input's name. args, kwargs: what a torch.nn.Module is called with, as for `from_torch`.
    The rest is as for `graph.compile`: a target such as "llvm" or "cuda", values between kernels in
    "float32" or "float16", a file of records that tuning wrote, `progress(done, total, name)`.

    Raises ImportModelError where the model cannot be read, CompileError where it cannot be
    compiled.
    """
    if isinstance(model, Graph):
        if shapes:
            raise ImportModelError("shapes are for models; those of a Graph are fixed already")
        graph = model
    elif args is not None or kwargs is not None:
        if shapes:
            raise ImportModelError("shapes are for models; those of a module are its arguments'")
        from .torch.export import from_torch

        graph = from_torch(model, args or (), kwargs)
    else:
        from .onnx.load import load_onnx

        known = isinstance(model, (str, bytes, bytearray, os.PathLike))
        if not known and not hasattr(model, "SerializeToString"):
            raise ImportModelError(
                "a model is a path, the bytes of an ONNX file, an onnx.ModelProto, a graph.Graph, "
                f"or a torch.nn.Module with args=(...), not {type(model).__name__}"
            )
        graph = load_onnx(bytes(model) if isinstance(model, bytearray) else model, shapes)
    return compile_graph(graph, target, dtype=dtype, records=records, progress=progress)
