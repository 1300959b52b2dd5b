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
    precision: str | None = None,
    dtype: str = "float32",
    records: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a model: `net = tilewright.compile("model.onnx"); outputs = net(image)`.

    model: the path of an ONNX file, its bytes, an onnx.ModelProto, or a graph.Graph. shapes:
    extents of inputs whose dimensions the model leaves open, (8, 3, 224, 224) by the input's name.
    precision: in which weights and values between kernels are kept, "float32", "float16" or
    "bfloat16"; `dtype` is its name in `graph.compile`. The rest is as there: a target such as
    "llvm" or "cuda", a file of records that tuning wrote, `progress(done, total, name)`.

    Raises ImportModelError where the model cannot be read, CompileError where it cannot be
    compiled.
    """
    if isinstance(model, Graph):
        if shapes:
            raise ImportModelError("shapes are for models; those of a Graph are fixed already")
        graph = model
    else:
        from .onnx.load import load_onnx

        known = isinstance(model, (str, bytes, bytearray, os.PathLike))
        if not known and not hasattr(model, "SerializeToString"):
            raise ImportModelError(
                "a model is a path, the bytes of an ONNX file, an onnx.ModelProto or a "
                f"graph.Graph, not {type(model).__name__}"
            )
        graph = load_onnx(bytes(model) if isinstance(model, bytearray) else model, shapes)
    dtype = dtype if precision is None else precision
    return compile_graph(graph, target, dtype=dtype, records=records, progress=progress)
