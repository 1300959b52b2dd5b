"""CUDA source into loaded modules: compiled once for an architecture, then from the disk, a module
for each kernel.

What was compiled elsewhere before (`compile_ahead`, where candidates of searches are built) is
loaded as it is, where the device is of the architecture that it was compiled for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...base.errors import CompileError
from .. import cache
from . import nvrtc
from .base import DeviceCode, KernelInfo
from .cuda_api import CudaError
from .cuda_parts import Part, at_once, parts

if TYPE_CHECKING:
    from .cuda import CudaRuntime

_VERSION = 1
_UNKNOWN_ARCH = re.compile(r"--gpu-architecture|Unsupported gpu architecture")


def load_modules(runtime: CudaRuntime, code: DeviceCode) -> Iterator[tuple[Any, list[KernelInfo]]]:
    """CUmodules of the code, one after the other, each with its kernels; CompileError shows what
    NVRTC says, or that no compiler is there."""
    arch = device_arch(runtime, code)
    if code.binary is not None and code.binary_arch in ("", arch):
        yield _loaded(runtime, code.binary, arch, code.kernels), list(code.kernels)
        return
    unfit = nvrtc.why_unfit(runtime.api.driver_version)
    if unfit:
        raise CompileError(
            f"{runtime} ({runtime.limits.device_name}) cannot load what is compiled here: {unfit}"
        )
    for part, image in zip(_parts(code), compile_cached(code, arch)):
        kernels = [k for k in code.kernels if part.kernel in ("", k.name)]
        yield _loaded(runtime, image, arch, kernels), kernels


def _loaded(runtime: CudaRuntime, image: bytes, arch: str, kernels: Sequence[KernelInfo]) -> Any:
    if not image.startswith(b"\x7fELF"):  # PTX is text, and ends as C's does
        image += b"\0"
    try:
        return runtime.api.call("cuModuleLoadData", image)
    except CudaError as error:
        raise CompileError(
            f"{runtime} ({runtime.limits.device_name}, {arch}) cannot load the kernels "
            f"{', '.join(k.name for k in kernels)}: {error}"
        ) from None


def compile_ahead(code: DeviceCode) -> DeviceCode:
    """The code with a cubin for the architecture that it names; as it is where it names none, has
    a binary already, or no compiler is here. CompileError shows what the compiler says."""
    known = code.kind == "cuda" and code.source and re.fullmatch(r"sm_\d+[af]?", code.arch)
    if not known or code.binary is not None or nvrtc.why_missing():
        return code
    try:
        made, _ = nvrtc.compile_cuda(code.source, code.arch, "cubin")
    except CompileError as error:
        if _UNKNOWN_ARCH.search(str(error)):  # the driver may still take PTX
            return code
        raise
    return replace(code, binary=made, binary_arch=code.arch)


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


def _older(arch: str) -> str:
    """The newest architecture that the compiler knows of those up to one; that one where it knows
    it, or none."""
    known = nvrtc.known_archs()
    numbers = sorted(int(name[3:]) for name in known if name[3:].isdigit())
    wanted = re.match(r"sm_(\d+)", arch)
    below = [n for n in numbers if wanted is not None and n <= int(wanted[1])]
    return arch if arch in known or not below else f"sm_{below[-1]}"


def compile_cached(code: DeviceCode, arch: str) -> list[bytes]:
    """The cubin of each part of the source, from the compile cache where it has it."""
    return at_once(lambda part: _cached(code, part, arch), _parts(code))


def _parts(code: DeviceCode) -> list[Part]:
    """The source by kernels, if it has those of the code and no others."""
    found = parts(code.source)
    same = {p.kernel for p in found} == {k.name for k in code.kernels}
    return found if same else [Part("", code.source)]


def _cached(code: DeviceCode, part: Part, arch: str) -> bytes:
    digest = hashlib.sha256(part.source.encode()).hexdigest()
    key = f"cubin|{_VERSION}|{nvrtc.compiler_name()}|{arch}|{' '.join(code.options)}|{digest}"
    found = cache.get(key)
    if found is None:
        try:
            found = nvrtc.compile_cuda(part.source, arch, "cubin")[0]
        except CompileError as error:
            if not _UNKNOWN_ARCH.search(str(error)) or not code.arch:
                raise
            # The device is newer than the compiler: its driver translates PTX, and keeps the result
            return nvrtc.compile_cuda(part.source, _older(code.arch), "ptx")[0]
        cache.put(key, found)
    return found
