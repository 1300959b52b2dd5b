"""What an ONNX file with quantised data gives in float64, by ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


def run_exact(model: Any, data: Arrays, names: Sequence[str]) -> Arrays | None:
    """The outputs `names` with all floats of the file taken as float64; None where the evaluator
    has no such operator."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun, RuntimeImplementationError

    made = in_float64(model)
    own: list[type[OpRun]] = list(_operators())
    wide = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in data.items()}
    wanted = {v.name for v in made.graph.input}
    try:
        outputs = ReferenceEvaluator(made, new_ops=own).run(
            list(names), {n: x for n, x in wide.items() if n in wanted}
        )
    except (NotImplementedError, RuntimeImplementationError, ValueError):
        return None
    return dict(zip(names, map(np.asarray, outputs)))


def in_float64(model: Any) -> Any:
    """A file with constants, casts and inputs of float32 in float64."""
    import onnx
    from onnx import TensorProto, numpy_helper

    made = onnx.ModelProto()
    made.CopyFrom(model)

    def widen(tensor: Any) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    for tensor in made.graph.initializer:
        widen(tensor)
    for node in made.graph.node:
        for attr in node.attribute:
            if attr.HasField("t"):
                widen(attr.t)
            if node.op_type == "Cast" and attr.name == "to" and attr.i == TensorProto.FLOAT:
                attr.i = TensorProto.DOUBLE
        if node.op_type in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"):
            node.domain = DOMAIN
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return made


DOMAIN = "exact"


def _stretched(p: Any, x: Any, axis: int) -> Any:
    """A scale or zero point for each index of an axis, or one for all, in float64."""
    p = np.asarray(p, np.float64)
    if p.size == 1:
        return p.reshape(())
    return p.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _operators() -> Sequence[Any]:
    """The conversions, which the evaluator has in float32 only, and a gather that it fails at."""
    from onnx.reference.op_run import OpRun

    class QuantizeLinear(OpRun):
        op_domain = DOMAIN

        def _run(self, x: Any, scale: Any, zero: Any = None, axis: int = 1, **_more: Any) -> Any:
            kind = np.uint8 if zero is None else zero.dtype
            info = np.iinfo(kind)
            moved = 0 if zero is None else _stretched(zero, x, axis)
            whole = np.rint(np.asarray(x, np.float64) / _stretched(scale, x, axis)) + moved
            return (np.clip(whole, info.min, info.max).astype(kind),)

    class DequantizeLinear(OpRun):
        op_domain = DOMAIN

        def _run(self, x: Any, scale: Any, zero: Any = None, axis: int = 1, **_more: Any) -> Any:
            moved = 0 if zero is None else _stretched(zero, x, axis)
            return ((x.astype(np.float64) - moved) * _stretched(scale, x, axis),)

    class DynamicQuantizeLinear(OpRun):
        op_domain = DOMAIN

        def _run(self, x: Any, **_more: Any) -> Any:
            low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
            scale = (high - low) / 255 or 1.0
            zero = np.clip(np.rint(-low / scale), 0, 255)
            whole = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
            return whole, np.asarray(scale), np.asarray(zero, np.uint8)

    class GatherElements(OpRun):
        op_domain = ""

        def _run(self, x: Any, indices: Any, axis: int = 0, **_more: Any) -> Any:
            at: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
            at[axis] = indices
            return (x[tuple(at)],)

    return QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, GatherElements
