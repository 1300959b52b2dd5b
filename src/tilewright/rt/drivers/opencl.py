"""OpenCL devices, through pyopencl (which is imported here alone, when first asked for)."""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, TilewrightError
from .base import (
    DeviceCode,
    Driver,
    Event,
    Kernel,
    Limits,
    Memory,
    Runtime,
    Stream,
    register,
)
from .live import LiveStreams
from .opencl_build import build_program
from .opencl_kernel import OpenCLKernel
from .opencl_limits import device_limits
from .pool import Block, OutOfDeviceMemory, Pool

_PAGE = 4096


class OpenCLEvent(Event):
    __slots__ = ("_event",)

    def __init__(self, event: Any) -> None:
        self._event = event

    @property
    def done(self) -> bool:
        return bool(self._event.command_execution_status <= 0)  # CL_COMPLETE, or an error

    def sync(self) -> None:
        self._event.wait()

    def seconds_since(self, start: Event) -> float:
        assert isinstance(start, OpenCLEvent)
        self._event.wait()
        try:
            return float(self._event.profile.end - start._event.profile.end) * 1e-9
        except Exception as error:
            raise TilewrightError(f"the OpenCL device measures no times: {error}") from None


class OpenCLStream(Stream):
    """A command queue that runs in order."""

    __slots__ = ("_cl", "_open")

    def __init__(self, runtime: OpenCLRuntime, queue: Any) -> None:
        super().__init__(runtime, queue)
        self._cl = runtime.cl
        self._open: deque[Any] = deque()

    def sync(self) -> None:
        try:
            self.handle.finish()
        except self._cl.Error as error:
            raise TilewrightError(f"{self.runtime}: work on the device failed: {error}") from None
        self._open.clear()

    def record(self, timing: bool = False) -> Event:
        return OpenCLEvent(self._cl.enqueue_marker(self.handle))

    def wait(self, event: Event) -> None:
        assert isinstance(event, OpenCLEvent)
        self._cl.enqueue_barrier(self.handle, wait_for=[event._event])

    def flush(self) -> None:
        self.handle.flush()

    def keep(self, event: Any) -> None:
        """Hold an event that would wait for its copy if it went."""
        while self._open and self._open[0].command_execution_status <= 0:
            self._open.popleft()
        self._open.append(event)


class _CreatedStream(OpenCLStream):
    """A stream that somebody holds: waits for its work when it goes."""

    __slots__ = ("_remembered", "_streams")

    def __init__(self, runtime: OpenCLRuntime, queue: Any, streams: LiveStreams[Any]) -> None:
        super().__init__(runtime, queue)
        self._streams = streams
        self._remembered = OpenCLStream(runtime, queue)
        streams.begin(self, self._remembered)

    def __del__(self) -> None:
        with suppress(Exception):  # pyopencl may be gone already when the process ends
            self.handle.finish()
        self._streams.drop(self._remembered)


class OpenCLRuntime(Runtime):
    """One OpenCL device with a context of its own."""

    def __init__(self, index: int, limits: Limits, cl: Any, device: Any) -> None:
        super().__init__("opencl", index, limits)
        self.cl = cl
        self.device = device
        self.context = cl.Context([device])
        self._streams: LiveStreams[OpenCLStream] = LiveStreams()
        self._default = self._streams.add(OpenCLStream(self, self._queue(False)))
        self._addresses = itertools.count(1)
        self._next_address = _PAGE
        self._part_align = max(int(device.mem_base_addr_align) // 8, 1)
        self._pool = Pool(self._allocate, self._release, self._marks, self.sync)

    # -- streams

    @property
    def default_stream(self) -> Stream:
        return self._default

    def _queue(self, timing: bool) -> Any:
        flags = self.cl.command_queue_properties.PROFILING_ENABLE if timing else 0
        return self.cl.CommandQueue(self.context, self.device, flags)

    def create_timing_stream(self) -> Stream:
        return _CreatedStream(self, self._queue(True), self._streams)

    def create_stream(self) -> Stream:
        return _CreatedStream(self, self._queue(False), self._streams)

    def sync(self) -> None:
        for stream in self._streams.all():
            stream.sync()

    def _marks(self) -> list[Event]:
        live = self._streams.all()
        if len(live) == 1:
            return []
        marks = [stream.record() for stream in live]
        for stream in live:
            stream.flush()
        return marks

    # -- memory

    def _allocate(self, nbytes: int) -> tuple[Any, int]:
        limit = self.limits.max_allocation
        if limit and nbytes > limit:
            raise TilewrightError(
                f"{self} ({self.limits.device_name}) allocates at most {limit} bytes at once; "
                f"{nbytes} were asked for"
            )
        try:
            handle = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, nbytes)
        except self.cl.Error as error:
            raise OutOfDeviceMemory(
                f"{self} ({self.limits.device_name}) has no memory for {nbytes} bytes; arrays take "
                f"{self._pool.taken_bytes} bytes: {error}"
            ) from None
        address = self._next_address
        self._next_address += -(-nbytes // _PAGE) * _PAGE
        return handle, address

    @staticmethod
    def _release(handle: Any) -> None:
        handle.release()

    def alloc(self, nbytes: int) -> Memory:
        block: Block = self._pool.take(nbytes)
        give = self._pool.give
        return Memory(self, block[0], block[1], nbytes, None, lambda _: give(block))

    def part(self, memory: Memory, offset: int, nbytes: int) -> Any:
        if offset == 0:
            return memory.handle
        if offset % self._part_align:
            raise ArgumentError(
                f"{self} ({self.limits.device_name}) can only pass parts of an array that start at "
                f"a multiple of {self._part_align} bytes, not at byte {offset}; "
                "x.copyto(x.device) makes an array of its own"
            )
        return memory.handle.get_sub_region(offset, max(nbytes, 1))

    def write(
        self, memory: Memory, offset: int, source: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        self._enqueue(stream, memory.handle, source, wait, dst_offset=offset)

    def read(
        self, memory: Memory, offset: int, target: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        self._enqueue(stream, target, memory.handle, wait, src_offset=offset)

    def _enqueue(self, stream: Stream, target: Any, source: Any, wait: bool, **how: Any) -> None:
        host = target if isinstance(target, np.ndarray) else source
        if not host.nbytes:
            return
        raw = host.reshape(-1).view(np.uint8)
        target, source = (raw, source) if host is target else (target, raw)
        try:
            event = self.cl.enqueue_copy(stream.handle, target, source, is_blocking=wait, **how)
        except self.cl.Error as error:
            raise TilewrightError(f"{self}: copying {host.nbytes} bytes failed: {error}") from None
        if not wait:
            assert isinstance(stream, OpenCLStream)
            stream.keep(event)

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
        if source.runtime is not self:  # another context: only the CPU sees both
            held = np.empty(nbytes, np.uint8)
            other = source.runtime
            other.read(source, source_offset, held, other.stream, True)
            self.write(target, target_offset, held, stream, True)
            return
        if target.handle is source.handle and abs(target_offset - source_offset) < nbytes:
            between = self.alloc(nbytes)
            self.copy(between, 0, source, source_offset, nbytes, stream)
            source, source_offset = between, 0
        self.cl.enqueue_copy(
            stream.handle,
            target.handle,
            source.handle,
            src_offset=source_offset,
            dst_offset=target_offset,
            byte_count=nbytes,
        )

    def trim(self) -> None:
        self._pool.trim()

    # -- code

    def load(self, code: DeviceCode) -> dict[str, Kernel]:
        program = build_program(self, code)
        found: dict[str, Kernel] = {}
        for info in code.kernels:
            make = partial(self._kernel, program, info.name)
            found[info.name] = OpenCLKernel(info, self, make)
        return found

    def _kernel(self, program: Any, name: str) -> Any:
        try:
            kernel = self.cl.Kernel(program, name)
        except self.cl.Error as error:
            raise TilewrightError(f"the OpenCL program has no kernel {name}: {error}") from None
        size = self.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        shared, most = kernel.get_work_group_info(size, self.device), self.limits
        if shared > most.max_shared_memory_per_block:  # drivers are known to crash on it
            raise TilewrightError(
                f"kernel {name} needs {shared} bytes of shared memory a block, but {self} "
                f"({most.device_name}) has {most.max_shared_memory_per_block}; use smaller tiles"
            )
        return kernel


class OpenCLDriver(Driver):
    """All devices of all platforms: GPUs and accelerators first, then CPUs (PoCL)."""

    kind = "opencl"
    device_type = 4

    def __init__(self) -> None:
        super().__init__()
        self._cl: Any = None
        self._devices: list[Any] | None = None
        self._reason = ""

    def _find(self) -> list[Any]:
        if self._devices is None:
            with self._lock:
                if self._devices is None:
                    self._devices = self._look()
        return self._devices

    def _look(self) -> list[Any]:
        try:
            import pyopencl
        except ImportError as error:
            self._reason = (
                f"the Python package pyopencl cannot be imported ({error}): "
                "pip install 'tilewright[opencl]'"
            )
            return []
        self._cl = cl = pyopencl
        try:
            platforms = cl.get_platforms()
        except cl.Error:
            platforms = []
        if not platforms:
            self._reason = (
                "no OpenCL platform is installed: install the driver (ICD) of your device, or "
                "PoCL (on Debian pocl-opencl-icd) to run OpenCL on the CPU"
            )
            return []
        found = []
        for platform in platforms:
            try:
                found += platform.get_devices()
            except cl.Error:  # a platform whose device is not there
                continue
        if not found:
            names = ", ".join(p.name for p in platforms)
            self._reason = f"the OpenCL platforms ({names}) have no device"
        return sorted(found, key=lambda d: bool(d.type & cl.device_type.CPU))

    def count(self) -> int:
        return len(self._find())

    def why_missing(self, index: int = 0) -> str:
        devices = self._find()
        if index < len(devices):
            return ""
        if self._reason:
            return self._reason
        names = ", ".join(f"opencl({i}) {d.name}" for i, d in enumerate(devices))
        return f"there are {len(devices)} OpenCL devices: {names}"

    def limits(self, index: int) -> Limits:
        return device_limits(self._cl, self._find()[index])

    def _open(self, index: int) -> Runtime:
        return OpenCLRuntime(index, self.known_limits(index), self._cl, self._find()[index])


register("opencl", OpenCLDriver())
