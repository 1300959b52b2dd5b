"""CUDA source into a loaded module: compiled once for an architecture, then from the disk."""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ...base.errors import CompileError
from .. import cache
from . import nvrtc
from .base import DeviceCode
from .cuda_api import CudaError

if TYPE_CHECKING:
    from .cuda import CudaRuntime

_VERSION = 1
_UNKNOWN_ARCH = re.compile(r"--gpu-architecture|Unsupported gpu architecture")


def load_module(runtime: CudaRuntime, code: DeviceCode) -> Any:
    """A CUmodule of the code; CompileError shows what NVRTC says, or that no compiler is there."""
    arch = device_arch(runtime, code)
    image = code.binary if code.binary is not None else compile_cached(code, arch)
    if not image.startswith(b"\x7fELF"):  # PTX is text, and ends as C's does
        image += b"\0"
    try:
        return runtime.api.call("cuModuleLoadData", image)
    except CudaError as error:
        raise CompileError(
            f"{runtime} ({runtime.limits.device_name}, {arch}) cannot load the kernels "
            f"{', '.join(k.name for k in code.kernels)}: {error}"
        ) from None


def device_arch(runtime: CudaRuntime, code: DeviceCode) -> str:
    """The architecture to compile for: the device's, in the variant ("sm_90a") of the code where
    it names one. CompileError where the code is for a newer device."""
    arch = "sm_" + runtime.limits.compute_version.replace(".", "")
    wanted = re.fullmatch(r"sm_(\d+)([af]?)", code.arch)
    if wanted is None:
        return arch
    number = int(arch[3:])
    if int(wanted[1]) > number or (wanted[2] and int(wanted[1]) != number):
        raise CompileError(
            f"the code is for {code.arch}, {runtime} ({runtime.limits.device_name}) is {arch}; "
            f"build it for 'cuda -arch={arch}'"
        )
    return code.arch if wanted[2] else arch


def compile_cached(code: DeviceCode, arch: str) -> bytes:
    """The cubin of the source, from the compile cache where it has it."""
    digest = hashlib.sha256(code.source.encode()).hexdigest()
    key = f"cubin|{_VERSION}|{_compiler()}|{arch}|{' '.join(code.options)}|{digest}"
    found = cache.get(key)
    if found is None:
        try:
            found = nvrtc.compile_cuda(code.source, arch, "cubin")[0]
        except CompileError as error:
            if not _UNKNOWN_ARCH.search(str(error)) or not code.arch:
                raise
            # The device is newer than the compiler: its driver translates PTX, and keeps the result
            return nvrtc.compile_cuda(code.source, code.arch, "ptx")[0]
        cache.put(key, found)
    return found


def _compiler() -> str:
    """What compiles, with its version; "" where nothing does."""
    kind = nvrtc.find_compiler()
    if kind != "nvrtc":
        return kind
    try:
        return f"nvrtc {metadata.version('nvidia-cuda-nvrtc')}"
    except metadata.PackageNotFoundError:
        return "nvrtc"
