"""The functions of the driver that the runtime calls, but for those about code."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import numpy as np

from tests.stub_cuda import names
from tests.stub_cuda.code import CodeCalls
from tests.stub_cuda.limits import ARCHS
from tests.stub_cuda.state import Block, Capture, Event, Refused, State, Stream


class StubCuda(CodeCalls, State):
    """See the package's head. `total`: bytes of memory that each device has."""

    CUresult = names.CUresult
    CUstream = names.CUstream
    CUdevice_attribute = names.CUdevice_attribute
    CUevent_flags = names.CUevent_flags
    CUstream_flags = names.CUstream_flags
    CUfunction_attribute = names.CUfunction_attribute
    CUstreamCaptureMode = names.CUstreamCaptureMode
    CUtensorMapDataType = names.CUtensorMapDataType
    CUtensorMapInterleave = names.CUtensorMapInterleave
    CUtensorMapSwizzle = names.CUtensorMapSwizzle
    CUtensorMapL2promotion = names.CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = names.CUtensorMapFloatOOBfill
    CUDA_VERSION = 13000

    def __init__(self, arch: str = "sm_80", devices: int = 1, total: int = 1 << 28) -> None:
        super().__init__()
        self.arch = ARCHS[arch]
        self.devices = devices
        self.total = total
        self.version = 13000
        self.started = False
        self.contexts: dict[int, int] = {}

    # -- devices

    def _cuInit(self, flags: Any) -> None:
        if flags != 0:
            raise Refused("INVALID_VALUE", f"flags of cuInit are 0, not {flags!r}")
        self.started = True

    def _cuGetErrorString(self, status: Any) -> bytes:
        return str(status.name).encode()

    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetCount(self) -> int:
        if not self.started:
            raise Refused("NOT_INITIALIZED", "cuInit was not called")
        return self.devices

    def _device(self, device: Any) -> int:
        if type(device) is not int or not 0 <= device < self.devices:
            raise Refused("INVALID_DEVICE", f"there is no device {device!r}")
        return device

    def _cuDeviceGet(self, index: Any) -> int:
        return self._device(index)

    def _cuDeviceGetName(self, size: Any, device: Any) -> bytes:
        self._device(device)
        return f"Stub {self.arch.name}".encode().ljust(size, b"\0")

    def _cuDeviceTotalMem(self, device: Any) -> int:
        self._device(device)
        return self.total

    def _cuDeviceGetAttribute(self, attribute: Any, device: Any) -> int:
        self._device(device)
        return self.arch.attributes()[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> int:
        known = self.contexts.get(self._device(device))
        if known is None:
            known = self.contexts[device] = self.new("context", device + 1)
        return known

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self.local.device = self.get("context", context) - 1

    def _cuCtxSynchronize(self) -> None:
        device = self.device
        for s in self.handles.get("stream", {}).values():
            if s.device == device and s.capture is not None:
                s.capture.valid = False
                raise Refused("STREAM_CAPTURE_UNSUPPORTED", "a stream of it is being captured")

    # -- memory

    def _free(self) -> int:
        return self.total - sum(b.size for b in self.blocks.values() if b.device == self.device)

    def _alloc(self, size: Any, device: int) -> int:
        self.unsafe()
        block = Block(self.number(size, "the size", 1), device)
        self.blocks[block.address] = block
        return block.address

    def _release(self, address: Any, pinned: bool) -> None:
        self.unsafe()
        _ = self.device
        block = self.blocks.get(self.number(address, "the address", 1))
        if block is None or (block.device < 0) != pinned:
            raise Refused("INVALID_VALUE", f"{address:#x} is not the start of such memory")
        del self.blocks[block.address]

    def _cuMemAlloc(self, size: Any) -> int:
        if self.number(size, "the size", 1) > self._free():
            raise Refused("OUT_OF_MEMORY")
        return self._alloc(size, self.device)

    def _cuMemFree(self, address: Any) -> None:
        self._release(address, False)

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self._free(), self.total

    def _cuMemHostAlloc(self, size: Any, flags: Any) -> int:
        _ = self.device
        if not 0 <= flags <= 7:
            raise Refused("INVALID_VALUE", f"flags are {flags!r}")
        return self._alloc(size, -1)

    def _cuMemFreeHost(self, address: Any) -> None:
        self._release(address, True)

    def _host(self, address: Any, nbytes: int) -> np.ndarray[Any, Any]:
        start = self.number(address, "the address in the host's memory", 1)
        for block in self.blocks.values():
            if block.address <= start < block.address + block.size:
                if block.device >= 0:
                    raise Refused("INVALID_VALUE", "the host's address is one of a device")
                self.find(start, nbytes, "pinned memory")
        raw = (ctypes.c_uint8 * nbytes).from_address(start)
        return np.ctypeslib.as_array(raw)

    def _on_device(self, address: Any, nbytes: int, what: str, device: int | None = None) -> Any:
        block = self.find(address, nbytes, what)
        wanted = self.device if device is None else device
        if block.device != wanted:
            raise Refused("INVALID_VALUE", f"{what} is memory of {block.device}, not of {wanted}")
        return block.part(int(address), nbytes)

    def _cuMemcpyHtoDAsync(self, to: Any, source: Any, nbytes: Any, stream: Any) -> None:
        size = self.number(nbytes, "the size")
        target, given = self._on_device(to, size, "the target"), self._host(source, size)

        def work() -> None:
            target.data[:] = given
            target.written[:] = True

        self.enqueue(stream, work)

    def _cuMemcpyDtoHAsync(self, to: Any, source: Any, nbytes: Any, stream: Any) -> None:
        size = self.number(nbytes, "the size")
        target, given = self._host(to, size), self._on_device(source, size, "the source")
        target.setflags(write=True)
        self.enqueue(stream, lambda: np.copyto(target, given.data))

    def _copy(self, target: Any, given: Any, stream: Any) -> None:
        if np.shares_memory(target.data, given.data) and target.data.size:
            raise Refused("INVALID_VALUE", "source and target overlap")

        def work() -> None:
            target.data[:] = given.data
            target.written[:] = given.written

        self.enqueue(stream, work)

    def _cuMemcpyDtoDAsync(self, to: Any, source: Any, nbytes: Any, stream: Any) -> None:
        size = self.number(nbytes, "the size")
        target = self._on_device(to, size, "the target")
        self._copy(target, self._on_device(source, size, "the source"), stream)

    def _cuMemcpyPeerAsync(
        self, to: Any, to_context: Any, source: Any, source_context: Any, nbytes: Any, stream: Any
    ) -> None:
        size = self.number(nbytes, "the size")
        there = self.get("context", to_context) - 1
        here = self.get("context", source_context) - 1
        target = self._on_device(to, size, "the target", there)
        self._copy(target, self._on_device(source, size, "the source", here), stream)

    # -- streams

    def _cuStreamCreate(self, flags: Any) -> names.CUstream:
        if flags not in (0, 1):
            raise Refused("INVALID_VALUE", f"flags of a stream are 0 or 1, not {flags!r}")
        return names.CUstream(self.new("stream", Stream(self.device, flags == 0)))

    def _cuStreamDestroy(self, stream: Any) -> None:
        if self.get("stream", stream).capture is not None:
            raise Refused("STREAM_CAPTURE_UNSUPPORTED", "the stream is being captured")
        self.take("stream", stream)

    def _cuStreamSynchronize(self, stream: Any) -> None:
        self.unsafe()
        found = self.stream(stream)
        if found is not None and found.capture is not None:
            found.capture.valid = False
            raise Refused("STREAM_CAPTURE_UNSUPPORTED", "the stream is being captured")

    def _cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> None:
        found, waits = self.get("event", event), self.stream(stream)
        if flags not in (0, 1):
            raise Refused("INVALID_VALUE", f"flags are {flags!r}")
        if found.captured is not None and (waits is None or waits.capture is not found.captured):
            raise Refused("STREAM_CAPTURE_UNSUPPORTED", "the event is of another stream's capture")

    def _cuThreadExchangeStreamCaptureMode(self, mode: Any) -> names.CUstreamCaptureMode:
        before, self.local.mode = self.mode, names.CUstreamCaptureMode(mode)
        return before

    def _cuStreamBeginCapture(self, stream: Any, mode: Any) -> None:
        found = self.stream(stream)
        if found is None:
            raise Refused("STREAM_CAPTURE_UNSUPPORTED", "the legacy stream cannot be captured")
        if found.capture is not None:
            raise Refused("ILLEGAL_STATE", "the stream is being captured already")
        found.capture = Capture(names.CUstreamCaptureMode(mode), threading.get_ident())

    def _cuStreamEndCapture(self, stream: Any) -> int:
        found = self.stream(stream)
        if found is None or found.capture is None:
            raise Refused("ILLEGAL_STATE", "the stream is not being captured")
        capture, relaxed = found.capture, names.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        if capture.thread != threading.get_ident() and capture.mode is not relaxed:
            raise Refused("STREAM_CAPTURE_WRONG_THREAD", "another thread began the capture")
        found.capture = None
        if not capture.valid:
            raise Refused("STREAM_CAPTURE_INVALIDATED", "a call has made the capture invalid")
        return self.new("graph", capture.work)

    # -- events

    def _cuEventCreate(self, flags: Any) -> int:
        if not 0 <= flags <= 3:
            raise Refused("INVALID_VALUE", f"flags of an event are {flags!r}")
        return self.new("event", Event(self.device, not flags & 2))

    def _cuEventDestroy(self, event: Any) -> None:
        _ = self.device
        self.take("event", event)

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        found, where = self.of_context(self.get("event", event), "the event"), self.stream(stream)
        found.captured = None if where is None else where.capture
        found.at = time.perf_counter()

    def _reached(self, event: Any) -> Event:
        _ = self.device
        found: Event = self.get("event", event)
        if found.captured is not None:
            found.captured.valid = False
            raise Refused("CAPTURED_EVENT", "the event is part of a capture")
        return found

    def _cuEventQuery(self, event: Any) -> None:
        self.unsafe()
        self._reached(event)

    def _cuEventSynchronize(self, event: Any) -> None:
        self.unsafe()
        self._reached(event)

    def _cuEventElapsedTime(self, start: Any, end: Any) -> float:
        events = [self._reached(e) for e in (start, end)]
        if not all(e.timing for e in events):
            raise Refused("INVALID_HANDLE", "an event was made without timing")
        if any(e.at is None for e in events) or events[0].device != events[1].device:
            raise Refused("INVALID_HANDLE", "an event was not recorded, or is of another device")
        return ((events[1].at or 0) - (events[0].at or 0)) * 1e3
