"""DeviceExecutable: a compiled network that runs on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..base.pictured import Shown
from ..rt.array import NDArray
from ..rt.array import empty as new_array
from ..rt.device import Device
from ..rt.device_array import DeviceArray
from ..rt.device_module import DeviceFunction, prepare_sequence
from ..rt.module import Module
from ..rt.open_sizes import OpenSizes, Shaped, Shapes
from ..rt.plan import (
    Array,
    KernelCall,
    Tensor,
    Work,
    alone_or_tuple,
    by_name,
    checked_inputs,
    checked_outputs,
    described,
    mebibytes,
    symbol_of,
)
from ..rt.signature import dim_value
from ..target.target import Target

_IDLE = 4
"""Workspaces kept for calls to come, beside those in use."""


@dataclass
class _Bound:
    """Kernels bound to arrays on the device: inputs, outputs, weights, workspace; of a network with
    open sizes, those of one set of sizes."""

    now: Shaped
    slots: list[Any]
    calls: list[tuple[DeviceFunction, tuple[Any, ...]]]
    often: bool  # whether it is likely to be launched again
    until: tuple[Any, Any] | None = None  # a stream in which it is in use, and the event behind
    _prepared: Callable[[], None] | None = None

    def launch(self) -> None:
        """All kernels. Those of sizes that may not come again are prepared for many launches (on
        CUDA as a graph, which takes as long to make as some launches) when they do come again."""
        if self._prepared is None and not self.often:
            self.often = True
            for function, args in self.calls:
                function(*args)
            return
        if self._prepared is None:
            self._prepared = prepare_sequence(self.calls)
        self._prepared()


class DeviceExecutable(Shown):
    """A network as kernels of a device, with the interface of `Executable`.

    Weights are copied to the device once, at the first use. Inputs are copied to it and outputs
    from it at each call; what flows between kernels stays there, in a workspace. Launches are bound
    to that once, of a network with open sizes once for each set of sizes. Calls from several
    threads at once have a workspace each.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        constants: Sequence[Array],
        workspace: int,
        module: Module,
        calls: Sequence[KernelCall],
        target: Target,
        nodes: Sequence[Sequence[str]],
        tuned: Sequence[bool],
        work: Callable[[], list[Work]] = list,
        device: Device | None = None,
        sizes: OpenSizes | None = None,
    ) -> None:
        """`work` counts what calls have to do. `sizes`: what depends on sizes that are known at
        each call only."""
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.output_names = [v.name for v in self.outputs]
        self.constants = list(constants)
        self.workspace_bytes = workspace
        self.module = module
        self.calls = list(calls)
        self.target = target
        self.nodes = [list(n) for n in nodes]
        self.distinct = len(tuned)
        self.tuned = sum(tuned)
        self.device = device if device is not None else Device(target.kind.device_type)
        self.sizes = sizes
        self._shapes = None if sizes is None else Shapes(name, self.inputs, self.outputs, sizes)
        self._fixed = Shaped(self.inputs, self.outputs, workspace)
        self._work = work
        self._lock = Lock()
        self._weights: list[NDArray] | None = None
        self._idle: list[_Bound] = []

    @cached_property
    def work(self) -> list[Work]:
        """What each call of a kernel has to do."""
        return self._work()

    def _constants(self) -> list[NDArray]:
        with self._lock:
            if self._weights is None:
                self.device.require()
                self._weights = [
                    new_array(c.shape, str(c.dtype), self.device).copyfrom(c)
                    for c in self.constants
                ]
            return self._weights

    def shaped(self, inputs: Mapping[str, Any]) -> Shaped:
        """The network at the sizes of some inputs; OtherSizesError where it is not for them."""
        return self._fixed if self._shapes is None else self._shapes.of(inputs)

    def _bind(self, now: Shaped) -> _Bound:
        """Arrays on the device for one call at a time, and what launches all kernels on them."""
        workspace = new_array((max(now.workspace, 1),), "uint8", self.device)
        assert isinstance(workspace, DeviceArray)
        slots: list[Any] = [
            *(new_array(v.shape, v.dtype, self.device) for v in (*now.inputs, *now.outputs)),
            *self._constants(),
            *now.symbols,
        ]
        if self.sizes is None:
            slots.append(workspace)
        else:
            slots += [workspace.part(at, (now.workspace - at,), "uint8") for at in now.offsets]
        bound = [self._call(call, slots) for call in self.calls]
        return _Bound(now, slots, bound, self.sizes is None)

    def _call(
        self, call: KernelCall, slots: Sequence[Any]
    ) -> tuple[DeviceFunction, tuple[Any, ...]]:
        """The function of a kernel and its arguments."""
        function = self.module[symbol_of(call.kernel)]
        wanted = list(zip(call.args, function.info.args))
        sizes = {want.name: slots[place.slot] for place, want in wanted if not want.is_array}
        args: list[Any] = []
        for place, want in wanted:
            given = slots[place.slot]
            if isinstance(given, DeviceArray):
                shape, strides = (
                    None if dims is None else tuple(dim_value(d, sizes) for d in dims)
                    for dims in (want.shape, want.strides)
                )
                asked = (shape, want.dtype, 0, None)
                if (given.shape, given.dtype, place.offset, strides) != asked:
                    given = given.part(place.offset, shape or (), want.dtype, strides)
            args.append(given)
        assert isinstance(function, DeviceFunction)
        return function, tuple(args)

    @contextmanager
    def _with(self, arrays: Sequence[Array], now: Shaped) -> Iterator[_Bound]:
        """Launches on these inputs, whose arrays nobody else uses meanwhile."""
        bound = self._taken(now)
        if bound.until is not None:
            stream = self.device.runtime.stream
            if stream is not bound.until[0]:
                stream.wait(bound.until[1])
            bound.until = None
        for slot, data in zip(bound.slots, arrays):
            slot.copyfrom(data)
        yield bound
        with self._lock:
            self._idle.append(bound)
            del self._idle[:-_IDLE]  # those that were used last stay

    def _taken(self, now: Shaped) -> _Bound:
        """What is bound for these sizes and idle, the last that was used; or bound now."""
        with self._lock:
            for bound in reversed(self._idle):
                if bound.now is now:
                    self._idle.remove(bound)
                    return bound
        return self._bind(now)

    def __repr__(self) -> str:
        weights = sum(a.nbytes for a in self.constants)
        kernels = f"{self.distinct} kernels ({self.tuned} tuned)"
        sizes = (mebibytes(weights, "weights"), mebibytes(self.workspace_bytes, "workspace"))
        return described(self.name, str(self.target), self.inputs, self.outputs, kernels, *sizes)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The output for inputs in their order or by name; a tuple where there are several."""
        names = [v.name for v in self.inputs]
        return alone_or_tuple(self.run(by_name(self.name, names, arrays, named)))

    def save(self, path: Any) -> None:
        """TilewrightError: what is saved are networks for CPUs."""
        raise TilewrightError(
            f"{self.name} cannot be saved to {path}: it is compiled for {str(self.target)!r}, and "
            "files hold networks for CPUs; compile it for an llvm target"
        )

    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        """Outputs by name. `inputs` has one array for each input, of its dtype and shape; NDArrays
        on the device are not copied to the CPU.
        `outputs`: arrays of the CPU to copy outputs to, for any of them, as `Executable.run` takes
        them."""
        now, arrays = self._checked(inputs)
        near = [a for a in arrays if isinstance(a, np.ndarray)]
        given = checked_outputs(self.name, now.outputs, outputs, near) if outputs else None
        with self._with(arrays, now) as bound:
            bound.launch()
            first = len(self.inputs)
            results = [a.numpy() for a in bound.slots[first : first + len(self.outputs)]]
        for mine, result in zip(given or (), results):
            mine[...] = result
        return dict(zip(self.output_names, results if given is None else given))

    def run_on_device(self, inputs: Mapping[str, Any]) -> dict[str, NDArray]:
        """As `run`, with outputs that stay on the device: new arrays, which may be inputs of calls
        to come, as the keys and values of a decoder are. Returns before the device is done."""
        now, arrays = self._checked(inputs)
        with self._with(arrays, now) as bound:
            bound.launch()
            first = len(self.inputs)
            made = [
                new_array(a.shape, a.dtype, self.device).copyfrom(a)
                for a in bound.slots[first : first + len(self.outputs)]
            ]
            stream = self.device.runtime.stream
            bound.until = stream, stream.record()
        return dict(zip(self.output_names, made))

    def _checked(self, inputs: Mapping[str, Any]) -> tuple[Shaped, list[Any]]:
        """The network at the sizes of inputs, and these in order."""
        now = self.shaped(inputs)
        return now, checked_inputs(self.name, now.inputs, inputs, self.device)

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for inputs, both in order."""
        return [*self.run({v.name: a for v, a in zip(self.inputs, arrays)}).values()]

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on inputs that are on the device already; returns when the device is done. For
        timing, by one thread at a time."""
        now, arrays = self._checked(inputs)
        bound = self._bind(now)
        launch = prepare_sequence(bound.calls)
        for slot, data in zip(bound.slots, arrays):
            slot.copyfrom(data)
        runtime = self.device.runtime

        def call() -> None:
            launch()
            runtime.sync()

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel, by the names of its nodes, in order; each is waited
        for."""
        runtime = self.device.runtime
        result = []
        now, arrays = self._checked(inputs)
        with self._with(arrays, now) as bound:
            bound.launch()
            runtime.sync()
            for call, nodes in zip(bound.calls, self.nodes):
                launch = prepare_sequence([call])
                times = []
                for _ in range(repeat):
                    start = time.perf_counter()
                    launch()
                    runtime.sync()
                    times.append(time.perf_counter() - start)
                result.append((" + ".join(nodes), float(np.median(times))))
        return result
