"""Recurrent layers as a target computes them.

On CPUs each is one kernel, whose weights lie in blocks of columns; on devices one step follows the
other, since the threads of a launch do not wait for each other. Of a few rows a step is a kernel,
or two where a GRU resets its state before the product; of more, products are, and what follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import CompileError
from ...target.target import Target
from ...topi.nn.recurrent_layer import products_of
from ...topi.schedules.gpu.machine import GpuMachine
from ...topi.schedules.gpu.recurrent import takes_step
from ...topi.schedules.machine import Machine
from ...topi.schedules.recurrent import recurrent_tile
from ..evaluate import evaluate
from ..ir import Graph, Node, Value, constant
from ..ops import node_of
from ..ops.recurrent import OPTIONAL, functions_of
from ..sizes import Size

LAYER = "recurrent_layer"
AT_ONCE = 16
"""Arrays that one kernel joins: it chooses among them at each element."""


def recurrent(graph: Graph, target: Target) -> Graph:
    """Rewrite recurrent layers for a target."""

    def instead(node: Node) -> list[Node] | None:
        if node.op != LAYER:
            return None
        if "gpu" not in target.keys:
            return _packed(node, Machine.of(target))
        batch, _, hidden = node.inputs[1].shape
        if isinstance(node.inputs[0].shape[0], Size):
            raise CompileError(
                f"{node.name}: devices compute a recurrent layer step by step, and how many steps "
                "there are is not known; fix the length of its input (shapes={...})"
            )
        few = not isinstance(batch, Size) and takes_step(batch, hidden, GpuMachine.of(target))
        return (_Steps if few else _Products)(node).nodes

    return graph.rewrite(instead)


class _Made:
    """The nodes that take the place of one; what constants alone decide is computed."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        name = f"{self.node.name}.{len(self.nodes)}"
        if all(v.is_constant for v in inputs):
            return constant(f"{inputs[0].name}.{op}", evaluate(op, inputs, attrs))
        self.nodes.append(node_of(op, inputs, name, attrs))
        return self.nodes[-1].output

    def part(self, v: Value, axis: int, begin: int, end: int) -> Value:
        begins, ends = [0] * len(v.shape), list(v.shape)
        begins[axis], ends[axis] = begin, end
        return self("slice", v, begin=begins, end=ends, strides=[1] * len(v.shape))

    def join(self, values: Sequence[Value], axis: int) -> Value:
        while len(values) > AT_ONCE:
            parts = range(0, len(values), AT_ONCE)
            values = [self.join(values[k : k + AT_ONCE], axis) for k in parts]
        return values[0] if len(values) == 1 else self("concat", *values, axis=axis)


def _packed(node: Node, machine: Machine) -> list[Node]:
    """The layer with its weights in blocks, as many columns of each gate as a tile has."""
    made = _Made(node)
    inputs, initial, *rest = node.inputs
    gates = list(map(len, products_of(node.attrs["kind"], functions_of(node.attrs))))
    batch, _, hidden = initial.shape
    likely = batch.likely if isinstance(batch, Size) else batch
    rows, columns = recurrent_tile(likely, hidden, max(gates), initial.dtype, machine)
    blocks = -(-hidden // columns)
    packed = []
    for count, weights in zip(gates, rest):
        w = made("reshape", weights, shape=(count, hidden, hidden))
        after = [0, blocks * columns - hidden, 0]
        w = made("pad", w, before=[0, 0, 0], after=after, value=0) if any(after) else w
        w = made("reshape", w, shape=(count, blocks, columns, hidden))
        packed.append(made("transpose", w, axes=(1, 3, 0, 2)))
    reads = [inputs, initial, *packed, *rest[len(gates) :]]
    attrs = {**node.attrs, "rows": rows}
    return [*made.nodes, Node(LAYER, node.name, reads, node.outputs, attrs)]


class _Steps(_Made):
    """One step after another. Their kernels are the same code, since the number of the step is
    data."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.how = functions_of(node.attrs)
        self.kind = str(node.attrs["kind"])
        self.inputs, initial, *rest = node.inputs
        count = len(products_of(self.kind, self.how))
        self.weights, given = rest[:count], iter(rest[count:])
        self.more = {name: next(given) for name in OPTIONAL if node.attrs[name]}
        columns = self._columns(initial)
        self.nodes.append(Node("identity", node.name, columns, node.outputs))

    def _numbers(self) -> list[Value]:
        """The numbers of the steps, in the order in which they are computed."""
        steps = range(self.inputs.shape[0])
        order = reversed(steps) if self.node.attrs["backwards"] else steps
        return [constant(f"{self.node.name}.step", np.asarray(t, np.int32)) for t in order]

    def _columns(self, initial: Value) -> list[Value]:
        """The states before the first step, and after each."""
        rows = [self("reshape", initial, shape=(1, *initial.shape))]
        attrs = {k: v for k, v in self.node.attrs.items() if k not in ("backwards", "rows")}
        for step in self._numbers():
            given, weights = [self.inputs, step, rows[-1]], self.weights
            if len(weights) > 1:
                given.append(self("recurrent_reset", *given, weights[0], **attrs))
                weights = weights[1:]
            rows.append(self("recurrent_step", *given, *weights, *self.more.values(), **attrs))
        return [self.join(rows, 0)]


class _Products(_Steps):
    """Steps whose products are kernels of their own."""

    def _columns(self, initial: Value) -> list[Value]:
        self.batch, kept, self.hidden = initial.shape
        if self.kind == "GRU":
            self._prepare_gru()
        states = [
            self("reshape", self.part(initial, 1, k, k + 1), shape=(self.batch, self.hidden))
            for k in range(kept)
        ]
        rows = [states]
        for step in self._numbers():
            states = self._step(step, states)
            rows.append(states)
        one = (1, self.batch, 1, self.hidden)
        columns = [
            self.join([self("reshape", row[k], shape=one) for row in rows], 0) for k in range(kept)
        ]
        return [self("concat", *columns, axis=2)] if kept > 1 else columns

    def _prepare_gru(self) -> None:
        """Products as steps take them: of the gates, and where the state is reset before, of what
        is kept of it."""
        if not self.how.reset_after:
            reset, update, last = self.weights
            self.weights = [self("concat", update, reset, axis=0), last]
        elif "state_bias" in self.more:
            bias = self.more["state_bias"]
            zeros = constant(f"{bias.name}.zeros", np.zeros(2 * self.hidden, bias.dtype))
            self.more["state_bias"] = self("concat", zeros, bias, axis=0)

    def _cell(
        self, op: str, step: Value, product: Value, *more: Value, peeps: bool = False
    ) -> Value:
        optional = [self.more["lengths"]] if "lengths" in self.more else []
        if peeps and "peepholes" in self.more:
            optional = [self.more["peepholes"], *optional]
        names = ("lengths", "functions", "coupled", "reset_after", "clip")
        attrs = {name: self.node.attrs[name] for name in names}
        attrs |= {"hidden": self.hidden, "peepholes": peeps and self.node.attrs["peepholes"]}
        return self(op, self.inputs, step, product, *more, *optional, **attrs)

    def _step(self, step: Value, states: list[Value]) -> list[Value]:
        h, *rest = states
        product = self("dense", h, self.weights[0])
        if self.kind == "RNN":
            return [self._cell("rnn_cell", step, product, h)]
        if self.kind == "LSTM":
            after = self._cell("lstm_cell", step, product, rest[0], peeps=True)
            return [self._cell("lstm_output", step, product, h, after, peeps=True), after]
        if self.how.reset_after:
            if "state_bias" in self.more:
                product = self("bias_add", product, self.more["state_bias"], axis=1)
            return [self._cell("gru_cell", step, product, h, product)]
        kept = self._cell("gru_reset", step, product, h)
        return [self._cell("gru_cell", step, product, h, self("dense", kept, self.weights[1]))]
