"""How a program runs, looked up once for all calls on the same types.

What a program does next depends on the types of what there is by then, and what compiled code gives
has types that are known. So types are asked for once at the start, and again only behind nodes that
Python computes. Between, a `Stage` knows where everything is: values are in a list, to which each
step adds its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from ...base.errors import TilewrightError
from ...rt.network import Lent
from ...rt.plan import tensors
from ..ir import Graph
from .file import carried
from .model import Pending
from .repeat import Body, Source

if TYPE_CHECKING:
    from .program import Program

Type = tuple[str, tuple[int, ...]] | None
"""Element type and shape of a tensor that compiled code can read; None of all other values."""
Call = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs a graph on arrays for its inputs, in order, of their types; gives its outputs."""


class Execute(Protocol):
    """Runs graphs. What is looked up is kept by this object."""

    def __call__(self, graph: Graph) -> Call:
        """What calls a graph, which is compiled where it has not been."""

    def lender(self, graph: Graph) -> Callable[[], AbstractContextManager[Lent]] | None:
        """What lends a graph that has been compiled for many calls; None where it is called by
        itself each time."""


KEPT = 64
"""Continuations kept of one stage, and graphs of one program, each for other types."""

_carried = cache(carried)


def type_of(value: Any) -> Type:
    if not isinstance(value, np.ndarray):
        return None
    dtype = _carried(value.dtype)
    return None if dtype is None else (dtype, value.shape)


class Step:
    """A node that Python computes: where in the list it reads."""

    def __init__(
        self, program: Program, p: Pending, slots: Mapping[str, int], varied: set[int]
    ) -> None:
        self.program, self.p = program, p
        self.same = varied.isdisjoint(slots[name] for name in p.reads)
        """Whether it reads values of the same types at all times."""
        self.reads = [(name, slots[name]) for name in p.reads]
        self.courses: dict[str, Course] = {}

    def results(self, cells: Sequence[Any], execute: Execute) -> list[Any]:
        """One for each output of the node."""
        reads = {name: cells[slot] for name, slot in self.reads}
        found = self.program.computed(self.p, reads, execute, self.courses, self.same)
        count = len(self.p.outputs)
        return found if len(found) == count else [*found[:count], *[None] * (count - len(found))]


@dataclass(frozen=True)
class _After:
    """What follows a stage for some types: a graph, if it has outputs, and the next stage."""

    graph: Graph
    call: Call | None
    reads: Sequence[int]
    stage: Stage


class Stage:
    """Nodes for Python that have all they need; then what follows, by types."""

    def __init__(
        self, program: Program, slots: Mapping[str, int], size: int, varied: Iterable[int]
    ) -> None:
        """`slots`: where values are by name, in a list of `size`; `varied`: those places of which
        the types are not known."""
        self.slots = dict(slots)
        self.fixed: list[Any] = []
        ready, self.program = program.without_ready({*slots, *program.held})

        def place(name: str, value: Any) -> None:
            self.slots[name] = size + len(self.fixed)
            self.fixed.append(value)

        for name, value in program.held.items():
            place(name, value)
        ends = not self.program.pending
        made = {name for p in ready for name in p.outputs}
        for name in [*(n for p in ready for n in p.reads), *(program.wanted if ends else ())]:
            if name not in self.slots and name not in made:
                place(name, program.known[name].data)
        self.size = size + len(self.fixed)
        varied = {*varied}
        self.steps: list[Step] = []
        for p in ready:
            self.steps.append(Step(program, p, self.slots, varied))
            for name in p.outputs:
                self.slots[name] = self.size
                varied.add(self.size)
                self.size += 1
        self.wanted = [self.slots[n] for n in program.wanted] if ends else None
        read = dict.fromkeys(self.slots[n] for n in self.program.reads if n in self.slots)
        self.watched = [slot for slot in read if slot in varied]
        self.after: dict[tuple[Type, ...], _After] = {}

    def run(self, cells: list[Any], execute: Execute) -> list[Any]:
        """The values that are wanted in the end, from here on."""
        stage = self
        while True:
            cells += stage.fixed
            for step in stage.steps:
                cells += step.results(cells, execute)
            if stage.wanted is not None:
                return [cells[slot] for slot in stage.wanted]
            after = stage.next(cells, execute)
            if after.call is not None:
                cells += after.call([cells[slot] for slot in after.reads])
            stage = after.stage

    def next(self, cells: Sequence[Any], execute: Execute) -> _After:
        """What follows for the types of these values, looked up."""
        key = tuple([type_of(cells[slot]) for slot in self.watched])
        after = self.after.get(key)
        if after is None:
            after = self.after[key] = self._followed(cells, execute)
            if len(self.after) > KEPT:
                del self.after[next(iter(self.after))]
        return after

    def _followed(self, cells: Sequence[Any], execute: Execute) -> _After:
        """What follows for the types of these values."""
        names = [n for n in self.program.reads if n in self.slots]
        segment = self.program.segment_for({n: type_of(cells[self.slots[n]]) for n in names})
        graph = segment.graph
        call = execute(graph) if graph.outputs else None
        slots, size = dict(self.slots), self.size
        for v in graph.outputs:
            slots[v.name] = size
            size += 1
        slots.update({name: slots[other] for name, other in segment.same.items()})
        reads = [self.slots[v.name] for v in graph.inputs] if call else []
        return _After(graph, call, reads, Stage(segment.rest, slots, size, ()))


class Course:
    """A program that is called again and again on values for `names`, within the same others."""

    def __init__(self, program: Program, names: Iterable[str]) -> None:
        self.program = program
        self.names = tuple(names)
        own = {*self.names, *program.known, *program.held}
        self.around = [n for n in program.needed if n not in own]
        self.values: list[Any] = []
        self.first: Stage | None = None

    def begin(self, values: Mapping[str, Any], execute: Execute, same: bool = False) -> Course:
        """Be for calls within these values. `same`: of the types that they had before."""
        around = [n for n in self.around if n in values]
        self.values = [values[n] for n in around]
        if same and self.first is not None:
            return self
        types = [*map(type_of, self.values)]
        known = self.program.stages.setdefault(execute, {})
        key = (self.names, *zip(around, types))
        self.first = known.get(key)
        if self.first is None:
            names = [*around, *self.names]
            slots = {name: k for k, name in enumerate(names)}
            varied = range(len(around), len(names))
            self.first = known[key] = Stage(self.program, slots, len(names), varied)
            if len(known) > KEPT:
                del known[next(iter(known))]
        return self

    def __call__(self, given: Sequence[Any], execute: Execute) -> list[Any]:
        """The values that are wanted."""
        assert self.first is not None, "it has begun"
        count = len(self.names)
        if len(given) < count:
            raise TilewrightError(f"{self.program.name} takes {count} inputs, got {len(given)}")
        return self.first.run([*self.values, *given[:count]], execute)

    def body(self, given: Sequence[Any], execute: Execute) -> Body | None:
        """How it runs on values of these types, where that is one graph and nothing else."""
        first = self.first
        assert first is not None, "it has begun"
        if first.steps or first.wanted is not None or len(given) != len(self.names):
            return None
        cells = [*self.values, *given, *first.fixed]
        after = first.next(cells, execute)
        last, lent = after.stage, execute.lender(after.graph)
        if last.steps or last.wanted is None or after.call is None or lent is None:
            return None
        outputs = tensors(after.graph.outputs)
        sources = [Source(fixed=x) for x in self.values]
        sources += [Source(given=k) for k in range(len(given))]
        sources += [Source(fixed=x) for x in first.fixed]
        sources += [Source(output=k) for k in range(len(outputs))]
        sources += [Source(fixed=x) for x in last.fixed]
        wanted = [sources[slot] for slot in last.wanted]
        return Body([sources[slot] for slot in after.reads], outputs, wanted, lent)


Stages = WeakKeyDictionary[Any, dict[Any, Stage]]
"""The first stages of a program: by what executes them, then by the types around."""
