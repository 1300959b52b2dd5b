"""Random small ONNX graphs, over types, shapes and operator sets; nodes: graph_operators.py.

A graph is drawn node by node over values whose arrays are known, by an evaluator that the oracle
gives; so indices stay in range and divisors away from zero.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {
    "float": np.float32, "double": np.float64, "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_,
}  # fmt: skip
FLOATS = ("float", "float", "double", "float16", "bfloat16")
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 17)
NEWEST = onnx.defs.onnx_opset_version()


def is_float(a: Array) -> bool:
    return a.dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


Inputs = tuple[list[str], dict[str, Any]]
Operator = Callable[["Draws", str], Inputs]
"""The names of a node's inputs, and its attributes."""


class NoDraw(Exception):
    """This operator does not fit what there is; another one is drawn."""


@dataclass
class Drawn:
    """A graph: nodes, the arrays of its inputs and weights, and the names of its outputs."""

    opset: int
    nodes: list[Any] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    outputs: list[str] = field(default_factory=list)

    def inputs(self) -> dict[str, Array]:
        return {k: a for k, a in self.arrays.items() if k not in self.weights}

    def model(self) -> Any:
        """The graph as ONNX; types and shapes of outputs are inferred."""
        infos = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for k, a in self.arrays.items()
            if k not in self.weights
        ]
        weights = [
            onnx.numpy_helper.from_array(a, k) for k, a in self.arrays.items() if k in self.weights
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        body = helper.make_graph(self.nodes, "drawn", infos, outputs, weights)
        sets = [helper.make_opsetid("", self.opset)]
        made = helper.make_model(body, opset_imports=sets, ir_version=10)
        return onnx.shape_inference.infer_shapes(made)


class Draws:
    """The state of a drawing. `evaluate` gives the outputs of a node, and whether each is exact."""

    def __init__(
        self, rng: random.Random, evaluate: Callable[..., Any], operators: Mapping[str, Operator]
    ) -> None:
        self.rng = rng
        self.operators = operators
        self.np_rng = np.random.default_rng(rng.randrange(1 << 30))
        self.drawn = Drawn(rng.randint(7, NEWEST))
        self.values: dict[str, Array] = {}
        self.exact: set[str] = set()
        self.evaluate = evaluate

    @property
    def opset(self) -> int:
        return self.drawn.opset

    def graph(self, nodes: int) -> Drawn:
        for _ in range(nodes * 20):
            if len(self.drawn.nodes) >= nodes:
                break
            try:
                self._node(self.rng.choice(list(self.operators)))
            except NoDraw:
                continue
        read = {name for node in self.drawn.nodes for name in node.input}
        made = [name for node in self.drawn.nodes for name in node.output]
        self.drawn.outputs = [n for n in made if n not in read or self.rng.random() < 0.1]
        used = read | set(self.drawn.outputs)
        self.drawn.arrays = {k: a for k, a in self.drawn.arrays.items() if k in used}
        return self.drawn

    def _node(self, kind: str) -> None:
        inputs, attrs = self.operators[kind](self, kind)
        name = f"v{len(self.drawn.nodes)}"
        node = helper.make_node(kind, inputs, [name], name=f"n_{name}", **attrs)
        given = [self.values.get(i) for i in inputs]
        result, exact = self.evaluate(
            self.drawn.opset, node, given, set(inputs) <= self.exact | {""}
        )
        if result.size > 20_000 or result.ndim > 6:
            raise NoDraw
        self.drawn.nodes.append(node)
        self.values[name] = result
        if exact:
            self.exact.add(name)

    def types(self, kind: str, parameter: str = "T") -> list[str]:
        """Names of the types that an operator takes in this operator set."""
        try:
            schema = onnx.defs.get_schema(kind, self.opset)
        except onnx.defs.SchemaError as error:
            raise NoDraw from error
        rows = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        allowed = rows.get(parameter) or schema.inputs[0].types
        return [t for t in TYPES if f"tensor({t})" in allowed]

    def leaf(self, a: Array, known: bool | None = None) -> str:
        """An array as an input or, if `known`, a weight."""
        name = f"x{len(self.drawn.arrays)}"
        self.drawn.arrays[name] = self.values[name] = np.asarray(a)
        self.exact.add(name)
        if known if known is not None else self.rng.random() < 0.35:
            self.drawn.weights.add(name)
        return name

    def known(self, values: Sequence[int] | int, dtype: Any = np.int64) -> str:
        return self.leaf(np.asarray(values, dtype), True)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = self.rng.randint(least, most)
        extents = [self.rng.choice(EXTENTS) for _ in range(rank)]
        if extents and self.rng.random() < 0.03:
            extents[self.rng.randrange(rank)] = 0
        while np.prod(extents) > 3000:
            extents[int(np.argmax(extents))] = 2
        return tuple(extents)

    def array(self, shape: Sequence[int], kind: str) -> Array:
        """Small numbers, on which most arithmetic is exact; sometimes any."""
        dtype, wild = np.dtype(TYPES[kind]), self.rng.random()
        if kind == "bool":
            return self.np_rng.random(shape) < 0.5
        if kind in FLOATS:
            if wild < 0.6:
                return (self.np_rng.integers(-16, 17, shape) / 4).astype(dtype)
            return np.asarray(self.np_rng.standard_normal(shape) * 2).astype(dtype)
        info = np.iinfo(dtype)
        if wild < 0.3:
            return self.np_rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return self.np_rng.integers(max(info.min, -9), 10, shape).astype(dtype)

    def data(
        self, kind: str, parameter: str = "T", rank: tuple[int, int] = (0, 4), exact: bool = False
    ) -> str:
        """A value that the operator takes: one that there is, or a new one."""
        types = self.types(kind, parameter)
        fits = [
            n
            for n, a in self.values.items()
            if any(a.dtype == TYPES[t] for t in types)
            and rank[0] <= a.ndim <= rank[1]
            and (not exact or n in self.exact)
        ]
        if fits and self.rng.random() < 0.75:
            return self.rng.choice(fits[-4:])
        chosen = [t for t in FLOATS if t in types] if self.rng.random() < 0.6 else types
        return self.leaf(self.array(self.shape(*rank), self.rng.choice(chosen or types)))

    def like(self, name: str, shape: Sequence[int] | None = None, **how: Any) -> str:
        """A new value of the type of another one; without `shape`, one that is stretched to it."""
        a = self.values[name]
        if shape is None:
            cut = self.rng.choice((0, 0, 0, self.rng.randint(0, a.ndim)))
            shape = [1 if self.rng.random() < 0.2 else d for d in a.shape[cut:]]
        kind = next(t for t, d in TYPES.items() if a.dtype == d)
        return self.leaf(self.array(shape, kind), **how)

    def axis(self, rank: int) -> int:
        return self.rng.randrange(-rank if self.opset >= 11 else 0, rank)
