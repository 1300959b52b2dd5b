"""The backend of torch.compile: `torch.compile(module, backend="tilewright")`.

PyTorch's AOTAutograd makes a graph of core ATen operators of each region that Dynamo traces. The
graph is divided (partition.py), its parts are compiled when it is first called, for all extents
that Dynamo keeps symbolic, and run on the tensors' own memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from ...base.errors import CompileError, TilewrightError
from ...rt.network import Executable
from ...rt.open_sizes import OtherSizesError, Shaped
from ..build import compile as compile_graph
from ..ir import Value, constant
from ..sizes import Size
from .breaks import watch_breaks
from .extents import Extents, at_sizes
from .importer import array_of, decompositions, type_name
from .marks import Mark
from .partition import Part, Partition, Plan, Result, is_view

_log = logging.getLogger("tilewright.torch")

_KEPT = 64
"""Programs of one graph, each for one set of extents; the oldest goes where there are more."""
_SHAPES = 256
"""Sets of extents of a program for all of them whose plans are kept."""


def tilewright(gm: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """Compile a graph that Dynamo traced; PyTorch calls this.

    `options` of torch.compile: `target`, `dtype`, `records`, as of `graph.compile`. Graphs that are
    differentiated run in PyTorch, with a line in the log `tilewright.torch`.
    """
    from torch._dynamo.backends.common import aot_autograd

    options = dict(given.get("options") or {})
    unknown = sorted(set(options) - {"target", "dtype", "records"})
    if unknown:
        raise CompileError(f"unknown options {unknown}; there are target, dtype and records")
    watch_breaks()
    made = aot_autograd(
        fw_compiler=partial(_in_torch, "gradients are asked for; call it in torch.no_grad()"),
        bw_compiler=partial(_in_torch, ""),
        inference_compiler=partial(_inference, options),
        decompositions=decompositions(),
    )
    compiled: Callable[..., Any] = made(gm, example_inputs)
    return compiled


def _in_torch(why: str, gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Leave a whole graph to PyTorch."""
    if why:
        _log.warning("%s run in PyTorch: %s", _counted(gm), why)
    return _boxed(lambda args: gm(*args))


def _boxed(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """AOTAutograd hands the arguments over in a list, which may be emptied."""

    def call(args: list[Any]) -> Any:
        return function(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _counted(gm: Any) -> str:
    counts: dict[str, int] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function":
            counts[str(node.target)] = counts.get(str(node.target), 0) + 1
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in sorted(counts.items()))


def _inference(
    options: Mapping[str, Any], gm: Any, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    import torch

    tensors = [x for x in example_inputs if isinstance(x, torch.Tensor)]
    for x in tensors:
        if x.device.type != "cpu":
            return _in_torch(f"tensors on {x.device}", gm, example_inputs)
    context = torch._guards.TracingContext.try_get()
    facts = getattr(context, "fw_metadata", None)
    fixed = set(getattr(facts, "static_input_indices", None) or ())
    fixed -= set(getattr(facts, "mutated_inp_runtime_indices", None) or ())
    network = Network(gm, options, fixed, any(not _is_fixed(x) for x in example_inputs))
    return _boxed(network)


def _is_fixed(x: Any) -> bool:
    shape = getattr(x, "shape", None)
    if shape is None:
        return isinstance(x, (int, float, bool)) and type(x) in (int, float, bool)
    return all(type(d) is int for d in shape)


class Network:
    """A graph and the programs that it was compiled to: one for all extents, and others, each for
    one set of them, where that one is not for all.

    Weights (`fixed`: which arguments) are compiled in. Where they have been changed, the graph is
    compiled again; from the second time on with them as inputs. Any number of threads may call.
    """

    def __init__(self, gm: Any, options: Mapping[str, Any], fixed: set[int], open_: bool) -> None:
        self.gm = gm
        self.options = options
        self.fixed = sorted(fixed)
        self.open = open_
        self.whole: Program | None = None
        self.programs: dict[Any, Program] = {}
        self.lock = Lock()
        self.changes = 0

    def __call__(self, args: list[Any]) -> Any:
        whole = self.whole
        if whole is None or not whole.fits(args):
            whole = self._program(None, args)
        now = whole.at(args)
        if now is not None:
            return whole(args, now)
        key = _extents(args)
        program = self.programs.get(key)
        if program is None or not program.fits(args):
            program = self._program(key, args)
        return program(args, Now())

    def _program(self, key: Any, args: Sequence[Any]) -> Program:
        """The program for a set of extents, None being all."""
        with self.lock:
            program = self.whole if key is None else self.programs.get(key)
            if program is not None:
                if program.fits(args):
                    return program
                self.changes += 1
                if self.changes > 1 and self.fixed:
                    _log.warning("weights change between calls: they are read anew at each call")
                    self.fixed = []
                    self.programs.clear()
            made = Program(self.gm, self.options, self.fixed, args, self.open and key is None)
            if key is None:
                self.whole = made
                return made
            while len(self.programs) >= _KEPT:
                self.programs.pop(next(iter(self.programs)))
            self.programs[key] = made
            return made


def _extents(args: Sequence[Any]) -> Any:
    return tuple((*a.shape, *a.stride()) if hasattr(a, "stride") else a for a in args)


@dataclass(frozen=True)
class Now:
    """A program for one set of extents: numbers that it computes of them, and its networks."""

    numbers: Mapping[Any, Any] = field(default_factory=dict)
    networks: Mapping[Any, Shaped] = field(default_factory=dict)


class Program:
    """Networks, and calls that PyTorch computes; `open_`: for all extents that come, else for those
    of `args`."""

    def __init__(
        self, gm: Any, options: Mapping[str, Any], fixed: Sequence[int], args: Sequence[Any],
        open_: bool,
    ) -> None:  # fmt: skip
        import torch

        self.gm = gm
        graph = gm.graph
        self.inputs = [n for n in graph.nodes if n.op == "placeholder"]
        self.output = next(n for n in graph.nodes if n.op == "output").args[0]
        weights: dict[Any, Value] = {}
        self.marks: list[Mark] = []
        for k in fixed:
            tensor = args[k]
            if isinstance(tensor, torch.Tensor) and type_name(tensor.dtype) is not None:
                weights[self.inputs[k]] = constant(
                    self.inputs[k].name, array_of(tensor.contiguous())
                )
                self.marks.append(Mark(k, tensor))
        self.steps: list[Any] = []
        self.ready: dict[Any, Any] = {}
        self.held: dict[Any, Any] = {}
        self.computed: dict[Any, Size] = {}
        self.extents = Extents(self.inputs, args) if open_ else None
        self.made: OrderedDict[Any, Now | None] = OrderedDict()
        for n in graph.nodes:
            held = _attribute(gm, n.target) if n.op == "get_attr" else None
            if isinstance(held, torch.Tensor) and type_name(held.dtype) is not None:
                weights[n] = constant(n.name, array_of(held.contiguous()))
                self.held[n] = held
        try:
            self._compile(self._plan(weights, args), options)
        except TilewrightError as error:
            if self.extents is not None:
                _log.warning("each set of extents is compiled by itself: %s", error)
                self.made[None] = None
                return
            _log.warning("%s run in PyTorch: %s", _counted(gm), error)
            self.steps = [n for n in graph.nodes if n.op in ("call_function", "get_attr")]
            self.ready = {}
        self.frees = _last_reads(self.steps, self.output)

    def _plan(self, weights: Mapping[Any, Value], args: Sequence[Any]) -> Plan:
        import torch

        graph = self.gm.graph
        given = {n: a for n, a in zip(self.inputs, args) if not isinstance(a, torch.Tensor)}
        if self.extents is None:
            open_ = not all(_is_fixed(n.meta.get("val")) for n in self.inputs)
            metas = _concrete(self.gm, args) if open_ else _noted(self.gm, graph)
            return Partition(graph, metas, weights, given).run()
        of = self.extents.of
        given |= {n: of(n.meta["val"]) for n in given if hasattr(n.meta.get("val"), "node")}
        with self.extents.symbols.asking():
            return Partition(graph, _noted(self.gm, graph), weights, given, of).run()

    def _compile(self, plan: Plan, options: Mapping[str, Any]) -> None:
        if plan.left:
            lines = [
                f"{kind} ({len(why)}): {why[0]}" if len(why) > 1 else f"{kind}: {why[0]}"
                for kind, why in sorted(plan.left.items())
            ]
            _log.warning("left to PyTorch: %s", "; ".join(lines))
        read = {n for n in self.output if hasattr(n, "op")}
        for step in plan.steps:
            read.update(() if isinstance(step, Part) else step.all_input_nodes)
        self.ready = {n: v for n, v in plan.numbers.items() if not isinstance(v, Size)}
        self.computed = {n: v for n, v in plan.numbers.items() if isinstance(v, Size) and n in read}
        self.ready |= {n: _tensor(v.data) for n, v in plan.constants.items()}
        self.ready |= self.held
        target = options.get("target", "llvm")
        how = {k: v for k, v in options.items() if k != "target"}
        for step in plan.steps:
            if isinstance(step, Part):
                self.steps.append(Run(compile_graph(step.graph, target, **how), step))
            else:
                self.steps.append(step)
        networks = sum(isinstance(s, Run) for s in self.steps)
        calls = sum(not isinstance(s, Run) and not is_view(s) for s in self.steps)
        _log.info("%d networks, %d calls in PyTorch", networks, calls)

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether the weights are those that were compiled in."""
        return all(mark.fits(args[mark.at]) for mark in self.marks)

    def at(self, args: Sequence[Any]) -> Now | None:
        """The program for the extents of these arguments; None where it is not for them."""
        if self.extents is None:
            return _ALWAYS
        if None in self.made:
            return None
        sizes = self.extents.bound(args)
        key = tuple(sizes.values())
        if key not in self.made:
            try:
                runs = [s for s in self.steps if isinstance(s, Run) and s.direct]
                networks = {s: s.network.at_sizes(sizes) for s in runs}
                numbers = {n: at_sizes(v, sizes) for n, v in self.computed.items()}
                self.made[key] = Now(numbers, networks)
            except OtherSizesError as error:
                _log.info("compiled for its own extents: %s", error)
                self.made[key] = None
            while len(self.made) > _SHAPES:
                self.made.popitem(last=False)
        return self.made.get(key)

    def __call__(self, args: list[Any], now: Now) -> Any:
        from torch.fx.node import map_arg

        held = dict(self.ready)
        held.update(zip(self.inputs, args))
        held.update(now.numbers)
        args.clear()
        for step, frees in zip(self.steps, self.frees):
            if isinstance(step, Run):
                step(held, now.networks.get(step))
            elif step.op == "get_attr":
                held[step] = _attribute(self.gm, step.target)
            else:
                given = map_arg(step.args, held.__getitem__)
                named = map_arg(step.kwargs, held.__getitem__)
                held[step] = step.target(*given, **named)
            for node in frees:
                held.pop(node, None)
        return self._results(held)

    def _results(self, held: Mapping[Any, Any]) -> Any:
        """The outputs; what is known ahead, or given twice, is copied, since it is the caller's."""
        import torch

        found: list[Any] = []
        seen: set[int] = set()
        for node in self.output:
            value = held.get(node, None) if hasattr(node, "op") else node
            if isinstance(value, torch.Tensor) and (node in self.ready or id(value) in seen):
                value = value.clone()
            seen.add(id(value))
            found.append(value)
        return tuple(found)


_ALWAYS = Now()


class Run:
    """One call of a network on tensors."""

    def __init__(self, network: Any, part: Part) -> None:
        self.network = network
        self.part = part
        self.direct = isinstance(network, Executable)

    def __call__(self, held: dict[Any, Any], now: Shaped | None) -> None:
        import torch

        inputs = [held[n].contiguous() for n in self.part.reads]
        shapes = (self.network if now is None else now).outputs
        outputs = [torch.empty(v.shape, dtype=r.dtype) for v, r in zip(shapes, self.part.results)]
        if self.direct:
            self.network.call_at([t.data_ptr() for t in (*inputs, *outputs)], now)
        else:
            self._by_arrays(inputs, outputs)
        for result, tensor in zip(self.part.results, outputs):
            held[result.node] = _seen(tensor, result)

    def _by_arrays(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        names = [v.name for v in self.part.graph.inputs]
        given = {name: array_of(t) for name, t in zip(names, inputs)}
        found = self.network.run(given)
        for name, tensor in zip(self.network.output_names, outputs):
            np.copyto(array_of(tensor), found[name])


def _seen(tensor: Any, result: Result) -> Any:
    return tensor if result.order is None else tensor.permute(result.order)


def _tensor(data: Any) -> Any:
    """A tensor of an array, through its bits where NumPy has no such type."""
    import torch

    data = np.array(data, order="C")
    if data.dtype.name == "bfloat16":
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def _attribute(gm: Any, path: str) -> Any:
    found = gm
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _noted(gm: Any, graph: Any) -> dict[Any, Any]:
    """What tracing noted of each node."""
    return {
        n: n.meta.get("val", _attribute(gm, n.target) if n.op == "get_attr" else None)
        for n in graph.nodes
    }


def _concrete(gm: Any, args: Sequence[Any]) -> dict[Any, Any]:
    """What each node gives for these arguments, without computing it."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    metas: dict[Any, Any] = {}

    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            metas[n] = super().run_node(n)
            return metas[n]

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
    with mode:
        Interpreter(gm).run(*fakes)
    return metas


def _last_reads(steps: Sequence[Any], output: Any) -> list[list[Any]]:
    """The nodes that nobody reads after each step, so that their memory is free."""
    needed = {n for n in output if hasattr(n, "op")}
    frees: list[list[Any]] = []
    for step in reversed(steps):
        reads = step.part.reads if isinstance(step, Run) else step.all_input_nodes
        last = [n for n in dict.fromkeys(reads) if n not in needed]
        needed.update(last)
        frees.append(last)
    return frees[::-1]
