"""Networks that are compiled while they run, part by part.

What a node becomes depends on the shapes of its inputs, sometimes on their values. Where these are
known before the network runs, it is one graph. Where they are not (results of NonZero, branches,
loops, sequences of tensors), the importer goes as far as it can: the nodes whose inputs are known
make one graph, which is compiled and run; then more is known, and the rest is imported in the same
way. A `Program` is such a rest. Between the graphs Python computes those nodes that are no
expressions on numbers (`host/`), and those that ask for a value.

Graphs are kept by the shapes that they were made for: a program that runs again on the same shapes
neither imports nor compiles. Bodies of loops and branches are programs too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.errors import InternalError
from ..ir import Graph, Value, constant
from .control import CONTROL
from .converters import CONVERTERS
from .course import KEPT, Course, Execute, Stages, Type, type_of
from .host import HOST
from .importer import Importer, hosted, own_body, told_of
from .model import Model, Pending, captured, pending_nodes
from .repeat import Body

Env = dict[str, Any]
"""Values by their names in the model: arrays, lists (sequences), None (an empty optional)."""
_SMALL = 4096
"""Elements: a node that asks for values and reads no more than so many is computed at once."""


@dataclass(frozen=True)
class Segment:
    """What can be compiled of a program once it is known what its inputs are.

    `same` names values that are others, under a further name.
    """

    graph: Graph
    same: Mapping[str, str]
    rest: Program

    def run(self, env: Env, execute: Execute) -> Program:
        """Compute it, and what is left then."""
        if self.graph.outputs:
            results = execute(self.graph)([env[v.name] for v in self.graph.inputs])
            env.update(zip((v.name for v in self.graph.outputs), results))
        env.update({name: env[other] for name, other in self.same.items()})
        return self.rest

    def finish(self, given: Mapping[str, Any], execute: Execute) -> list[Any]:
        """Everything from here to the end: the values that are wanted."""
        env = dict(given)
        return self.run(env, execute).finish(env, execute)


class Program:
    """Nodes that are left of a model, constants that are known, and what is wanted in the end."""

    def __init__(
        self,
        model: Model,
        name: str,
        pending: Sequence[Pending],
        known: Mapping[str, Value],
        held: Mapping[str, Any],
        wanted: Sequence[str],
    ) -> None:
        self.model = model
        self.name = name
        self.pending = list(pending)
        self.wanted = list(wanted)
        self.reads = dict.fromkeys(n for p in self.pending for n in p.reads)
        self.needed = dict.fromkeys([*self.reads, *self.wanted])
        self.known = {n: v for n, v in known.items() if n in self.needed}
        self.held = {n: v for n, v in held.items() if n in self.needed}
        self.stages = Stages()
        self._segments: OrderedDict[Any, Segment] = OrderedDict()
        self._after: dict[frozenset[str], tuple[list[Pending], Program]] = {}

    def finish(self, given: Mapping[str, Any], execute: Execute) -> list[Any]:
        """Compute the wanted values from those given."""
        return Course(self, given).begin({}, execute)([*given.values()], execute)

    def computed(
        self, p: Pending, reads: Env, execute: Execute, courses: dict[str, Course], same: bool
    ) -> list[Any]:
        """The results of one of its nodes, by Python; `courses` of its subgraphs are kept there.
        `same`: the types of what it reads are those of all calls with these."""
        return _computed(p, reads, execute, courses, same, self.known)

    def without_ready(self, names: set[str]) -> tuple[list[Pending], Program]:
        """Nodes for Python that have all they need where there are values of these names, in order,
        and the program without them."""
        have = frozenset(n for n in self.reads if n in names)
        if have not in self._after:
            there = {*have, *self.known}
            ready, left = [], []
            for p in self.pending:
                if p.on_host and there.issuperset(p.reads):
                    ready.append(p)
                    there.update(p.node.output)
                else:
                    left.append(p)
            rest = self
            if ready:
                rest = Program(self.model, self.name, left, self.known, self.held, self.wanted)
            self._after[have] = ready, rest
        return self._after[have]

    def segment_for(self, types: Mapping[str, Type]) -> Segment:
        """The graph for values of these types; made where there is none."""
        key = tuple(types.items())
        if key not in self._segments:
            tensors = {n: Value(n, t[1], t[0]) for n, t in types.items() if t is not None}
            objects = {n for n, t in types.items() if t is None}
            made = self.segment_of(self.imported(tensors, objects), tensors)
            if not made.graph.outputs and not made.same and _states(made.rest) == _states(self):
                names = ", ".join(f"{p.kind} {p.name!r}" for p in self.pending[:5])
                raise InternalError(f"{self.name}: nothing can be computed of {names}")
            self._segments[key] = made
            if len(self._segments) > KEPT:
                self._segments.popitem(last=False)
        self._segments.move_to_end(key)
        return self._segments[key]

    def imported(self, tensors: Mapping[str, Value], objects: Iterable[str] = ()) -> Importer:
        """Import what can be, given tensors, and names of values that are none."""
        importer = Importer(self.model, {**self.known, **tensors}, objects, self.held)
        importer.convert(self.pending, {*self.reads, *self.wanted})
        return importer

    def segment_of(self, importer: Importer, tensors: Mapping[str, Value]) -> Segment:
        """What was imported, as a graph; its outputs are what the rest reads and what is wanted."""
        needed = dict.fromkeys([*self.wanted, *(n for p in importer.left for n in p.reads)])
        names: dict[Value, str] = {}
        same: dict[str, str] = {}
        for name in needed:
            value = importer.known.get(name)
            if value is None or value.is_constant or name in tensors:
                continue
            if value.producer is None:
                same[name] = value.name
            elif value in names:
                same[name] = names[value]
            else:
                names[value] = name
        for value, name in names.items():
            value.name = name
        graph = Graph(self.name, tensors.values(), names, importer.builder.nodes)
        graph.drop_dead_nodes()
        used = {v for n in graph.nodes for v in n.inputs}
        graph.inputs = [v for v in graph.inputs if v in used]
        known = {n: v for n, v in importer.known.items() if v.is_constant}
        rest = Program(self.model, self.name, importer.left, known, importer.held, self.wanted)
        return Segment(graph, same, rest)


def _states(program: Program) -> list[tuple[int, bool]]:
    return [(id(p.node), p.on_host) for p in program.pending]


def _computed(
    p: Pending,
    reads: Env,
    execute: Execute,
    courses: dict[str, Course],
    same: bool = False,
    known: Mapping[str, Value] = MappingProxyType({}),
) -> list[Any]:
    """The results of a node that Python computes; `known`: constants around it."""
    values = [reads[name] if name else None for name in p.inputs]
    if p.kind in CONTROL:
        with told_of(p):
            return CONTROL[p.kind](p, values, _Parts(p, reads, execute, courses, same, known))
    return hosted(p, values) if p.kind in HOST else _alone(p, reads, execute)


class _Parts:
    """Runs the subgraphs of a node, within the values around it."""

    def __init__(
        self,
        p: Pending,
        reads: Env,
        execute: Execute,
        courses: dict[str, Course],
        same: bool,
        known: Mapping[str, Value],
    ) -> None:
        self.p, self.reads, self.execute, self.courses = p, reads, execute, courses
        self.same, self.known = same, known
        self.begun: dict[str, Course] = {}

    def _course(self, part: str) -> Course:
        if part not in self.begun:
            if part not in self.courses:
                names = [v.name for v in self.p.graphs[part].input]
                self.courses[part] = Course(_part(self.p, part, self.known), names)
            self.begun[part] = self.courses[part].begin(self.reads, self.execute, self.same)
        return self.begun[part]

    def __call__(self, part: str, given: Sequence[Any]) -> list[Any]:
        return self._course(part)(given, self.execute)

    def body(self, part: str, given: Sequence[Any]) -> Body | None:
        return self._course(part).body(given, self.execute)


def _part(p: Pending, name: str, around: Mapping[str, Value]) -> Program:
    """The program of a subgraph, to which constants around it are known."""
    graph = p.graphs[name]
    taken = {n: around[n] for n in captured(p.model.onnx, graph) if n in around}
    key = (name, *taken.values())  # values are equal to themselves alone
    if key not in p.parts:
        known, held = p.model.initializers(graph)
        nodes = pending_nodes(p.model, graph.node, p.opsets)
        wanted = [v.name for v in graph.output]
        _make_room(p.parts)
        p.parts[key] = Program(p.model, f"{p.name}.{name}", nodes, taken | known, held, wanted)
    return p.parts[key]  # type: ignore[no-any-return]


def _make_room(parts: dict[Any, Any]) -> None:
    while len(parts) >= KEPT:
        del parts[next(iter(parts))]


def _alone(p: Pending, reads: Env, execute: Execute) -> list[Any]:
    """A node by itself, compiled for the values that it asks for."""
    tensors = {n: v for n, v in reads.items() if type_of(v) is not None}
    small = len(tensors) == len(reads) and sum(v.size for v in tensors.values()) <= _SMALL
    known = tensors if small else {n: tensors[n] for n in sorted(p.asked) if n in tensors}
    key: Any = ("alone", *((n, type_of(v), v.tobytes()) for n, v in known.items()))
    if key not in p.parts:
        constants = {n: constant(n, v) for n, v in known.items()}
        types = [_type_proto(p.model.onnx, reads[n]) if n else None for n in p.node.input]
        native = p.kind in CONVERTERS and len(tensors) == len(reads)
        nodes = (
            [Pending(p.model, p.node, p.opsets, False, p.asked)] if native else own_body(p, types)
        )
        wanted = [n for n in p.node.output if n]
        _make_room(p.parts)
        p.parts[key] = Program(p.model, p.name, nodes, constants, {}, wanted)
    given = {n: v for n, v in reads.items() if n not in known}
    found = dict(zip((n for n in p.node.output if n), p.parts[key].finish(given, execute)))
    return [found.get(name) for name in p.node.output]


def _type_proto(onnx: Any, value: Any) -> Any:
    """The ONNX type of a value."""
    make = onnx.helper
    if isinstance(value, list):
        inner = _type_proto(onnx, value[0] if value else np.zeros(0, np.float32))
        return make.make_sequence_type_proto(inner)
    if value is None:
        return None
    x = np.asarray(value)
    number = (
        onnx.TensorProto.STRING if x.dtype == object else make.np_dtype_to_tensor_dtype(x.dtype)
    )
    return make.make_tensor_type_proto(number, x.shape)
