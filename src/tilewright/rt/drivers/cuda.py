"""CUDA devices, through cuda-bindings' driver API. Contexts are the primary ones, so that memory
is shared with PyTorch, CuPy and whatever else uses the device in this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ...base.errors import TilewrightError
from ...base.tensor_map import TensorMap
from ..array import view_address
from .base import DeviceCode, Driver, Event, Kernel, Limits, Memory, Runtime, Stream, register
from .cuda_api import Api, CudaError, device_limits, load_binding, start
from .cuda_code import load_modules
from .cuda_kernel import CudaKernel, CudaModule
from .cuda_maps import TensorMaps
from .cuda_stream import CreatedStream, CudaStream
from .live import LiveStreams
from .pool import Block, OutOfDeviceMemory, Pool

_LEGACY = 1  # DLPack's number of the legacy default stream, and a CUstream that means it


class CudaRuntime(Runtime):
    """One CUDA device and its primary context."""

    graphs = True

    def __init__(self, index: int, limits: Limits, api: Api, device: Any) -> None:
        super().__init__("cuda", index, limits)
        self.api = api
        self.context = api.call("cuDevicePrimaryCtxRetain", device)
        self._unloading: deque[Any] = deque()
        # nobody may wait for a context in which a stream is being captured
        self._capturing = threading.RLock()
        self.streams: LiveStreams[CudaStream] = LiveStreams()
        self._default = self.streams.add(CudaStream(self, api.binding.CUstream(0), None))
        self._maps = TensorMaps(api)
        self._pool = Pool(self._allocate, self._release, self._marks, self.sync)

    def enter(self) -> None:
        """Make the context this thread's: other libraries change it, or take theirs off again."""
        self.api.call("cuCtxSetCurrent", self.context)

    def close(self, name: str, handle: Any) -> None:
        """Give something of the context back, in a destructor: nothing is raised."""
        with suppress(Exception):
            self.enter()
            self.api.close(name, handle)

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Calls that the driver forbids all threads while one captures a stream in the global mode:
        in the relaxed mode they do not end the capture of another library."""
        self.enter()
        relaxed = self.api.binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = self.api.call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            yield
        finally:
            self.api.binding.cuThreadExchangeStreamCaptureMode(before)

    # -- streams

    @property
    def default_stream(self) -> Stream:
        return self._default

    def create_stream(self) -> Stream:
        stream = CreatedStream(self)
        stream.remember()
        return stream

    def sync(self) -> None:
        self.enter()
        with self._unloaded_after(), self._capturing:
            self.api.call("cuCtxSynchronize")

    def unload_later(self, module: Any) -> None:
        """Unload a module that nobody can launch any more, once its launches are done; safe in a
        destructor."""
        self._unloading.append(module)

    @contextmanager
    def _unloaded_after(self) -> Iterator[None]:
        """Unload the modules that are given up by now, behind a body that waits for all work."""
        modules = []
        with suppress(IndexError):  # other threads give up and unload, too
            while True:
                modules.append(self._unloading.popleft())
        try:
            yield
        except BaseException:
            self._unloading.extend(modules)
            raise
        for module in modules:
            with self.unguarded():
                self.api.call("cuModuleUnload", module)

    def _marks(self) -> list[Event]:
        live = self.streams.all()
        return [] if len(live) == 1 else [stream.record() for stream in live]

    def lend_to(self, number: Any) -> None:
        """Let a stream of another library wait for ours; numbers as DLPack has them."""
        if number == -1:
            return
        mine = int(self.stream.handle) or _LEGACY
        theirs = _LEGACY if number is None else int(number)
        if theirs != mine:
            other = CudaStream(self, self.api.binding.CUstream(theirs), None)
            other.wait(self.stream.record())

    def stream_number(self) -> int:
        """DLPack's number of the current stream."""
        return int(self.stream.handle) or _LEGACY

    # -- memory

    def _allocate(self, nbytes: int) -> tuple[Any, int]:
        try:
            with self.unguarded():
                address = int(self.api.call("cuMemAlloc", nbytes))
        except CudaError as error:
            if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
            raise OutOfDeviceMemory(
                f"{self} ({self.limits.device_name}) has no memory for {nbytes} bytes: "
                f"{self.free_memory()} are free, arrays take {self._pool.taken_bytes}"
            ) from None
        return address, address

    def _release(self, handle: Any) -> None:
        with self.unguarded():
            self.api.call("cuMemFree", handle)

    def alloc(self, nbytes: int) -> Memory:
        block: Block = self._pool.take(nbytes)
        give = self._pool.give
        return Memory(self, block[0], block[1], nbytes, None, lambda _: give(block))

    def part(self, memory: Memory, offset: int, nbytes: int) -> Any:
        return memory.handle + offset

    def write(
        self, memory: Memory, offset: int, source: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        if source.nbytes:
            where = memory.handle + offset
            host = source.__array_interface__["data"][0]
            self._copy("cuMemcpyHtoDAsync", where, host, source, stream, wait)

    def read(
        self, memory: Memory, offset: int, target: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        if target.nbytes:
            where = memory.handle + offset
            host = target.__array_interface__["data"][0]
            self._copy("cuMemcpyDtoHAsync", host, where, target, stream, wait)

    def _copy(
        self, name: str, to: int, source: int, host: np.ndarray[Any, Any], stream: Any, wait: bool
    ) -> None:
        self.enter()
        self.api.call(name, to, source, host.nbytes, stream.handle)
        if wait:
            stream.sync()
        else:
            stream.keep(host)

    def copy(
        self,
        target: Memory,
        target_offset: int,
        source: Memory,
        source_offset: int,
        nbytes: int,
        stream: Stream,
    ) -> None:
        if not nbytes:
            return
        self.enter()
        to, start = target.handle + target_offset, source.handle + source_offset
        other: Any = source.runtime
        if other is not self:
            self.api.call(
                "cuMemcpyPeerAsync", to, self.context, start, other.context, nbytes, stream.handle
            )
            other.stream.wait(stream.record())  # the source may be given back, and taken, there
            return
        if to < start + nbytes and start < to + nbytes and to != start:
            between = self.alloc(nbytes)
            self.copy(between, 0, source, source_offset, nbytes, stream)
            start = between.handle
        self.api.call("cuMemcpyDtoDAsync", to, start, nbytes, stream.handle)

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        with self.unguarded():
            address = int(self.api.call("cuMemHostAlloc", max(nbytes, 1), 0))
        owner = _PinnedOwner(self, address)
        return view_address(address, (nbytes,), None, "uint8", owner)

    def tensor_map(self, handle: Any, described: TensorMap) -> Any:
        if float(self.limits.compute_version) < 9.0:
            return super().tensor_map(handle, described)
        self.enter()
        return self._maps.get(int(handle), described)

    def free_memory(self) -> int:
        self.enter()
        free, _ = self.api.call("cuMemGetInfo")
        return int(free)

    def trim(self) -> None:
        self._pool.trim()

    # -- code

    def load(self, code: DeviceCode) -> dict[str, Kernel]:
        if self._unloading:
            with self._unloaded_after():
                for stream in self.streams.all():
                    stream.record().sync()
        with self.unguarded():
            found: dict[str, Kernel] = {}
            for handle, kernels in load_modules(self, code):
                module = CudaModule(self, handle)
                found.update((k.name, CudaKernel(k, self, module)) for k in kernels)
            return found

    def capture(self, work: Callable[[Stream], None]) -> Callable[[], None] | None:
        # not among the streams that memory waits for: an event in it would be part of the graph
        api, stream, into = self.api, self.stream, CreatedStream(self)
        with self._capturing:
            graph = self._captured(work, into)
        try:
            ready = api.call("cuGraphInstantiate", graph, 0)
        finally:
            api.call("cuGraphDestroy", graph)
        made = _Graph(self, ready, stream, work)
        api.call("cuGraphUpload", ready, stream.handle)  # else the first launch takes longer
        return made

    def _captured(self, work: Callable[[Stream], None], into: Stream) -> Any:
        api = self.api
        mode = api.binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        api.call("cuStreamBeginCapture", into.handle, mode)
        try:
            work(into)
        except BaseException:
            status, graph = api.binding.cuStreamEndCapture(into.handle)
            if not status:
                self.close("cuGraphDestroy", graph)
            raise
        return api.call("cuStreamEndCapture", into.handle)


class _PinnedOwner:
    """CPU memory that stays where it is, freed when the last array over it goes."""

    __slots__ = ("_address", "_runtime")

    def __init__(self, runtime: CudaRuntime, address: int) -> None:
        self._runtime = runtime
        self._address = address

    def __del__(self) -> None:
        with suppress(Exception), self._runtime.unguarded():
            self._runtime.api.close("cuMemFreeHost", self._address)


class _Graph:
    """Captured launches, as one."""

    __slots__ = ("_api", "_keep", "_launch", "_lock", "_ready", "_runtime", "_stream")

    def __init__(self, runtime: CudaRuntime, ready: Any, stream: Stream, keep: Any) -> None:
        self._keep = keep  # the kernels, whose modules have to stay loaded
        self._runtime = runtime
        self._api = runtime.api
        self._launch = runtime.api.binding.cuGraphLaunch
        self._ready = ready
        self._stream = stream
        self._lock = threading.Lock()  # the driver has none on graphs

    def __call__(self) -> None:
        self._runtime.enter()
        with self._lock:
            (status,) = self._launch(self._ready, self._stream.handle)
        if status:
            raise self._api.error(status, "cannot launch a CUDA graph")

    def __del__(self) -> None:
        self._runtime.close("cuGraphExecDestroy", self._ready)


class CudaDriver(Driver):
    """All devices that the NVIDIA driver shows to this process."""

    kind = "cuda"
    device_type = 2

    def __init__(self, binding: Any = None) -> None:
        """`binding` stands in for `cuda.bindings.driver`."""
        super().__init__()
        self._given = binding
        self._api: Api | None = None
        self._count = -1
        self._reason = ""

    def count(self) -> int:
        if self._count < 0:
            with self._lock:
                if self._count < 0:
                    self._count = self._look()
        return self._count

    def _look(self) -> int:
        binding, self._reason = load_binding() if self._given is None else start(self._given)
        if binding is None:
            return 0
        self._api = Api(binding)
        try:
            found = int(self._api.call("cuDeviceGetCount"))
        except CudaError as error:
            self._reason = str(error)
            return 0
        if not found:
            self._reason = "the NVIDIA driver finds no device"
        return found

    def why_missing(self, index: int = 0) -> str:
        count = self.count()
        if index < count:
            return ""
        if self._reason:
            return self._reason
        return f"there {'is 1 CUDA device' if count == 1 else f'are {count} CUDA devices'}"

    def _device(self, index: int) -> tuple[Api, Any]:
        if self._api is None or not self.exists(index):
            raise TilewrightError(
                f"device cuda({index}) does not exist here: {self.why_missing(index)}"
            )
        return self._api, self._api.call("cuDeviceGet", index)

    def limits(self, index: int) -> Limits:
        return device_limits(*self._device(index))

    def _open(self, index: int) -> Runtime:
        api, device = self._device(index)
        return CudaRuntime(index, self.known_limits(index), api, device)


register("cuda", CudaDriver())
