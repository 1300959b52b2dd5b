"""StagedExecutable: a network of which parts are compiled while it runs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..base.errors import ArgumentError, TilewrightError
from ..base.pictured import Shown
from ..rt.network import Executable, Lent
from ..rt.plan import Array, alone_or_tuple, by_name, checked_inputs, described
from ..target.target import Target
from .ir import Graph, Rest

_WHOLE = "host and compilation"


class _Parts:
    """The graphs of a network that are compiled, each at the first time that it is asked for."""

    def __init__(
        self, target: Target, options: Mapping[str, Any], compile: Callable[..., Any]
    ) -> None:
        self.target = target
        self.options = options
        self.compiler = compile
        self.made: WeakKeyDictionary[Graph, Any] = WeakKeyDictionary()
        self.watchers: list[Callable[[Any, Sequence[Array]], None]] = []
        """They are told what runs, and on which arrays."""

    def compile(self, graph: Graph, progress: Any = None) -> Any:
        alone = Graph(graph.name, graph.inputs, graph.outputs, graph.nodes)
        made = self.compiler(alone, self.target, **self.options, progress=progress)
        self.made[graph] = made
        return made

    def __call__(self, graph: Graph) -> Callable[[Sequence[Array]], Sequence[Array]]:
        """What runs a graph on arrays of its inputs' types."""
        made = self.made[graph] if graph in self.made else self.compile(graph)
        apply, watchers = made.apply, self.watchers  # calls may be kept as long as this is

        def call(arrays: Sequence[Array]) -> Sequence[Array]:
            for watcher in watchers:
                watcher(made, arrays)
            found: Sequence[Array] = apply(arrays)
            return found

        return call

    def lender(self, graph: Graph) -> Callable[[], AbstractContextManager[Lent]] | None:
        """What lends a graph that has been compiled for many calls; None where it is called by
        itself each time."""
        made = self.made.get(graph)
        return made.lend if isinstance(made, Executable) and not self.watchers else None


def _named(executable: Any, arrays: Sequence[Array]) -> dict[str, Array]:
    return {v.name: array for v, array in zip(executable.inputs, arrays)}


class StagedExecutable(Shown):
    """A network whose graph has a `rest`, with the interface of `Executable`.

    The first graph is compiled at once, further ones when the shapes that they are for first occur;
    each is kept as long as the rest keeps it. Calls take turns: one at a time.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        dtype: str,
        records: Any,
        progress: Any,
        compile: Callable[..., Any],
    ) -> None:
        assert graph.rest is not None
        self.name = graph.name
        self.rest: Rest = graph.rest
        self.inputs = list(self.rest.inputs)
        self.objects = list(self.rest.objects)
        self.output_names = list(self.rest.outputs)
        self.target = target
        self._parts = _Parts(target, {"dtype": dtype, "records": records}, compile)
        self._lock = RLock()
        if graph.outputs:
            self._parts.compile(graph, progress)

    @property
    def distinct(self) -> int:
        """The number of kernels that were compiled."""
        return sum(e.distinct for e in self._parts.made.values())

    @property
    def tuned(self) -> int:
        """How many of those have a schedule from records."""
        return sum(e.tuned for e in self._parts.made.values())

    def __repr__(self) -> str:
        inputs, kernels = [*self.inputs, *self.objects], f"{self.distinct} kernels so far"
        return described(self.name, str(self.target), inputs, self.output_names, kernels)

    def __call__(self, *values: Any, **named: Any) -> Any:
        """The output for inputs in their order (tensors, then others) or by name; a tuple where
        there are several."""
        names = [*(v.name for v in self.inputs), *self.objects]
        return alone_or_tuple(self.run(by_name(self.name, names, values, named)))

    def save(self, path: Any) -> None:
        """TilewrightError: there is no code yet for all of the network."""
        raise TilewrightError(
            f"{self.name} cannot be saved to {path}: parts of it are compiled while it runs, for "
            "shapes that depend on the data; fix its shapes (shapes={...}) and leave out operators "
            "whose results' extents are data, text or sequences"
        )

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name: arrays (text: of objects), lists for sequences, None for what is empty.

        `inputs` has one array for each input that is a tensor, of its dtype and shape.
        """
        env = self._checked(inputs)
        with self._lock:
            results = self.rest.finish(env, self._parts)
        mine = {id(x) for x in env.values()}  # an input that is handed through
        results = [copy.copy(x) if id(x) in mine else x for x in results]
        return dict(zip(self.output_names, results))

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        others = {n: inputs[n] for n in self.objects if n in inputs}
        absent = [n for n in self.objects if n not in inputs]
        if absent:
            raise ArgumentError(f"{self.name}: input {absent[0]!r} is missing")
        tensors = {n: v for n, v in inputs.items() if n not in others}
        arrays = checked_inputs(self.name, self.inputs, tensors)
        return {**dict(zip((v.name for v in self.inputs), arrays)), **others}

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on fixed inputs; results are dropped. For timing."""

        def call() -> None:
            self.run(inputs)

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each compiled part's kernels, in order, and of what Python does."""
        env = self._checked(inputs)
        with self._lock:
            ran: list[tuple[Any, Sequence[Array]]] = []
            self._parts.watchers.append(lambda made, given: ran.append((made, given)))
            try:
                self.rest.finish(env, self._parts)
            finally:
                self._parts.watchers.clear()
            rows = [row for e, given in ran for row in e.profile(_named(e, given), repeat)]
            whole = []
            for _ in range(repeat):
                start = time.perf_counter()
                self.rest.finish(env, self._parts)
                whole.append(time.perf_counter() - start)
        left = float(np.median(whole)) - sum(t for _, t in rows)
        return [*rows, (_WHOLE, max(left, 0.0))]
