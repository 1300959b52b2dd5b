"""Executable: a compiled network that runs, from the compiler or from a file.

What runs a saved network needs NumPy, and nothing that compiles.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..base.aligned import placed_empty
from ..base.dtype import canonical, parse
from ..base.errors import TilewrightError
from ..base.pictured import Shown
from . import cpu, network_file, packed, threads
from .array import empty
from .network_code import ObjectCode, SharedCode
from .open_sizes import OpenSizes, Shaped, Shapes
from .plan import (
    ENTRY,
    Array,
    Described,
    Kernel,
    KernelCall,
    Place,
    Tensor,
    Work,
    alone_or_tuple,
    by_name,
    checked_inputs,
    checked_outputs,
    compact,
    described,
    mebibytes,
    tensors,
)
from .signature import read_dim

if TYPE_CHECKING:
    from ..target.target import Target

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_BYTE: Any = ctypes.c_char


@dataclass(frozen=True)
class Lent:
    """The slots of a network's inputs and outputs, in order: their addresses are written there.
    Then `function(address)` runs it; what it gives is a code for `failed` where it is not 0."""

    slots: Any
    address: int
    function: Callable[[int], int]
    failed: Callable[[int], NoReturn]


class Executable(Shown):
    """A network as native code: one entry function that calls the kernels.

    Any number of threads may call at once: they share the weights, and each call has a workspace
    for intermediate values, from a pool that keeps as many as there are cores.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Described],
        outputs: Sequence[Described],
        constants: Sequence[Array],
        workspace: int,
        code: ObjectCode | SharedCode,
        calls: Sequence[KernelCall],
        target: Target | Mapping[str, Any],
        nodes: Sequence[Sequence[str]],
        work: Sequence[Work] | Callable[[], Sequence[Work]] = (),
        sizes: OpenSizes | None = None,
    ) -> None:
        """`target`: a Target, or what a file says of one. `work`: of each call, or what counts it
        when it is asked for. `sizes`: what depends on sizes that are known at each call only."""
        self.name = name
        self.inputs = tensors(inputs)
        self.outputs = tensors(outputs)
        self.constants = list(constants)
        self.workspace_bytes = workspace
        self.calls = list(calls)
        self.nodes = [list(n) for n in nodes]
        self.sizes = sizes
        self._shapes = None if sizes is None else Shapes(name, self.inputs, self.outputs, sizes)
        self._fixed = Shaped(self.inputs, self.outputs, workspace)
        self._code = code
        self._work = work
        self._target = target
        self._lock = Lock()
        self._function: Any = None
        self._addresses: dict[str, int] = {}
        self._idle: list[_Slots] = []

    # -- facts

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels that differ."""
        return list(self._code.kernels)

    @property
    def code(self) -> ObjectCode | SharedCode:
        """The code of the kernels and of the function that calls them."""
        return self._code

    @property
    def work(self) -> list[Work]:
        """What each call of a kernel has to do; empty where an old file does not say it."""
        if callable(self._work):
            self._work = list(self._work())
        return list(self._work)

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in their order."""
        return [v.name for v in self.outputs]

    @property
    def target(self) -> Target:
        """What the code is for."""
        if isinstance(self._target, Mapping):
            from ..target.target import Target  # which takes LLVM

            self._target = Target(self._target["attributes"])
        return self._target

    @property
    def distinct(self) -> int:
        """The number of kernels that differ."""
        return len(self._code.kernels)

    @property
    def tuned(self) -> int:
        """How many of those have a schedule from records."""
        return sum(k.tuned for k in self._code.kernels)

    def __repr__(self) -> str:
        known = self._target
        target = str(known["text"] if isinstance(known, Mapping) else known)
        weights = sum(a.nbytes for a in self.constants)
        kernels = f"{self.distinct} kernels ({self.tuned} tuned)"
        sizes = (mebibytes(weights, "weights"), mebibytes(self.workspace_bytes, "workspace"))
        return described(self.name, target, self.inputs, self.outputs, kernels, *sizes)

    # -- calls

    def _load(self) -> Any:
        """The entry function, loading the code on the first call."""
        with self._lock:
            if self._function is None:
                self._addresses = self._code.load()
                self._function = _NATIVE(self._addresses[ENTRY])
            return self._function

    def _taken(self, addresses: Sequence[int], now: Shaped) -> _Slots:
        """Slots of one call on inputs and outputs, nobody else's until `_give` has them."""
        try:
            mine = self._idle.pop()  # one step, so no lock
        except IndexError:
            first = len(self.inputs) + len(self.outputs)
            last = 0 if self.sizes is None else len(self.sizes.symbols) + len(self.sizes.values)
            mine = _Slots(first, self.constants, last)
        if mine.now is not now:
            mine.fit(now)
        if addresses:
            mine.slots[: len(addresses)] = list(addresses)
        return mine

    def _give(self, mine: _Slots) -> None:
        if not self._idle or len(self._idle) < threads.num_threads():
            self._idle.append(mine)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The output for inputs in their order or by name; a tuple where there are several."""
        names = [v.name for v in self.inputs]
        return alone_or_tuple(self.run(by_name(self.name, names, arrays, named)))

    def run(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        """Outputs by name. `inputs` has one array for each input, of its dtype and shape.

        `outputs`: arrays to write outputs to, for any of them: of their dtype and shape, compact,
        writable, and sharing no memory with inputs or each other; ArgumentError where one is not.
        """
        now = self.shaped(inputs)
        arrays = checked_inputs(self.name, now.inputs, inputs)
        results = checked_outputs(self.name, now.outputs, outputs, arrays)
        self._invoke(arrays, results, now)
        return dict(zip(self.output_names, results))

    def apply(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs for inputs, both in order, of a network of fixed sizes. Shapes and dtypes of
        the inputs are not checked."""
        function = self._function or self._load()
        mine, slot = self._taken((), self._fixed), 0
        slots, given = mine.slots, [compact(a) for a in arrays]
        for a in given:
            slots[slot] = address_of(a)
            slot += 1
        results = []
        for v in self._fixed.outputs:
            made, slots[slot] = placed_empty(v.shape, parse(v.dtype).numpy)
            results.append(made)
            slot += 1
        code = function(mine.address)
        self._give(mine)
        if code:
            self._failed(code)
        return results

    def shaped(self, inputs: Mapping[str, Any]) -> Shaped:
        """The network at the sizes of some inputs; OtherSizesError where it is not for them."""
        return self._fixed if self._shapes is None else self._shapes.of(inputs)

    def _invoke(self, arrays: Sequence[Array], outputs: Sequence[Array], now: Shaped) -> None:
        self._call(_addresses([*arrays, *outputs]), now)

    def at_sizes(self, sizes: Mapping[str, int]) -> Shaped:
        """The network where its symbols have these values; OtherSizesError where it is not for
        them."""
        return self._fixed if self._shapes is None else self._shapes.at(sizes)

    def call_at(self, addresses: Sequence[int], now: Shaped | None = None) -> None:
        """Run on memory of the caller: addresses of the inputs, then of the outputs, in order, each
        compact and of its type. Nothing is checked. `now`: what `at_sizes` gave, for networks whose
        sizes are not fixed."""
        self._call(addresses, self._fixed if now is None else now)

    @contextmanager
    def lend(self) -> Iterator[Lent]:
        """What a network of fixed sizes is called with, for many calls by one thread, of which each
        sets what it changes."""
        function = self._function or self._load()
        mine = self._taken((), self._fixed)
        try:
            yield Lent(mine.slots, mine.address, function, self._failed)
        finally:
            self._give(mine)

    def _failed(self, code: int) -> NoReturn:
        if code < 0:
            raise packed.take_pending(code)
        raise TilewrightError(f"{self.name}: a kernel failed with code {code}")

    def _call(self, addresses: Sequence[int], now: Shaped) -> None:
        function = self._function or self._load()
        mine = self._taken(addresses, now)
        code = function(mine.address)
        self._give(mine)
        if code:
            self._failed(code)

    def prepare(self, inputs: Mapping[str, Any]) -> Callable[[], None]:
        """A call on fixed inputs that are checked once; results are dropped. For timing. Raises
        ArgumentError where an input is missing or unknown."""
        now = self.shaped(inputs)
        arrays = checked_inputs(self.name, now.inputs, inputs)
        outputs = [v.empty() for v in now.outputs]

        def call() -> None:
            self._invoke(arrays, outputs, now)

        return call

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[tuple[str, float]]:
        """Median seconds of each kernel call, by the names of its nodes, in order.

        The calls run in their order, as in a network, so that each finds in the caches what it
        finds there. `repeat`: runs, of which each median is.
        """
        spans = self.timeline(inputs, repeat)
        names = (" + ".join(nodes) for nodes in self.nodes)
        times = np.median(spans[:, :, 1] - spans[:, :, 0], axis=0)
        return list(zip(names, times.tolist()))

    def timeline(self, inputs: Mapping[str, Any], runs: int = 1) -> Array:
        """When each kernel call begins and ends: float64 [runs, calls, 2], in seconds since the
        first run began, after one that is not counted. Raises ArgumentError where an input is
        missing or unknown."""
        now = self.shaped(inputs)
        arrays = checked_inputs(self.name, now.inputs, inputs)
        outputs = [v.empty() for v in now.outputs]
        self._invoke(arrays, outputs, now)
        mine = self._taken(_addresses([*arrays, *outputs]), now)
        calls = [self._bound(call, mine.slots) for call in self.calls]
        spans: Array = np.empty((runs, len(calls), 2))
        begin = time.perf_counter()
        for row in spans:
            for k, call in enumerate(calls):
                start = time.perf_counter()
                call()
                row[k] = start, time.perf_counter()
        self._give(mine)
        return spans - begin

    def _bound(self, call: KernelCall, slots: Any) -> Callable[[], int]:
        """One kernel call on the arrays in the slots."""
        kernel = _NATIVE(self._addresses[self._code.kernels[call.kernel].symbol])
        args = (ctypes.c_int64 * len(call.args))()
        for k, place in enumerate(call.args):
            args[k] = slots[place.slot] + place.offset
        address = ctypes.addressof(args)
        return lambda: (args, kernel(address))[1]  # `args` lives as long as the call

    # -- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to one file, which `load` reads; nothing is left half-written.

        TilewrightError where its code cannot be linked: it is for a machine other than x86-64 and
        AArch64.
        """
        known = self._target
        defaults = {v.name: v.default for v in self.inputs if v.default is not None}
        constants = [*self.constants, *defaults.values()]
        places = network_file.places_of(constants)
        description = {
            "name": self.name,
            "inputs": [[v.name, v.shape, v.dtype] for v in self.inputs],
            "defaults": [*defaults],
            "outputs": [[v.name, v.shape, v.dtype] for v in self.outputs],
            "constants": [[canonical(a.dtype), a.shape, at] for a, at in zip(constants, places)],
            "workspace": self.workspace_bytes,
            "kernels": [[k.symbol, k.title, k.tuned] for k in self._code.kernels],
            "calls": [[c.kernel, [[p.slot, p.offset] for p in c.args]] for c in self.calls],
            "nodes": self.nodes,
            "work": [[w.flops, w.bytes] for w in self.work],
            "target": dict(known) if isinstance(known, Mapping) else _target_facts(known),
            "needs_threads": self._code.needs_threads,
            "sizes": None if self.sizes is None else self.sizes.to_json(),
        }
        network_file.write(path, description, self._code.shared(), constants)

    @staticmethod
    def load(path: str | os.PathLike[str], verify: bool = False) -> Executable:
        """The network in a file that `save` wrote. Its weights are mapped, not read.

        `verify`: compare the weights with their checksum, which reads them all. Raises
        TilewrightError where the file is not a saved network, is of another version, was cut short
        or damaged, or is for a CPU that this machine's is not.
        """
        parts = network_file.read(path, verify)
        try:
            target = dict(parts.description["target"])
            reason = cpu.gap(str(target["architecture"]), list(map(str, target["features"])))
            made = None if reason else _of_parts(parts, target)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TilewrightError(f"{path} does not describe a network: {error}") from None
        if made is None:
            raise TilewrightError(
                f"{path} cannot run on this machine: {reason}; compile it again for this machine, "
                "or for a CPU that both have, such as -mcpu=x86-64-v3"
            )
        made._load()
        return made


def load_network(path: str | os.PathLike[str], verify: bool = False) -> Executable:
    """The network in a file that `save` or `tilewright compile` wrote; see `Executable.load`.
    Raises TilewrightError where the network cannot run on this machine, where the file is no saved
    network of this version."""
    return Executable.load(path, verify)


def _of_parts(parts: network_file.Parts, target: Mapping[str, Any]) -> Executable:
    told = parts.description
    kernels = [
        Kernel(str(symbol), str(title), b"", bool(t)) for symbol, title, t in told["kernels"]
    ]
    defaults = [str(n) for n in told.get("defaults", ())]
    rows = [(parse(dtype).numpy, shape, at) for dtype, shape, at in told["constants"]]
    weights = network_file.arrays_in(parts.weights, rows)
    count = len(weights) - len(defaults)
    default = dict(zip(defaults, weights[count:]))
    calls = [KernelCall(k, tuple(Place(*p) for p in args)) for k, args in told["calls"]]
    return Executable(
        told["name"],
        [
            Tensor(n, tuple(map(read_dim, shape)), dtype, default.get(n))
            for n, shape, dtype in told["inputs"]
        ],
        [Tensor(n, tuple(map(read_dim, shape)), dtype) for n, shape, dtype in told["outputs"]],
        weights[:count],
        told["workspace"],
        SharedCode(parts.code, kernels, told["needs_threads"]),
        calls,
        target,
        told["nodes"],
        [Work(int(flops), int(moved)) for flops, moved in told.get("work", ())],
        None if told.get("sizes") is None else OpenSizes.from_json(told["sizes"]),
    )


def _target_facts(target: Target) -> dict[str, Any]:
    """What a file says of a target."""
    from ..target.capability import architecture

    attributes = {**target.export(), "mcpu": target.cpu, "mtriple": target.triple}
    features = sorted(target.required_features)
    return {
        "text": str(target),
        "attributes": attributes,
        "architecture": architecture(target.triple),
        "features": features,
    }


def _addresses(arrays: Sequence[Array]) -> list[int]:
    return [address_of(a) for a in arrays]


def address_of(array: Array) -> int:
    """`array.ctypes.data`, in a quarter of the time for compact arrays that can be written to."""
    try:
        return ctypes.addressof(_BYTE.from_buffer(array))
    except (TypeError, ValueError, BufferError):  # read-only, empty, or of a type without a format
        return int(array.ctypes.data)


class _Slots:
    """The slots of the entry function, with a workspace of their own; inputs and outputs, which
    come first, are filled in for each call."""

    def __init__(self, first: int, constants: Sequence[Array], last: int) -> None:
        """`first`, `last`: how many slots come before the constants, and how many that depend on
        sizes come behind them, instead of one for the workspace."""
        self.kept = list(constants)
        self.last = last
        self.after = first + len(constants)
        self.slots = (ctypes.c_int64 * (self.after + (last or 1)))()
        self.address = ctypes.addressof(self.slots)
        for k, a in enumerate(constants):
            self.slots[first + k] = a.ctypes.data
        self.room = np.empty(0, np.uint8)
        self.now: Shaped | None = None

    def fit(self, now: Shaped) -> None:
        """Be for a network at these sizes."""
        if len(self.room) < max(now.workspace, 1):
            self.room = np.asarray(empty((max(now.workspace, 1),), "uint8"))
        base = self.room.ctypes.data
        if self.last:
            self.slots[self.after :] = [*now.symbols, *(base + at for at in now.offsets)]
        else:
            self.slots[self.after] = base
        self.now = now
