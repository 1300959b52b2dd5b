"""Kernels of CUDA devices: parameters are written into memory that the driver reads at a launch."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .base import HANDLE, MAP, Extents, Kernel, KernelInfo, Stream
from .cuda_api import CudaError
from .scalars import packer

if TYPE_CHECKING:
    from .cuda import CudaRuntime

# each parameter has a slot of eight bytes and stands at its start
_SLOTS = {
    HANDLE: "Q",
    "bool": "?7x",
    "int8": "b7x",
    "uint8": "B7x",
    "int16": "h6x",
    "uint16": "H6x",
    "int32": "i4x",
    "uint32": "I4x",
    "int64": "q",
    "uint64": "Q",
    "float32": "f4x",
    "float64": "d",
}
_UNASKED_SHARED = 48 << 10  # bytes of a block, static ones and those of the launch


class Parameters:
    """Memory for the parameters of one launch at a time. `address` is that of the array of their
    addresses, as cuLaunchKernel takes it. A tensor map stands where it was made."""

    __slots__ = ("_maps", "_packers", "_pointers", "_struct", "_values", "address")

    def __init__(self, params: Sequence[str]) -> None:
        self._maps = [n for n, p in enumerate(params) if p == MAP]
        params = [HANDLE if p == MAP else p for p in params]
        count = max(len(params), 1)
        self._values = (ctypes.c_uint64 * count)()
        start = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))
        self.address = ctypes.addressof(self._pointers)
        direct = all(p in _SLOTS for p in params)
        self._struct = struct.Struct(
            "<" + "".join(map(_SLOTS.__getitem__, params)) if direct else ""
        )
        self._packers = None if direct else [packer("uint64" if p == HANDLE else p) for p in params]

    def fill(self, args: Sequence[Any]) -> None:
        """Write the values of a launch."""
        if self._maps:
            args = list(args)
            for n in self._maps:
                args[n] = self._pointers[n] = args[n].address
        if self._packers is None:
            try:
                self._struct.pack_into(self._values, 0, *args)
            except OverflowError:  # a double that is infinite as a float32
                args = [_clamped(a) for a in args]
                self._struct.pack_into(self._values, 0, *args)
            return
        raw = b"".join(pack(a).ljust(8, b"\0") for pack, a in zip(self._packers, args))
        ctypes.memmove(self._values, raw, len(raw))


def _clamped(value: Any) -> Any:
    if isinstance(value, float) and abs(value) > 3.4028235677973366e38:
        return float("inf") if value > 0 else float("-inf")
    return value


class CudaModule:
    """A loaded CUmodule, unloaded some time after the object goes."""

    __slots__ = ("_runtime", "handle")

    def __init__(self, runtime: CudaRuntime, handle: Any) -> None:
        self._runtime = runtime
        self.handle = handle

    def __del__(self) -> None:
        self._runtime.unload_later(self.handle)


class CudaKernel(Kernel):
    __slots__ = ("_launch", "_lock", "_module", "_params", "_runtime", "_shared", "function")

    def __init__(self, info: KernelInfo, runtime: CudaRuntime, module: CudaModule) -> None:
        super().__init__(info)
        self._runtime = runtime
        self._module = module  # unloaded when the last of its kernels goes
        function = runtime.api.call("cuModuleGetFunction", module.handle, info.name.encode())
        self.function = function
        self._launch = runtime.api.binding.cuLaunchKernel
        self._params = Parameters(info.params)
        self._shared = info.shared_bytes
        self._lock = threading.Lock()
        kind = runtime.api.binding.CUfunction_attribute
        static = kind.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        if info.shared_bytes and (
            info.shared_bytes + int(runtime.api.call("cuFuncGetAttribute", static, function))
            > _UNASKED_SHARED
        ):
            wanted = kind.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            runtime.api.call("cuFuncSetAttribute", function, wanted, info.shared_bytes)

    def launch(self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream) -> None:
        self._runtime.enter()
        with self._lock:
            self._params.fill(args)
            (status,) = self._launch(
                self.function,
                *grid,
                *block,
                self._shared,
                stream.handle,
                self._params.address,
                0,
            )
        if status:
            raise self._failure(status, grid, block)

    def bind(
        self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream
    ) -> Callable[[], None]:
        params = Parameters(self.info.params)
        params.fill(args)
        start, function, shared = self._launch, self.function, self._shared
        (gx, gy, gz), (bx, by, bz) = grid, block
        queue, address, enter = stream.handle, params.address, self._runtime.enter

        def run() -> None:
            enter()
            (status,) = start(function, gx, gy, gz, bx, by, bz, shared, queue, address, 0)
            if status:
                raise self._failure(status, grid, block)

        run.__dict__["keep"] = (params, list(args), self)
        return run

    def _failure(self, status: Any, grid: Extents, block: Extents) -> CudaError:
        limits = self._runtime.limits
        facts = self.facts()
        error = self._runtime.api.error(
            status,
            f"cannot launch kernel {self.info.name} on {self._runtime} ({limits.device_name}) "
            f"with grid {grid}, block {block} ({facts['registers']} registers a thread, at most "
            f"{facts['max_threads']} threads a block)",
        )
        return error

    def facts(self) -> dict[str, int]:
        api = self._runtime.api
        kind = api.binding.CUfunction_attribute
        names = {
            "registers": "NUM_REGS",
            "shared_bytes": "SHARED_SIZE_BYTES",
            "local_bytes": "LOCAL_SIZE_BYTES",
            "max_threads": "MAX_THREADS_PER_BLOCK",
        }
        found = {}
        for name, theirs in names.items():
            attribute = getattr(kind, f"CU_FUNC_ATTRIBUTE_{theirs}")
            status, value = api.binding.cuFuncGetAttribute(attribute, self.function)
            found[name] = 0 if status else int(value)
        return found

    def active_blocks(self, threads: int) -> int:
        """Blocks of so many threads that a multiprocessor runs at once (occupancy)."""
        self._runtime.enter()
        return int(
            self._runtime.api.call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, threads, self._shared
            )
        )
