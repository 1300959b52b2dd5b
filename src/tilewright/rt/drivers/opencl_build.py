"""Programs of OpenCL C: built once for a device and driver, then taken from the disk."""

from __future__ import annotations

import hashlib
import logging
import warnings
from typing import TYPE_CHECKING, Any

from ...base.errors import CompileError
from .. import cache
from .base import DeviceCode
from .build_log import with_source

if TYPE_CHECKING:
    from .opencl import OpenCLRuntime

logger = logging.getLogger("tilewright.opencl")
_VERSION = 1
_FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64"


def cache_key(runtime: OpenCLRuntime, code: DeviceCode) -> str:
    """Text that differs wherever the program's binary may differ."""
    limits = runtime.limits
    digest = hashlib.sha256(code.source.encode()).hexdigest()
    where = f"{limits.platform}|{limits.device_name}|{limits.driver_version}"
    return f"opencl|{_VERSION}|{where}|{' '.join(code.options)}|{digest}"


def build_program(runtime: OpenCLRuntime, code: DeviceCode) -> Any:
    """A `pyopencl.Program` of the source; CompileError shows the log and the lines it names."""
    if _FP64 in code.source and not runtime.limits.has_fp64:
        raise CompileError(
            f"the kernels {', '.join(k.name for k in code.kernels)} compute in float64, which "
            f"{runtime} ({runtime.limits.device_name}) lacks (cl_khr_fp64); use float32 there"
        )
    key = cache_key(runtime, code)
    binary = cache.get(key)
    if binary is not None:
        try:
            return _build(runtime.cl.Program(runtime.context, [runtime.device], [binary]), runtime)
        except runtime.cl.Error as error:
            logger.warning("%s refuses a cached program, building it anew: %s", runtime, error)
    cl = runtime.cl
    try:
        program = _build(cl.Program(runtime.context, code.source), runtime, code.options)
    except cl.Error as error:
        raise CompileError(
            f"the OpenCL compiler of {runtime} ({runtime.limits.device_name}) refuses the source:\n"
            f"{with_source(_log(str(error)), code.source)}"
        ) from None
    if cache.is_on():
        binaries = program.get_info(cl.program_info.BINARIES)
        if binaries and binaries[0]:
            cache.put(key, bytes(binaries[0]))
    return program


def _build(program: Any, runtime: OpenCLRuntime, options: tuple[str, ...] = ()) -> Any:
    with warnings.catch_warnings():  # pyopencl warns of a compiler that says anything at all
        warnings.simplefilter("ignore")
        return program.build(options=list(options))


def _log(text: str) -> str:
    """The compiler's words out of pyopencl's error."""
    start = text.find("Build on ")
    end = text.rfind("\n(options:")
    return text[start if start >= 0 else 0 : end if end >= 0 else len(text)]
