"""Calls of the CUDA driver API through cuda-bindings, with errors as exceptions.

https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any
from weakref import WeakSet

from ...base.errors import TilewrightError
from .base import Limits
from .nvrtc import packages

_INSTALL = (
    "pip install 'tilewright[cuda]' (or, for a driver of CUDA 12, pip install 'tilewright[cuda12]')"
)
_BINDINGS = ("cuda.bindings.driver", "cuda.cuda")  # the second: cuda-python before 12.6
_STICKY = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_CONTAINED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
}


class CudaError(TilewrightError):
    """The driver refused a call, or a kernel has failed. `name` is CUDA's of the error."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


_live: WeakSet[Any] = WeakSet()


def at_fork(thing: Any) -> None:
    """Call `thing.forget()` in the children of forks, where the driver does not work."""
    _live.add(thing)


class Api:
    """A binding of the driver API: `cuda.bindings.driver`, or one that behaves as it."""

    __slots__ = ("__weakref__", "binding", "driver_version", "forked")

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.forked = False
        status, version = binding.cuDriverGetVersion()
        self.driver_version = 0 if status else int(version)
        at_fork(self)

    def call(self, name: str, *args: Any) -> Any:
        """The result of a function (a tuple where there are several); CudaError where it fails."""
        if self.forked:
            raise self.after_fork()
        try:
            status, *results = getattr(self.binding, name)(*args)
        except (AttributeError, RuntimeError) as error:
            raise self._missing(name, error) from error
        if status:
            raise self.error(status, name)
        return results[0] if len(results) == 1 else tuple(results)

    def address(self, name: str, since: int) -> int:
        """Where a function of the driver is, that CUDA `since` (12000) brought; CudaError where
        the driver does not have it."""
        found = int(self.call("cuGetProcAddress", name.encode(), since, 0)[0] or 0)
        if not found:
            text = f"the driver has it from CUDA {since // 1000}.{since % 1000 // 10} on"
            raise CudaError("CUDA_ERROR_NOT_FOUND", f"{name} is not there: {text}")
        return found

    def forget(self) -> None:
        """In the child of a fork: refuse every call."""
        self.forked = True

    def close(self, name: str, handle: Any) -> None:
        """Give something back, in a destructor: nothing is raised."""
        if not self.forked:  # else it is the parent's
            with suppress(Exception):
                getattr(self.binding, name)(handle)

    def after_fork(self) -> TilewrightError:
        """The error of using what was opened before a fork."""
        return TilewrightError(
            "CUDA was started before this process was forked, and NVIDIA's driver does not work in "
            "the child: start processes by multiprocessing.get_context('spawn') (or 'forkserver'), "
            "or use the device in the child alone"
        )

    def _missing(self, name: str, error: Exception) -> CudaError:
        """A function that the binding or the driver library lacks."""
        theirs = self.driver_version // 1000
        ours = int(getattr(self.binding, "CUDA_VERSION", 0)) // 1000
        hint = ""
        if ours > theirs > 0:
            hint = (
                f"; cuda-bindings are of CUDA {ours}, the driver is of CUDA {theirs}: pip install "
                f"{packages(theirs)}, or a newer driver"
            )
        return CudaError("CUDA_ERROR_NOT_FOUND", f"{name} is not there ({error}){hint}")

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
        elif name == "CUDA_ERROR_DEVICE_UNAVAILABLE":
            hint = (
                "; another process has the device for itself (its compute mode is exclusive): end "
                "that one, or let processes share it (nvidia-smi -c DEFAULT)"
            )
        elif name == "CUDA_ERROR_NO_BINARY_FOR_GPU":
            hint = "; the code was compiled for another architecture: build it for this device"
        elif name in ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_IMAGE"):
            major, minor = self.driver_version // 1000, self.driver_version % 1000 // 10
            hint = (
                f"; the driver is of CUDA {major}.{minor}, and loads what a compiler of that "
                f"version makes: pip install {packages(major, minor)}, or a newer driver"
            )
        return CudaError(name, f"{what}: {name} ({words}){hint}")

    def attribute(self, name: str, device: Any) -> int:
        """A device attribute by its name; 0 where the driver does not know it."""
        kind = getattr(self.binding.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if kind is None:
            return 0
        status, value = self.binding.cuDeviceGetAttribute(kind, device)
        return 0 if status else int(value)


def _after_fork() -> None:
    for thing in list(_live):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def load_binding() -> tuple[Any, str]:
    """`cuda.bindings.driver`, started; or None and what is missing."""
    missing = ""
    for name in _BINDINGS:
        try:
            binding: Any = import_module(name)
        except ImportError as error:
            missing = missing or str(error)
        else:
            return start(binding)
    return None, f"the Python package cuda-bindings cannot be imported ({missing}): {_INSTALL}"


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
        max_shared_memory_opt_in=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
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
        # two transfers a cycle, whose kHz and bits are asked for
        memory_bandwidth=ask("MEMORY_CLOCK_RATE") * 250 * ask("GLOBAL_MEMORY_BUS_WIDTH"),
        api_version=f"{version // 1000}.{version % 1000 // 10}",
        driver_version=f"{version // 1000}.{version % 1000 // 10}",
        platform="NVIDIA CUDA",
        has_fp16=True,
        has_fp64=True,
        has_subgroups=True,
        vector_bytes=16,
        unified_memory=bool(ask("INTEGRATED")),
    )
