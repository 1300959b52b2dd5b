"""What converters of ONNX operators work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtype import canonical, parse
from ...base.errors import ImportModelError
from ...topi.elemwise import accumulator
from ..evaluate import evaluate, evaluate_sizes, is_quick
from ..ir import Node, Value, constant, constant_sizes
from ..limits import Budget, require, span
from ..ops import OPS, infer
from ..ops.spec import MOVED
from ..shapes import is_open, symbols_in
from .node import Asked

Array = np.ndarray[Any, Any]


class NotKnownError(ImportModelError):
    """An operator asks for the value of an input that is computed when the network runs."""

    def __init__(self, text: str, value: Value) -> None:
        super().__init__(text)
        self.value = value


class OnHostError(ImportModelError):
    """This node, with these types and attributes, is left to Python (`host.HOST`)."""


class Builder:
    """Collects the nodes that an ONNX graph turns into."""

    def __init__(self, opset: int, budget: Budget | None = None) -> None:
        self.opset = opset
        self.budget = Budget(0) if budget is None else budget
        self.nodes: list[Node] = []
        self.names: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else f"{name}.{count}"

    def add(self, op: str, inputs: Sequence[Value], name: str = "", **attrs: Any) -> Value:
        """Append an operation; its output has the inferred shape and dtype. Constants are
        folded.
        """
        name = self.fresh(name or op)
        if any(v.has_sizes for v in inputs):
            if all(v.is_constant for v in inputs):
                known = evaluate_sizes(op, inputs, attrs)
                if known is not None:
                    if known.dtype != object:
                        return constant(name, known)
                    sized = next(v for v in inputs if v.has_sizes)
                    return constant_sizes(name, known, attrs.get("dtype", sized.dtype))
            inputs = [self._computed(v) if v.has_sizes else v for v in inputs]
        shape, dtype = infer(op, inputs, attrs)
        out = Value(name, shape, dtype)
        known_now = inputs and all(v.is_constant for v in inputs)
        if known_now and not symbols_in([shape, *attrs.values()]) and is_quick(op, inputs, attrs):
            self.budget.spend(span(out), repr(out))
            folded = constant(name, evaluate(op, inputs, attrs))
            if _keeps_recipe(op, inputs, dtype, attrs):
                folded.recipe = Node(op, name, inputs, [out], attrs)
            return folded
        require(span(out), repr(out))
        self.nodes.append(Node(op, name, inputs, [out], attrs))
        return out

    def _computed(self, v: Value) -> Value:
        """A constant that holds sizes, as a value that the network computes."""
        assert v.data is not None
        if v.data.ndim > 1:
            flat = constant_sizes(v.name, v.data.reshape(-1), v.dtype)
            return self.add("reshape", [self._computed(flat)], v.name, shape=v.shape)
        found = self.add("extents", [], v.name, values=tuple(v.data.flat), rank=v.data.ndim)
        return found if v.dtype == "int64" else self.add("cast", [found], v.name, dtype=v.dtype)

    def output(self, v: Value, others: Sequence[Value], name: str) -> Value:
        """A value as an output of the network: none of `others`, and no input; sizes are computed,
        since they are known at each call only."""
        if v.has_sizes:
            return self._computed(v)
        return self.add("identity", [v], name) if v.producer is None or v in others else v

    def sizes(self, data: Sequence[Any], name: str = "shape") -> Value:
        """A constant of whole numbers, some of which may not be known before the network runs."""
        return constant_sizes(self.fresh(name), np.asarray(data, object))

    def constant(self, data: Any, name: str = "const") -> Value:
        return constant(self.fresh(name), np.asarray(data))

    def full(self, shape: Sequence[int], value: Any, dtype: Any, name: str) -> Value:
        """A constant whose elements are all one number."""
        if is_open(shape):
            one = self.constant(np.asarray(value, dtype), name + ".value")
            return self.add("broadcast_to", [one], name, shape=tuple(shape))
        out = Value(self.fresh(name), shape, canonical(dtype))
        self.budget.spend(span(out), repr(out))
        out.data = np.full(out.shape, value, dtype)
        return out


def _keeps_recipe(op: str, inputs: Sequence[Value], dtype: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a pass may want to know how a constant was computed: of whole numbers, or with
    results rounded to a narrow float."""
    known = any(v.recipe is not None for v in inputs)
    moved = OPS[op].precision == MOVED
    rounded = parse(dtype).is_float and accumulator(dtype) != dtype and not attrs.get("rounds")
    return op == "dequantize" or (op == "transpose" and known) or (rounded and (known or not moved))


class OnnxNode(Asked):
    """One with its inputs as values (None where left out), attributes as Python data."""

    fault = ImportModelError

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[str],
        attrs: Mapping[str, Any],
    ) -> None:
        self.kind = kind
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.attrs = attrs

    def input(self, index: int) -> Value:
        """A required input."""
        value = self.optional(index)
        if value is None:
            raise self.error(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def array(self, index: int, default: Any = None) -> Any:
        """An input that has to be known when the network is compiled."""
        value = self.optional(index)
        if value is None:
            return default
        if value.data is None:
            text = self.error(f"input {index} ({value.name}) must be a constant")
            raise NotKnownError(str(text), value)
        return value.data


Converter = Callable[[Builder, OnnxNode], Any]
