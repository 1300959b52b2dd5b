"""Importer: nodes of an ONNX model become operations, as far as what they read is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from ...base.dtype import parse
from ...base.errors import ImportModelError, InternalError, TilewrightError
from ..ir import Value, constant
from .bodies import body_of
from .both import are_alike, is_little, may_be_little
from .control import CONTROL
from .convert import Builder, NotKnownError, OnHostError, OnnxNode
from .converters import CONVERTERS
from .course import type_of
from .faults import Faults
from .host import HOST, RANDOM, HostNode
from .model import Model, Pending, pending_nodes
from .rename import with_own_names


class Importer:
    """Turns nodes into operations, as far as what they read is known; `left` are the others."""

    def __init__(
        self,
        model: Model,
        known: Mapping[str, Value],
        objects: Iterable[str],
        held: Mapping[str, Any],
    ) -> None:
        self.model = model
        self.held = dict(held)
        self.builder = Builder(0, model.budget)
        self.known = dict(known)
        self.objects = {*objects, *held}
        self.left: list[Pending] = []

    def convert(self, nodes: Iterable[Pending], read: Iterable[str]) -> None:
        """Go through nodes in order; `read` are the names that something reads. ImportModelError
        with what is wrong with any of them; what reads the results of a wrong one is left out."""
        self.read = set(read)
        faults = Faults()
        failed: set[str] = set()
        queue = deque(nodes)
        while queue:
            p = queue.popleft()
            if not failed.isdisjoint(p.reads):
                failed.update(filter(None, p.node.output))
                continue
            count = len(faults.found)
            with faults.noted():
                more = self._next(p)
                self.read.update(n for q in more for n in q.reads)
                queue.extendleft(reversed(more))
            if len(faults.found) > count:
                failed.update(filter(None, p.node.output))
        faults.end()

    def _next(self, p: Pending) -> Sequence[Pending]:
        """Convert a node as far as can be; or the nodes that stand for it."""
        absent = [n for n in p.reads if n not in self.known]
        if absent and self._held(p, absent):
            return ()
        if absent:
            ready = self.objects.issuperset(absent)
            self.left.append(p.left_to_host() if ready and not p.on_host else p)
            return ()
        if p.on_host:
            self.left.append(p)
            return ()
        return self._one(p)

    def _held(self, p: Pending, absent: Sequence[str]) -> bool:
        """Compute a node ahead that reads constants alone, some of which compiled code cannot hold
        (text, packed numbers of 4 bits)."""
        if p.kind not in HOST or p.kind in RANDOM or not self.held.keys() >= {*absent}:
            return False
        values = {n: self.known[n].data for n in p.reads if n in self.known} | self.held
        if any(values[n] is None for n in p.reads):
            return False
        results = hosted(p, [values[name] if name else None for name in p.inputs])
        for name, value in zip(p.node.output, results):
            self.model.budget.spend(getattr(value, "nbytes", 0), f"{p.kind} node {p.name!r}")
            if type_of(value) is None:
                self.held[name] = value
                self.objects.add(name)
            else:
                self.known[name] = constant(name, value)
        return True

    def _one(self, p: Pending) -> Sequence[Pending]:
        """Convert a node; or the nodes that stand for it."""
        if p.kind in CONVERTERS:
            try:
                self._convert(p)
            except NotKnownError as error:
                asked = [n for n in p.node.input if self.known.get(n) is error.value]
                self.left.append(p.left_to_host({*p.asked, *(asked or p.reads)}))
            except OnHostError:
                body = None if p.kind in HOST else body_of(p, self._types(p))
                if body is not None:
                    return body
                if p.kind not in HOST:
                    raise
                if not self._held(p, ()):
                    self.left.append(p.left_to_host())
            return ()
        if p.kind == "If" and self.known[p.node.input[0]].is_constant:
            return self._branch(p)
        if p.kind == "If" and self._both(p):
            return ()
        if p.kind in CONTROL or p.kind in HOST:
            self.left.append(p.left_to_host())
            return ()
        return own_body(p, self._types(p))

    def _branch(self, p: Pending) -> Sequence[Pending]:
        """The nodes of the branch that a known condition takes."""
        data = self.known[p.node.input[0]].data
        if data is None or data.size != 1:
            raise ImportModelError(f"If node {p.name!r}: the condition must be one truth value")
        graph = self._opened(p, "then_branch" if np.all(data) else "else_branch")
        make = self.model.onnx.helper.make_node
        ends = [
            make("Identity", [inner.name], [outer], name=f"{p.name}.{k}")
            for k, (inner, outer) in enumerate(zip(graph.output, p.node.output))
            if outer
        ]
        return pending_nodes(self.model, [*graph.node, *ends], p.opsets)

    def _opened(self, p: Pending, part: str) -> Any:
        """A subgraph whose nodes become some of this program; what it brings is known."""
        # branches of other nodes may have values of the same names
        self.model.calls += 1
        prefix = f"{p.name}.{self.model.calls}/"
        graph = with_own_names(self.model.onnx, p.graphs[part], prefix)
        known, held = self.model.initializers(graph)
        self.known.update(known)
        self.held.update(held)
        self.objects.update(held)
        return graph

    def _both(self, p: Pending) -> bool:
        """Compute both branches and select one's results; False, and nothing is done, where that is
        not to be (both.py)."""
        condition = self.known[p.node.input[0]]
        if condition.dtype != "bool" or any(d != 1 for d in condition.shape):
            return False
        parts = ("then_branch", "else_branch")
        if not all(may_be_little(p.graphs[part]) for part in parts):
            return False
        trial = Importer(self.model, self.known, self.objects, self.held)
        trial.builder.names.update(self.builder.names)
        graphs = [trial._opened(p, part) for part in parts]
        nodes = [q for g in graphs for q in pending_nodes(self.model, g.node, p.opsets)]
        if any(q.kind not in CONVERTERS and q.kind != "If" for q in nodes):
            return False
        ends = [[v.name for v in g.output] for g in graphs]
        try:
            trial.convert(nodes, {*chain(*ends), *(n for q in nodes for n in q.reads)})
        except ImportModelError:
            return False
        if trial.left or not is_little(trial.builder.nodes):
            return False
        pairs = [(trial.known[a], trial.known[b]) for a, b in zip(*ends)]
        if not all(are_alike(a, b) for a, b in pairs):
            return False
        self.builder.nodes += trial.builder.nodes
        self.builder.names = trial.builder.names
        one = self.builder.add("reshape", [condition], p.name, shape=())
        for name, (a, b) in zip(p.node.output, pairs):
            self.known[name] = a if a is b else self.builder.add("where", [one, a, b], name)
        return True

    def _types(self, p: Pending) -> list[Any]:
        make = self.model.onnx.helper
        found: list[Any] = []
        for name in p.node.input:
            v = self.known.get(name)
            if v is None:
                found.append(None)
                continue
            number = make.np_dtype_to_tensor_dtype(_numpytype_of(v))
            shape = [d if isinstance(d, int) else str(d) for d in v.shape]
            found.append(make.make_tensor_type_proto(number, shape))
        return found

    def _convert(self, p: Pending) -> None:
        inputs = [self.known[i] if i else None for i in p.node.input]
        wrapped = OnnxNode(p.kind, p.name, inputs, list(p.node.output), p.attributes)
        self.builder.opset = p.opsets.get("", 1)
        try:
            result = CONVERTERS[p.kind](self.builder, wrapped)
        except (ImportModelError, InternalError):
            raise
        except TilewrightError as error:
            raise ImportModelError(
                f"{p.kind} node {p.name!r} cannot be imported: {error}"
            ) from error
        except Exception as error:
            raise ImportModelError(
                f"{p.kind} node {p.name!r} does not take inputs {inputs}: {error}"
            ) from error
        results = result if isinstance(result, list) else [result]
        outputs = list(p.node.output)
        for k, name in enumerate(outputs[len(results) :], len(results)):
            if name in self.read:
                text = f"{p.kind} node {p.name!r}: output {k} ({name}) is not supported"
                raise OnHostError(text) if p.kind in HOST else ImportModelError(text)
        for name, value in zip(outputs, results):
            if name:
                self.known[name] = value


def _numpytype_of(v: Value) -> np.dtype[Any]:
    return np.dtype(parse(v.dtype).numpy)


def own_body(p: Pending, types: Sequence[Any]) -> Sequence[Pending]:
    """The nodes by which the model or the standard defines a node."""
    body = body_of(p, types)
    if body is None:
        raise ImportModelError(f"{p.kind} node {p.name!r}: the operator is not supported")
    return body


@contextmanager
def told_of(p: Pending) -> Iterator[None]:
    """What goes wrong in here, told of a node."""
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise TilewrightError(f"{p.kind} node {p.name!r}: {what}") from error


def hosted(p: Pending, values: Sequence[Any]) -> list[Any]:
    """The results of a host operator."""
    with told_of(p):
        outputs = list(p.outputs)
        made = HostNode(p.kind, p.name, values, outputs, p.attributes, p.opset, p.memory)
        return HOST[p.kind](made)
