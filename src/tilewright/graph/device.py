"""DeviceExecutable: a compiled network that runs on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..driver.network import KernelCall, symbol_of
from ..rt.array import NDArray
from ..rt.array import empty as new_array
from ..rt.device import Device
from ..rt.device_module import DeviceFunction, prepare_sequence
from ..rt.module import Module
from ..target.target import Target
from .executable import Array, checked_inputs
from .ir import Value

Launch = Callable[[], None]


class DeviceExecutable:
    """A network as kernels of a device, with the interface of `Executable`.

    Weights are copied to the device once, at the first use. Inputs are copied to it and outputs
    from it at each call; what flows between kernels stays there, in one workspace. Launches are
    bound once. Calls from several threads take turns.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        output_names: Sequence[str],
        constants: Sequence[Array],
        workspace: int,
        module: Module,
        calls: Sequence[KernelCall],
        target: Target,
        nodes: Sequence[Sequence[str]],
        tuned: Sequence[bool],
        device: Device | None = None,
    ) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.output_names = list(output_names)
        self.constants = list(constants)
        self.workspace_bytes = workspace
        self.module = module
        self.calls = list(calls)
        self.target = target
        self.nodes = [list(n) for n in nodes]
        self.distinct = len(tuned)
        self.tuned = sum(tuned)
        self.device = device if device is not None else Device(target.kind.device_type)
        self._lock = Lock()
        self._whole: Launch | None = None
        self._slots: list[NDArray] = []

    def _load(self) -> Launch:
        """What launches all kernels in order, arrays on the device."""
        if self._whole is None:
            self.device.require()
            slots = [
                new_array(v.shape, v.dtype, self.device) for v in (*self.inputs, *self.outputs)
            ]
            for data in self.constants:
                slots.append(new_array(data.shape, str(data.dtype), self.device).copyfrom(data))
            slots.append(new_array((max(self.workspace_bytes, 1),), "uint8", self.device))
            self._slots = slots
            self._whole = prepare_sequence([self._bound(call) for call in self.calls])
        return self._whole

    def _bound(self, call: KernelCall) -> tuple[DeviceFunction, tuple[Any, ...]]:
        """The function of a kernel and its arguments."""
        function = self.module[symbol_of(call.kernel)]
        arrays = []
        for place, want in zip(call.args, function.info.args):
            array = self._slots[place.slot]
            if place.slot == len(self._slots) - 1:
                shape = [int(d) for d in want.shape]  # type: ignore[arg-type]
                array = array[place.offset :]._create_view(shape, want.dtype)
            arrays.append(array)
        assert isinstance(function, DeviceFunction)
        return function, tuple(arrays)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name. `inputs` has one array for each input, of its dtype and shape."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        with self._lock:
            launch = self._load()
            for slot, data in zip(self._slots, arrays):
                slot.copyfrom(data)
            launch()
            first = len(self.inputs)
            results = [a.numpy() for a in self._slots[first : first + len(self.outputs)]]
        return dict(zip(self.output_names, results))

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on inputs that are on the device already; returns when the device is done. For
        timing."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        with self._lock:
            launch = self._load()
            for slot, data in zip(self._slots, arrays):
                slot.copyfrom(data)
        runtime = self.device.runtime

        def call() -> None:
            with self._lock:
                launch()
                runtime.sync()

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel, by the names of its nodes, in order; each is waited
        for."""
        self.prepare(inputs)()
        runtime = self.device.runtime
        result = []
        for call, nodes in zip(self.calls, self.nodes):
            launch = prepare_sequence([self._bound(call)])
            times = []
            for _ in range(repeat):
                start = time.perf_counter()
                launch()
                runtime.sync()
                times.append(time.perf_counter() - start)
            result.append((" + ".join(nodes), float(np.median(times))))
        return result
