"""Functions whose work is done by kernels of a device.

The host part of such a function is a Python function that the compiler wrote
(codegen/host_python.py): it computes grid sizes from the scalars and launches kernels, through the
`Launcher` of the device that its arguments are on. Launches do not wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from types import CodeType
from typing import Any

import numpy as np

from ..base.errors import InternalError, TilewrightError
from ..base.tensor_map import Pixels, TensorMap
from .adapt import complain
from .array import NDArray, array
from .checker import NeedsAdapting, adapt_and_check, make_checker
from .device import Device
from .device_array import DeviceArray
from .diagnose import count_error
from .drivers import base
from .drivers.cuda_code import compile_ahead
from .function import Function, with_status
from .signature import MOST_NARROW, FunctionInfo

Host = Callable[..., None]

SIMT = Device("simt")


class Launcher:
    """What a host function calls: launches kernels of one device, allocates its memory."""

    __slots__ = ("clusters", "kernels", "limits", "runtime")

    def __init__(self, runtime: base.Runtime, kernels: Mapping[str, base.Kernel]) -> None:
        self.runtime = runtime
        self.kernels = kernels
        self.limits = runtime.limits
        sizes = {name: kernel.info.cluster for name, kernel in kernels.items()}
        self.clusters = {name: n for name, n in sizes.items() if n > 1}

    def launch(
        self,
        name: str,
        grid: base.Extents,
        block: base.Extents,
        args: Sequence[Any],
        stream: base.Stream,
    ) -> None:
        """Start a kernel; one without threads does nothing."""
        if self._runs(name, grid, block):
            self.kernels[name].launch(grid, block, args, stream)

    def _runs(self, name: str, grid: base.Extents, block: base.Extents) -> bool:
        if min(*grid, *block) <= 0:
            return False
        limits = self.limits
        threads, most = block[0] * block[1] * block[2], limits.max_threads_per_block
        if threads > most:
            raise TilewrightError(
                f"{name}: {threads} threads a block {block}, but {self.runtime} "
                f"({limits.device_name}) has at most {most}; split the axes that are bound to "
                "threadIdx by smaller factors"
            )
        for dimension, (blocks, top) in enumerate(zip(grid, limits.max_grid_dimensions)):
            if blocks > top:
                raise TilewrightError(
                    f"{name}: {blocks} blocks along blockIdx.{'xyz'[dimension]}, but "
                    f"{self.runtime} ({limits.device_name}) has at most {top}; bind the longest "
                    "axis to blockIdx.x"
                )
        cluster = self.clusters.get(name, 1)
        if grid[0] % cluster:
            raise TilewrightError(
                f"{name}: clusters of {cluster} blocks along blockIdx.x do not divide the "
                f"{grid[0]} that there are; call it with sizes that give a multiple, or build it "
                "without the pragma cluster_dims"
            )
        return True

    def alloc(self, nbytes: int) -> base.Memory:
        return self.runtime.alloc(max(nbytes, 0))

    def tensor_map(
        self,
        handle: Any,
        dtype: str,
        dims: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        swizzle: int,
        pixels: tuple[tuple[int, ...], ...] = (),
    ) -> Any:
        """What a kernel takes for a tensor map of an array; see `base.tensor_map.TensorMap`, whose
        `pixels` are corners and steps, if any."""
        described = _described(dtype, dims, strides, box, swizzle, *pixels)
        return self.runtime.tensor_map(handle, described)

    @staticmethod
    def require_narrow(name: str, elements: int) -> None:
        """Fail where a temporary has more elements than kernels count, whose indices are int32."""
        if elements > MOST_NARROW:
            raise TilewrightError(
                f"the temporary {name} would have {elements} elements, but kernels built for int32 "
                f"shapes count at most {MOST_NARROW}; build with te.var(..., 'int64') for larger "
                "arrays"
            )

    def free(self, memory: base.Memory) -> None:
        memory.free()

    @staticmethod
    def truncdiv(a: int, b: int) -> int:
        """a / b rounded towards zero."""
        q = abs(a) // abs(b)
        return q if (a < 0) == (b < 0) else -q

    @staticmethod
    def failed(message: str) -> TilewrightError:
        """The error of an assertion of the program."""
        return TilewrightError(message)


@lru_cache(maxsize=256)
def _described(
    dtype: str,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
    *corners: tuple[int, ...],
) -> TensorMap:
    """What a launch says of an array, looked at once."""
    pixels = Pixels(*corners) if corners else None
    described = TensorMap(dtype, dims, strides, box, swizzle, pixels)
    wrong = described.problem()
    if wrong:
        raise TilewrightError(f"an array of {described.dims} elements has no tensor map: {wrong}")
    return described


class _Recorder(Launcher):
    """Collects launches with their arguments instead of starting them.

    Memory that one function gives back serves the next: they run in the order of one stream.
    """

    __slots__ = ("calls", "kept", "spare", "work")

    def __init__(self, launcher: Launcher) -> None:
        super().__init__(launcher.runtime, launcher.kernels)
        self.calls: list[tuple[base.Kernel, base.Extents, base.Extents, Sequence[Any]]] = []
        self.work: list[Callable[[], None]] = []
        self.kept: list[base.Memory] = []
        self.spare: list[base.Memory] = []

    def launch(
        self,
        name: str,
        grid: base.Extents,
        block: base.Extents,
        args: Sequence[Any],
        stream: base.Stream,
    ) -> None:
        if self._runs(name, grid, block):
            kernel = self.kernels[name]
            self.calls.append((kernel, grid, block, args))
            self.work.append(kernel.bind(grid, block, args, stream))

    def repeat(self, stream: base.Stream) -> None:
        """Start what was collected in another stream."""
        for kernel, grid, block, args in self.calls:
            kernel.launch(grid, block, args, stream)

    def alloc(self, nbytes: int) -> base.Memory:
        fitting = [m for m in self.spare if m.nbytes >= nbytes]
        if fitting:
            memory = min(fitting, key=lambda m: m.nbytes)
            self.spare.remove(memory)
            return memory
        memory = super().alloc(nbytes)
        self.kept.append(memory)
        return memory

    def free(self, memory: base.Memory) -> None:
        """Memory stays for the runs to come."""
        self.spare.append(memory)


class KernelCode:
    """Kernels of a module, loaded on each device where they are first needed, once."""

    __slots__ = ("_launchers", "_lock", "code")

    def __init__(self, code: base.DeviceCode) -> None:
        self.code = code
        self._launchers: dict[tuple[str, int], Launcher] = {}
        self._lock = Lock()

    def compile_ahead(self) -> None:
        """Compile now what would be compiled when it is first loaded, for the architecture that
        the code names. CompileError shows what the compiler says."""
        self.code = compile_ahead(self.code)

    def launcher(self, kind: str, index: int) -> Launcher:
        """The launcher of a device; TilewrightError where the device or its driver is missing."""
        found = self._launchers.get((kind, index))
        if found is None:
            driver = base.find(kind)
            if driver is None:
                raise TilewrightError(f"there is no driver for devices of kind {kind!r}")
            runtime = driver.open(index)
            with self._lock:
                found = self._launchers.get((kind, index))
                if found is None:
                    found = Launcher(runtime, runtime.load(self.code))
                    self._launchers[kind, index] = found
        return found


@lru_cache(maxsize=512)
def _compiled(text: str, name: str) -> CodeType:
    return compile(text, f"<tilewright host code of {name}>", "exec")


def host_function(text: str, name: str) -> Host:
    """The function that host code defines. The text is the compiler's own, or out of a module
    that the user loads as code."""
    namespace: dict[str, Any] = {}
    exec(_compiled(text, name), namespace)
    found = [v for k, v in namespace.items() if k != "__builtins__"]
    if len(found) != 1:
        raise InternalError(f"host code of {name} defines {len(found)} functions")
    host: Host = found[0]
    return host


class DeviceFunction(Function):
    """A function whose kernels run on the device that its array arguments are on.

    A call returns when the kernels have been launched: `dev.sync()`, or copying a result, waits.
    Arrays have to be on one device of the module's kind: `nd.array(x, dev)`.
    """

    __slots__ = ("_code", "_host", "_kind", "_simt", "text")

    def __init__(self, info: FunctionInfo, text: str, code: KernelCode, kind: str) -> None:
        super().__init__(info, self._no_address)
        self.text = text
        self._code = code
        self._kind = kind
        self._host: Host | None = None
        self._simt: DeviceFunction | None = None

    def _no_address(self) -> tuple[int, Any]:
        raise TilewrightError(f"{self.name} launches kernels of {self._kind}: it has no address")

    def _ready_host(self) -> tuple[Any, Host]:
        self._host = host_function(self.text, self.name)
        self._check = make_checker(self.info)
        return self._check, self._host

    def __call__(self, *args: Any) -> None:
        launcher, slots, host = self._checked(args)
        host(launcher, launcher.runtime.stream, *slots)

    def _checked(self, args: tuple[Any, ...]) -> tuple[Launcher, Sequence[Any], Host]:
        if len(args) != self._count:
            raise count_error(self.info, len(args))
        check: Any = self._check
        host = self._host
        if check is None or host is None:
            check, host = self._ready_host()
        try:
            index, slots = check(*args)
        except NeedsAdapting:
            if self._kind != SIMT.kind and any(_on_simt(a) for a in args):
                return self.simt()._checked(args)
            index, slots = adapt_and_check(self.info, check, args)[0]
        return self._code.launcher(self._kind, index), slots, host

    def simt(self) -> DeviceFunction:
        """The same function on arrays of the device simt, where its kernels are interpreted."""
        if self._simt is None:
            attrs = {**self.info.attrs, "device_type": SIMT.device_type}
            info = replace(self.info, attrs=attrs)
            self._simt = DeviceFunction(info, self.text, self._code, SIMT.kind)
        return self._simt

    def run_simt(self, *args: Any) -> dict[str, Any]:
        """Run in the lock-step executor on CPU arrays; outputs are written in place.

        Needs no device. Races, barriers that threads miss, reads of memory that nobody wrote and
        accesses out of bounds raise SimtError. Returns the report of the last launch of each kernel
        that was launched: of two versions one is.
        """
        if len(args) != self._count:
            raise count_error(self.info, len(args))
        for index, (want, given) in enumerate(zip(self.info.args, args)):
            if want.is_output and isinstance(given, np.ndarray) and not given.flags.writeable:
                complain(self.info, index, "the function writes it, got a read-only array")
        moved = [array(a, SIMT) if w.is_array else a for w, a in zip(self.info.args, args)]
        function = self.simt()
        kernels: dict[str, Any] = {**self._code.launcher(SIMT.kind, 0).kernels}
        for kernel in kernels.values():
            kernel.last = None
        function(*moved)
        for want, mine, given in zip(self.info.args, moved, args):
            if want.is_output and isinstance(given, NDArray):
                given.copyfrom(mine)
            elif want.is_output:
                given[...] = mine.numpy()
        return {name: kernel.last for name, kernel in kernels.items() if kernel.last is not None}

    def prepare(self, *args: Any) -> Callable[[], None]:
        """Check arguments once and bind the launches to them; see `Function.prepare`. They go to
        the stream that is current now."""
        return prepare_sequence([(self, args)])

    def prepare_raw(self, *args: Any) -> Callable[[], int]:
        """As `prepare`; the returned function gives 0."""
        return with_status(self.prepare(*args))


def prepare_sequence(
    calls: Sequence[tuple[DeviceFunction, tuple[Any, ...]]],
) -> Callable[[], None]:
    """Bind the launches of several calls, which run one after another each time that the result is
    called, as one graph where the device has graphs. All arguments are on one device. They go to
    the stream that is current now; where another is current later, the two wait for each other."""
    recorder: _Recorder | None = None
    for function, args in calls:
        launcher, slots, host = function._checked(args)
        if recorder is None:
            recorder = _Recorder(launcher)
        recorder.kernels, recorder.clusters = launcher.kernels, launcher.clusters
        host(recorder, launcher.runtime.stream, *slots)
    if recorder is None:
        return lambda: None
    work = recorder.work
    graph = recorder.runtime.capture(recorder.repeat) if len(work) > 1 else None
    if graph is not None:
        work = [graph]
    runtime, stream = recorder.runtime, recorder.runtime.stream

    def run(_keep: Any = (calls, recorder)) -> None:
        current = runtime.stream
        if current is not stream:
            stream.wait(current.record())
            current.flush()
        for launch in work:
            launch()
        if current is not stream:
            current.wait(stream.record())
            stream.flush()

    return run


def _on_simt(value: Any) -> bool:
    return isinstance(value, DeviceArray) and value.device == SIMT


def device_metadata(
    kernels: KernelCode | None, functions: Mapping[str, Function]
) -> dict[str, Any]:
    """For the file of a module: facts about its kernels, host code of its functions. The kernels'
    text is a source of the module."""
    found: dict[str, Any] = {} if kernels is None else {"device_code": kernels.code.to_json()}
    texts = {n: f.text for n, f in functions.items() if isinstance(f, DeviceFunction)}
    return {**found, "host_code": texts} if texts else found
