"""What converters of PyTorch's operators work with.

A converter is a function of a `Call` and the operator's arguments: tensors are values of the graph,
everything else is Python data. It returns a value, or a list of them. The result has to have the
type that PyTorch gives it (`Call.dtype`); `Importer` compares that and the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.errors import TilewrightError
from ..ir import Value
from ..onnx.compose import Compose
from ..onnx.convert import Builder, OnnxNode
from ..onnx.converters import CONVERTERS as ONNX
from ..shapes import symbols_in
from ..sizes import Size

OPSET = 22
"""The version by which ONNX's converters read what is handed to them here."""

Result = Any
"""A value, or a list with None for what nobody computes."""
Converter = Callable[..., Any]


class Call(Compose):
    """One operator of a PyTorch graph. `dtypes`: of its results, canonical names; `promoted`: the
    type in which PyTorch takes its tensor arguments together; `read`: which results are read;
    `first`: how the first argument lies in PyTorch's memory (`importer.Meta`); `complex`: whether
    the first result is complex, the types then being those of halves."""

    def __init__(
        self,
        b: Builder,
        kind: str,
        name: str,
        dtypes: Sequence[str],
        promoted: str,
        read: Sequence[bool] = (True,),
        first: Any = None,
        complex: bool = False,
    ) -> None:
        super().__init__(b, OnnxNode(kind, name, [], [], {}))
        self.dtypes = list(dtypes)
        self.promoted = promoted
        self.read = list(read)
        self.first = first
        self.complex = complex

    @property
    def dtype(self) -> str:
        return self.dtypes[0]

    def value(self, x: Value | Size | float, dtype: str) -> Value:
        """An argument, tensor or number, as a value of a type."""
        if isinstance(x, Value):
            return self.cast(x, dtype)
        if isinstance(x, Size):
            return self.cast(self.integers(x), dtype)
        return self.number(x, dtype)

    def error(self, text: str) -> TilewrightError:
        return self.node.error(text)

    def onnx(
        self, kind: str, inputs: Sequence[Value | None], outputs: int = 1, **attrs: Any
    ) -> Any:
        """What ONNX's operator of that name becomes: one meaning, one converter."""
        names = [f"{self.name}.{k}" for k in range(outputs)]
        return ONNX[kind](self.b, OnnxNode(kind, self.name, inputs, names, attrs))

    def axis(self, axis: int, rank: int) -> int:
        """PyTorch lets a number have dimension 0."""
        return self.node.axis(axis, rank) if rank else 0

    def axes(self, axes: Any, rank: int) -> list[int]:
        """Dimensions of a reduction: one, several, none for all."""
        if axes is None or axes == []:
            return list(range(rank))
        given = [axes] if isinstance(axes, int) else list(axes)
        return self.node.axes(given, rank) if rank else []

    def integers(self, data: Any) -> Value:
        """Whole numbers, among which there may be sizes."""
        found = np.asarray(data, object) if symbols_in(data) is not None else np.asarray(data)
        if found.dtype == object:
            return self.b.sizes(found.tolist(), self.name + ".sizes")
        return self.constant(found.astype(np.int64))


def each(value: Any, rank: int) -> list[int]:
    """A number for each of `rank` dimensions, of which PyTorch may have been given one for all."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * rank if len(listed) == 1 else listed


def lowest(dtype: str) -> Any:
    """What is less than any other number of a type."""
    info = parse(dtype)
    return float("-inf") if info.is_float else info.min_value


def highest(dtype: str) -> Any:
    """What is more than any other number of a type."""
    info = parse(dtype)
    return float("inf") if info.is_float else info.max_value


def order_in_memory(meta: Any) -> tuple[int, ...] | None:
    """The dimensions of a dense tensor as they lie in memory; None where it is not dense."""
    shape, strides = meta.shape, meta.stride
    likely = [s.likely if isinstance(s, Size) else s for s in strides]
    order = sorted(range(len(shape)), key=lambda k: (-likely[k], shape[k] != 1, k))
    step: Any = 1
    for k in reversed(order):
        if shape[k] != 1 and strides[k] != step:
            return None
        step *= shape[k]
    there = [k for k in order if shape[k] != 1]
    return tuple(range(len(shape))) if there == sorted(there) else tuple(order)
