"""Executable: a compiled network that runs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError, TilewrightError
from ..driver.network import ENTRY, KernelCall
from ..rt import native, packed, threads
from ..rt.array import empty
from ..target.target import Target
from .ir import Value

Array = np.ndarray[Any, Any]

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass(frozen=True)
class Kernel:
    """Object code of one kernel: its symbol, what it computes, and whether records say how."""

    symbol: str
    title: str
    obj: bytes
    tuned: bool = False


class Executable:
    """A network as native code: one entry function that calls the kernels.

    Any number of threads may call at once: each call has a workspace for intermediate values, from
    a pool that keeps as many as there are cores.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        output_names: Sequence[str],
        constants: Sequence[Array],
        workspace: int,
        kernels: Sequence[Kernel],
        calls: Sequence[KernelCall],
        entry: bytes,
        target: Target,
        nodes: Sequence[Sequence[str]],
    ) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.output_names = list(output_names)
        self.constants = list(constants)
        self.workspace_bytes = workspace
        self.kernels = list(kernels)
        self.calls = list(calls)
        self.entry = entry
        self.target = target
        self.nodes = [list(n) for n in nodes]
        self._lock = Lock()
        self._function: Any = None
        self._idle: list[_Slots] = []

    @property
    def distinct(self) -> int:
        """The number of kernels that differ."""
        return len(self.kernels)

    @property
    def tuned(self) -> int:
        """How many of those have a schedule from records."""
        return sum(k.tuned for k in self.kernels)

    def _load(self) -> Any:
        """The entry function, linking the code on the first call."""
        with self._lock:
            if self._function is None:
                reason = self.target.missing_on_host()
                if reason:
                    raise TilewrightError(f"cannot run code for {str(self.target)!r}: {reason}")
                libraries = [native.load_object(k.obj, names=[k.symbol]) for k in self.kernels]
                symbols = {k.symbol: x.address(k.symbol) for k, x in zip(self.kernels, libraries)}
                libraries.append(native.load_object(self.entry, symbols, [ENTRY]))
                self._addresses = symbols
                self._libraries = libraries
                self._function = _NATIVE(libraries[-1].address(ENTRY))
            return self._function

    @contextmanager
    def _slots(self, arrays: Sequence[Array]) -> Iterator[Any]:
        """Slots of one call on inputs and outputs, which nobody else uses meanwhile."""
        try:
            mine = self._idle.pop()  # one step, so no lock
        except IndexError:
            mine = _Slots(
                len(self.inputs) + len(self.outputs), self.constants, self.workspace_bytes
            )
        slots = mine.slots
        for k, a in enumerate(arrays):
            slots[k] = a.ctypes.data
        yield slots
        if len(self._idle) < threads.num_threads():
            self._idle.append(mine)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name. `inputs` has one array for each input, of its dtype and shape."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        outputs = [np.empty(v.shape, parse(v.dtype).numpy) for v in self.outputs]
        self._invoke(arrays, outputs)
        return dict(zip(self.output_names, outputs))

    def _invoke(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        function = self._function or self._load()
        with self._slots([*arrays, *outputs]) as slots:
            code = function(ctypes.addressof(slots))
        if code < 0:
            raise packed.take_pending(code)
        if code:
            raise TilewrightError(f"{self.name}: a kernel failed with code {code}")

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on fixed inputs that are checked once; results are dropped. For timing."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        outputs = [np.empty(v.shape, parse(v.dtype).numpy) for v in self.outputs]

        def call() -> None:
            self._invoke(arrays, outputs)

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel call, by the names of its nodes, in order."""
        arrays = checked_inputs(self.name, self.inputs, inputs)
        outputs = [np.empty(v.shape, parse(v.dtype).numpy) for v in self.outputs]
        self._invoke(arrays, outputs)
        with self._slots([*arrays, *outputs]) as slots:
            return [
                (" + ".join(nodes), self._time(call, slots, repeat))
                for call, nodes in zip(self.calls, self.nodes)
            ]

    def _time(self, call: KernelCall, slots: Any, repeat: int) -> float:
        """Median seconds of one kernel call."""
        kernel = _NATIVE(self._addresses[self.kernels[call.kernel].symbol])
        args = (ctypes.c_int64 * len(call.args))()
        for k, place in enumerate(call.args):
            args[k] = slots[place.slot] + place.offset
        address = ctypes.addressof(args)
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            kernel(address)
            times.append(time.perf_counter() - start)
        return float(np.median(times))


class _Slots:
    """The slots of the entry function, with a workspace of their own; inputs and outputs, which
    come first, are filled in for each call."""

    def __init__(self, first: int, constants: Sequence[Array], workspace: int) -> None:
        self.kept = [*constants, np.asarray(empty((max(workspace, 1),), "uint8"))]
        self.slots = (ctypes.c_int64 * (first + len(self.kept)))()
        for k, a in enumerate(self.kept):
            self.slots[first + k] = a.ctypes.data


def checked_inputs(name: str, values: Sequence[Value], inputs: Mapping[str, Any]) -> list[Array]:
    """The arrays for the inputs `values` of network `name`, in order and compact.

    Raises ArgumentError where one is missing, unknown, or of another shape or dtype.
    """
    expected = ", ".join(repr(v) for v in values)
    unknown = sorted(set(inputs) - {v.name for v in values})
    if unknown:
        raise ArgumentError(f"{name} has no input {unknown[0]!r}; inputs: {expected}")
    result = []
    for v in values:
        if v.name not in inputs:
            raise ArgumentError(f"{name}: input {v.name!r} is missing; inputs: {expected}")
        array = np.asarray(inputs[v.name])
        if array.shape != v.shape:
            raise ArgumentError(
                f"{name}: input {v.name!r} has shape {array.shape}, expected {v.shape}"
            )
        if array.dtype != parse(v.dtype).numpy:
            raise ArgumentError(f"{name}: input {v.name!r} is {array.dtype}, expected {v.dtype}")
        result.append(np.asarray(array, order="C"))
    return result
