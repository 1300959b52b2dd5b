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
from ..target.target import Target

_IDLE = 4
"""Workspaces kept for calls to come, beside those in use."""


@dataclass(frozen=True)
class _Bound:
    """Kernels bound to arrays on the device: inputs, outputs, weights, workspace."""

    slots: list[NDArray]
    calls: list[tuple[DeviceFunction, tuple[Any, ...]]]
    launch: Callable[[], None]


class DeviceExecutable(Shown):
    """A network as kernels of a device, with the interface of `Executable`.

    Weights are copied to the device once, at the first use. Inputs are copied to it and outputs
    from it at each call; what flows between kernels stays there, in a workspace. Launches are bound
    to that once. Calls from several threads at once have a workspace each.
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
        work: Callable[[], list[Work]],
        device: Device | None = None,
    ) -> None:
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

    def _bind(self) -> _Bound:
        """Arrays on the device for one call at a time, and what launches all kernels on them."""
        slots = [
            *(new_array(v.shape, v.dtype, self.device) for v in (*self.inputs, *self.outputs)),
            *self._constants(),
            new_array((max(self.workspace_bytes, 1),), "uint8", self.device),
        ]
        bound = [self._call(call, slots) for call in self.calls]
        return _Bound(slots, bound, prepare_sequence(bound))

    def _call(
        self, call: KernelCall, slots: Sequence[NDArray]
    ) -> tuple[DeviceFunction, tuple[Any, ...]]:
        """The function of a kernel and its arguments."""
        function = self.module[symbol_of(call.kernel)]
        arrays = []
        for place, want in zip(call.args, function.info.args):
            array = slots[place.slot]
            assert isinstance(array, DeviceArray)
            shape, strides = (
                None if dims is None else tuple(int(d) for d in dims)  # type: ignore[arg-type]
                for dims in (want.shape, want.strides)
            )
            if (array.shape, array.dtype, place.offset, strides) != (shape, want.dtype, 0, None):
                array = array.part(place.offset, shape or (), want.dtype, strides)
            arrays.append(array)
        assert isinstance(function, DeviceFunction)
        return function, tuple(arrays)

    @contextmanager
    def _with(self, arrays: Sequence[Array]) -> Iterator[_Bound]:
        """Launches on these inputs, whose arrays nobody else uses meanwhile."""
        try:
            bound = self._idle.pop()  # one step, so no lock
        except IndexError:
            bound = self._bind()
        for slot, data in zip(bound.slots, arrays):
            slot.copyfrom(data)
        yield bound
        if len(self._idle) < _IDLE:
            self._idle.append(bound)

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
        """Outputs by name. `inputs` has one array for each input, of its dtype and shape.
        `outputs`: arrays of the CPU to copy outputs to, for any of them, as `Executable.run` takes
        them."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        given = checked_outputs(self.name, self.outputs, outputs, arrays) if outputs else None
        with self._with(arrays) as bound:
            bound.launch()
            first = len(self.inputs)
            results = [a.numpy() for a in bound.slots[first : first + len(self.outputs)]]
        for mine, result in zip(given or (), results):
            mine[...] = result
        return dict(zip(self.output_names, results if given is None else given))

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for inputs, both in order."""
        return [*self.run({v.name: a for v, a in zip(self.inputs, arrays)}).values()]

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on inputs that are on the device already; returns when the device is done. For
        timing, by one thread at a time."""
        bound = self._bind()
        for slot, data in zip(bound.slots, checked_inputs(self.name, self.inputs, inputs)):
            slot.copyfrom(data)
        runtime = self.device.runtime

        def call() -> None:
            bound.launch()
            runtime.sync()

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel, by the names of its nodes, in order; each is waited
        for."""
        runtime = self.device.runtime
        result = []
        with self._with(checked_inputs(self.name, self.inputs, inputs)) as bound:
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
