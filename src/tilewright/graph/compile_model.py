"""`tilewright.compile`: from a model, in whatever form, to a network that runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..base.errors import ImportModelError, TilewrightError
from ..rt.network import Executable
from .build import Network, target_for
from .build import compile as compile_graph
from .compile_kernels import Progress
from .device import DeviceExecutable
from .ir import Graph
from .open import OpenExecutable

log = logging.getLogger(__name__)


def compile(
    model: Any,
    target: Any = "llvm",
    *,
    precision: str | None = None,
    dtype: str = "float32",
    records: Any = None,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    overridable: Collection[str] = (),
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a model: `net = tilewright.compile("model.onnx"); outputs = net(image)`.

    model: the path of an ONNX file, its bytes, an onnx.ModelProto, a torch.nn.Module, or a
    graph.Graph. shapes: extents of inputs whose dimensions the model leaves open, (8, 3, 224, 224)
    by the input's name. What stays open is known at each call: such a network is compiled once for
    all sizes (an `OpenExecutable`). In `shapes` a name or None leaves a dimension open, too.
    overridable: initialisers of an ONNX file that its graph declares as inputs, too, and that calls
    may give: net(image, scale=2 * scale). Others are constants, and so are these in calls that
    leave them out.
    args, kwargs: what a torch.nn.Module is called with, as for `from_torch`.
    precision: in which weights are kept, "float32", "float16" or "bfloat16", and values between
    kernels where the target multiplies such numbers; `dtype` is its name in `graph.compile`. The
    rest is as there: a target such as "llvm" or "cuda", a file of records that tuning wrote,
    `progress(done, total, name)`.

    Raises ImportModelError where the model cannot be read, CompileError where it cannot be
    compiled.
    """
    dtype = dtype if precision is None else precision
    if overridable and (isinstance(model, Graph) or args is not None or kwargs is not None):
        raise ImportModelError("overridable names initialisers of ONNX files; this is none")
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
        given = bytes(model) if isinstance(model, bytearray) else model
        options = {"dtype": dtype, "records": records}
        opened = compile_open(given, shapes or {}, target, options, progress, overridable)
        if opened is not None:
            return opened
        graph = load_onnx(given, shapes, overridable=overridable)
    return compile_graph(graph, target, dtype=dtype, records=records, progress=progress)


def compile_open(
    model: Any,
    shapes: Mapping[str, Sequence[int | str | None]],
    target: Any,
    options: Mapping[str, Any],
    progress: Progress | None = None,
    overridable: Collection[str] = (),
) -> OpenExecutable | None:
    """A model that leaves extents of its inputs open, for all of them; None where it does not.

    Where an operator does not take such sizes, a warning says which, and each shape is compiled
    when it first occurs.
    """
    from .onnx.load import load_onnx, open_inputs

    found = open_inputs(model, shapes, overridable)
    if found is None:
        return None
    name, inputs = found
    chosen = target_for(target, options["dtype"])
    whole: Executable | DeviceExecutable | None = None
    try:
        graph = load_onnx(model, shapes, symbolic=True, overridable=overridable)
        made = compile_graph(graph, chosen, **options, progress=progress)
        assert isinstance(made, (Executable, DeviceExecutable)), "the graph has no rest"
        whole = made
    except (TilewrightError, TypeError, ValueError) as error:
        if isinstance(error, ImportModelError) and error.of_model:
            raise
        log.warning("%s is compiled for each shape of its inputs by itself: %s", name, error)

    def fixed(known: Mapping[str, tuple[int, ...]]) -> Any:
        return compile_graph(load_onnx(model, known, overridable=overridable), chosen, **options)

    return OpenExecutable(name, inputs, chosen, whole, fixed)
