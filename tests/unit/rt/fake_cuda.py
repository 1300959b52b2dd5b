"""A stand-in for `cuda.bindings.driver`: memory is the host's, kernels are Python functions.

Streams run at once; what the driver promises is checked where that is possible (a context is
current, memory is there, streams that capture only record). `calls` lists the calls made.
"""

from __future__ import annotations

import ctypes
import enum
import struct
import threading
from typing import Any

_FORMATS = {"handle": "<Q", "int32": "<i", "int64": "<q", "float32": "<f", "float64": "<d"}
_FORMATS |= {"float16": "<e", "bool": "<?", "uint8": "<B", "bfloat16": "<H"}


# functions that give a status alone
_BARE = {"cuGraphLaunch", "cuStreamSynchronize", "cuLaunchKernel", "cuModuleUnload"}


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "WARP_SIZE": 32,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MULTIPROCESSOR_COUNT": 108,
    "CLOCK_RATE": 1410000,
    "MEMORY_CLOCK_RATE": 1215000,
    "GLOBAL_MEMORY_BUS_WIDTH": 5120,
    "COMPUTE_CAPABILITY_MAJOR": 8,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "L2_CACHE_SIZE": 41943040,
}


class CUstream(int):
    pass


class FakeCuda:
    """`kernels`: name -> (dtypes of the parameters, function(grid, block, *values))."""

    CUresult = CUresult
    CUstream = CUstream
    CUdevice_attribute = enum.IntEnum(  # type: ignore[misc]
        "CUdevice_attribute", [f"CU_DEVICE_ATTRIBUTE_{n}" for n in _ATTRIBUTES]
    )
    CUevent_flags = enum.IntEnum(
        "CUevent_flags", {"CU_EVENT_DEFAULT": 0, "CU_EVENT_DISABLE_TIMING": 2}
    )
    CUstream_flags = enum.IntEnum(
        "CUstream_flags", {"CU_STREAM_DEFAULT": 0, "CU_STREAM_NON_BLOCKING": 1}
    )
    CUfunction_attribute = enum.IntEnum(
        "CUfunction_attribute",
        {
            "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 0,
            "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": 1,
            "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES": 3,
            "CU_FUNC_ATTRIBUTE_NUM_REGS": 4,
            "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
        },
    )
    CUstreamCaptureMode = enum.IntEnum(
        "CUstreamCaptureMode",
        {
            "CU_STREAM_CAPTURE_MODE_GLOBAL": 0,
            "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL": 1,
            "CU_STREAM_CAPTURE_MODE_RELAXED": 2,
        },
    )

    def __init__(self, devices: int = 1, memory: int = 1 << 24) -> None:
        self.devices = devices
        self.total = memory
        self.version = 13000
        self.unloaded: list[Any] = []
        self.mode: Any = self.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self.kernels: dict[str, tuple[tuple[str, ...], Any]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.blocks: dict[int, Any] = {}
        self.graphs: dict[int, list[Any]] = {}
        self.capturing: dict[int, list[Any]] = {}
        self.open: dict[str, set[Any]] = {
            "event": set(),
            "stream": set(),
            "graph": set(),
            "exec": set(),
            "host": set(),
        }
        self.images: list[bytes] = []
        self.fail: dict[str, CUresult] = {}
        self.busy: set[int] = set()  # events that are not reached
        self._current = threading.local()
        self._number = 1000
        self._clock = 0.0

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("cu") or not callable(found):
            return found

        def call(*args: Any) -> Any:
            self.calls.append((name, *args))
            if name in self.fail:
                return (self.fail[name],) if name in _BARE else (self.fail[name], None)
            return found(*args)

        return call

    def names(self) -> list[str]:
        return [c[0] for c in self.calls]

    def _new(self, kind: str) -> int:
        self._number += 1
        self.open[kind].add(self._number)
        return self._number

    def _ok(self, *results: Any) -> tuple[Any, ...]:
        return (CUresult.CUDA_SUCCESS, *results)

    def _require_context(self) -> None:
        assert getattr(self._current, "context", None) is not None, "no context is current"

    # -- devices

    def cuInit(self, flags):
        return self._ok() if self.devices else (CUresult.CUDA_ERROR_NO_DEVICE,)

    def cuGetErrorString(self, status):
        return self._ok(status.name.lower().replace("_", " ").encode())

    def cuDriverGetVersion(self):
        return self._ok(self.version)

    def cuDeviceGetCount(self):
        return self._ok(self.devices)

    def cuDeviceGet(self, index):
        return self._ok(index)

    def cuDeviceGetName(self, size, device):
        return self._ok(f"Fake {device}".encode().ljust(size, b"\0"))

    def cuDeviceTotalMem(self, device):
        return self._ok(self.total)

    def cuDeviceGetAttribute(self, attribute, device):
        return self._ok(_ATTRIBUTES[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")])

    def cuDevicePrimaryCtxRetain(self, device):
        return self._ok(f"context {device}")

    def cuCtxSetCurrent(self, context):
        self._current.context = context
        return self._ok()

    def cuCtxSynchronize(self):
        self._require_context()
        return self._ok()

    # -- memory

    def cuMemAlloc(self, size):
        self._require_context()
        if size + sum(len(b) for b in self.blocks.values()) > self.total:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        raw = (ctypes.c_uint8 * (size + 512))()
        address = -(-ctypes.addressof(raw) // 512) * 512
        self.blocks[address] = raw
        return self._ok(address)

    def cuMemFree(self, address):
        del self.blocks[address]
        return self._ok()

    def cuMemGetInfo(self):
        return self._ok(self.total - sum(len(b) for b in self.blocks.values()), self.total)

    def cuMemHostAlloc(self, size, flags):
        raw = ctypes.create_string_buffer(size)
        address = ctypes.addressof(raw)
        self.blocks[-address] = raw
        self.open["host"].add(address)
        return self._ok(address)

    def cuMemFreeHost(self, address):
        self.open["host"].remove(address)
        del self.blocks[-address]
        return self._ok()

    def _move(self, to, source, size, stream):
        self._require_context()
        ctypes.memmove(to, source, size)
        return self._ok()

    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _move

    def cuMemcpyPeerAsync(self, to, to_context, source, source_context, size, stream):
        assert to_context != source_context
        return self._move(to, source, size, stream)

    # -- streams and events

    def cuStreamCreate(self, flags):
        self._require_context()
        return self._ok(CUstream(self._new("stream")))

    def cuStreamDestroy(self, stream):
        self.open["stream"].remove(int(stream))
        return self._ok()

    def cuStreamSynchronize(self, stream):
        return self._ok()

    def cuStreamWaitEvent(self, stream, event, flags):
        assert event in self.open["event"]
        return self._ok()

    def cuEventCreate(self, flags):
        return self._ok(self._new("event"))

    def cuEventDestroy(self, event):
        self.open["event"].remove(event)
        return self._ok()

    def cuEventRecord(self, event, stream):
        self._require_context()
        return self._ok()

    def cuEventQuery(self, event):
        return (CUresult.CUDA_ERROR_NOT_READY,) if event in self.busy else self._ok()

    def cuEventSynchronize(self, event):
        self.busy.discard(event)
        return self._ok()

    def cuEventElapsedTime(self, start, end):
        return self._ok(2.5)

    # -- kernels

    def cuModuleLoadData(self, image):
        self._require_context()
        self.images.append(image)
        return self._ok("module")

    def cuModuleUnload(self, module):
        self._require_context()
        self.unloaded.append(module)
        return self._ok()

    def cuThreadExchangeStreamCaptureMode(self, mode):
        before, self.mode = self.mode, mode
        return self._ok(before)

    def cuModuleGetFunction(self, module, name):
        if name.decode() not in self.kernels:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        return self._ok(name.decode())

    def cuFuncGetAttribute(self, attribute, function):
        return self._ok(10 + int(attribute))

    def cuFuncSetAttribute(self, function, attribute, value):
        return self._ok()

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared):
        return self._ok(2048 // threads)

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        self._require_context()
        if bx * by * bz > 1024:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        dtypes, body = self.kernels[function]
        values = [
            struct.unpack(
                _FORMATS[t],
                ctypes.string_at(
                    ctypes.c_size_t.from_address(params + 8 * i).value,
                    struct.calcsize(_FORMATS[t]),
                ),
            )[0]
            for i, t in enumerate(dtypes)
        ]
        work = (body, (gx, gy, gz), (bx, by, bz), values)
        if int(stream) in self.capturing:
            self.capturing[int(stream)].append(work)
        else:
            body(work[1], work[2], *values)
        return self._ok()

    # -- graphs

    def cuStreamBeginCapture(self, stream, mode):
        assert int(stream) != 0, "the legacy stream cannot capture"
        self.capturing[int(stream)] = []
        return self._ok()

    def cuStreamEndCapture(self, stream):
        number = self._new("graph")
        self.graphs[number] = self.capturing.pop(int(stream))
        return self._ok(number)

    def cuGraphInstantiate(self, graph, flags):
        number = self._new("exec")
        self.graphs[number] = self.graphs[graph]
        return self._ok(number)

    def cuGraphUpload(self, ready, stream):
        assert ready in self.open["exec"]
        return self._ok()

    def cuGraphDestroy(self, graph):
        self.open["graph"].remove(graph)
        return self._ok()

    def cuGraphLaunch(self, ready, stream):
        for body, grid, block, values in self.graphs[ready]:
            body(grid, block, *values)
        return self._ok()

    def cuGraphExecDestroy(self, ready):
        self.open["exec"].remove(ready)
        return self._ok()
