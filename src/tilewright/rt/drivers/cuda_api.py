"""Calls of the CUDA driver API through cuda-bindings, with errors as exceptions.

https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ...base.errors import TilewrightError
from .base import Limits

_INSTALL = "pip install 'tilewright[cuda]'"
_STICKY = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
}


class CudaError(TilewrightError):
    """The driver refused a call, or a kernel has failed. `name` is CUDA's of the error."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class Api:
    """A binding of the driver API: `cuda.bindings.driver`, or one that behaves as it."""

    __slots__ = ("binding",)

    def __init__(self, binding: Any) -> None:
        self.binding = binding

    def call(self, name: str, *args: Any) -> Any:
        """The result of a function (a tuple where there are several); CudaError where it fails."""
        status, *results = getattr(self.binding, name)(*args)
        if status:
            raise self.error(status, name)
        return results[0] if len(results) == 1 else tuple(results)

    def error(self, status: Any, what: str) -> CudaError:
        """The exception of a status that is no success."""
        _, text = self.binding.cuGetErrorString(status)
        words = text.decode() if isinstance(text, bytes) else str(text)
        name = str(getattr(status, "name", status))
        hint = ""
        if name in _STICKY:
            hint = (
                "; a kernel that was launched before went wrong, and this process cannot use the "
                "device any more: run the function in simt, which names the access"
            )
        elif name == "CUDA_ERROR_NO_BINARY_FOR_GPU":
            hint = "; the code was compiled for another architecture: build it for this device"
        return CudaError(name, f"{what}: {name} ({words}){hint}")

    def attribute(self, name: str, device: Any) -> int:
        """A device attribute by its name; 0 where the driver does not know it."""
        kind = getattr(self.binding.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if kind is None:
            return 0
        status, value = self.binding.cuDeviceGetAttribute(kind, device)
        return 0 if status else int(value)


def load_binding() -> tuple[Any, str]:
    """`cuda.bindings.driver`, started; or None and what is missing."""
    try:
        binding: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        return None, f"the Python package cuda-bindings cannot be imported ({error}): {_INSTALL}"
    return start(binding)


def start(binding: Any) -> tuple[Any, str]:
    """The binding after cuInit; or None and why that fails."""
    try:
        (status,) = binding.cuInit(0)
    except Exception as error:  # the binding's loader has exceptions of its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return None, (
            f"NVIDIA's driver library (libcuda.so.1) cannot be loaded: install the NVIDIA driver "
            f"({lines[0]})"
        )
    if not status:
        return binding, ""
    name = str(getattr(status, "name", status))
    if name == "CUDA_ERROR_NO_DEVICE":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
        return None, f"the NVIDIA driver finds no device{chosen}"
    return None, str(Api(binding).error(status, "the NVIDIA driver does not start (cuInit)"))


def device_limits(api: Api, device: Any) -> Limits:
    """Facts about a CUdevice."""

    def ask(name: str) -> int:
        return api.attribute(name, device)

    name = api.call("cuDeviceGetName", 256, device)
    version = int(api.call("cuDriverGetVersion"))
    major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    memory = int(api.call("cuDeviceTotalMem", device))
    return Limits(
        device_name=name.split(b"\0")[0].decode(),
        max_threads_per_block=ask("MAX_THREADS_PER_BLOCK"),
        max_thread_dimensions=(
            ask("MAX_BLOCK_DIM_X"),
            ask("MAX_BLOCK_DIM_Y"),
            ask("MAX_BLOCK_DIM_Z"),
        ),
        warp_size=ask("WARP_SIZE"),
        max_shared_memory_per_block=ask("MAX_SHARED_MEMORY_PER_BLOCK"),
        max_grid_dimensions=(
            ask("MAX_GRID_DIM_X"),
            ask("MAX_GRID_DIM_Y"),
            ask("MAX_GRID_DIM_Z"),
        ),
        registers_per_block=ask("MAX_REGISTERS_PER_BLOCK"),
        multi_processor_count=ask("MULTIPROCESSOR_COUNT"),
        max_clock_rate=ask("CLOCK_RATE"),
        compute_version=f"{major}.{minor}",
        l2_cache_size_bytes=ask("L2_CACHE_SIZE"),
        total_global_memory=memory,
        max_allocation=memory,
        api_version=f"{version // 1000}.{version % 1000 // 10}",
        driver_version=f"{version // 1000}.{version % 1000 // 10}",
        platform="NVIDIA CUDA",
        has_fp16=True,
        has_fp64=True,
        has_subgroups=True,
        vector_bytes=16,
        unified_memory=bool(ask("INTEGRATED")),
    )
