"""`tvm.contrib.nvcc`: compile CUDA source; what GPUs of NVIDIA's can do, by their compute
capability."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from ..base.errors import TargetError, UsageError
from ..rt.device import device
from ..rt.drivers import nvrtc
from ..rt.files import write_atomically
from ..target.target import Target


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: str | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | os.PathLike[str] | None = None,
) -> bytearray:
    """PTX or a cubin ("ptx", "cubin") of CUDA source, by NVRTC or else nvcc.

    `arch`: "sm_80" (default: that of the current target). `path_target`: a file to write as well.
    CompileError with the lines of the source that are wrong; TargetError without a compiler. Raises
    UsageError where target_format is neither 'ptx' nor 'cubin', and ValueError where target_format
    is neither 'ptx' nor 'cubin'.
    """
    if target_format not in ("ptx", "cubin"):
        raise UsageError(f"target_format is 'ptx' or 'cubin', got {target_format!r}")
    current = Target.current(allow_none=True)
    if arch is None:
        is_cuda = current is not None and current.kind.name == "cuda"
        arch = current.arch if is_cuda and current is not None else Target("cuda").arch
    given = [options] if isinstance(options, str) else list(options or ())
    found, _ = nvrtc.compile_cuda(code, arch, target_format, options=given)
    if path_target is not None:
        write_atomically(path_target, found)
    return bytearray(found)


def get_target_compute_version(target: Target | None = None) -> str:
    """The compute capability of a CUDA target (default: the current one), as "8.0"."""
    found = target or Target.current(allow_none=True) or Target("cuda")
    digits = found.arch.removeprefix("sm_").rstrip("af")
    return f"{digits[:-1]}.{digits[-1]}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """ "9.0" as (9, 0)."""
    major, minor = compute_version.split(".")[:2]
    return int(major), int(minor)


def have_fp16(compute_version: str) -> bool:
    """Whether there is float16 arithmetic."""
    version = parse_compute_version(compute_version)
    return version == (5, 3) or version >= (6, 0)


def have_int8(compute_version: str) -> bool:
    """Whether there are products of four int8 (dp4a)."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_bf16(compute_version: str) -> bool:
    """Whether there is bfloat16 arithmetic."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_tensorcore(compute_version: str | None = None, target: Target | None = None) -> bool:
    """Whether there are tensor cores, by compute capability or else by target."""
    known = compute_version or get_target_compute_version(target)
    return parse_compute_version(known) >= (7, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether there is arithmetic on 8-bit floats in tensor cores."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_cudagraph() -> bool:
    """Whether the driver records launches as graphs: the one that is here does, where there is
    one."""
    version = _driver_version()
    return version is not None and version >= (10, 0)


def _driver_version() -> tuple[int, int] | None:
    said = device("cuda").driver_version if device("cuda").exist else None
    return parse_compute_version(str(said)) if said and "." in str(said) else None


def find_cuda_path() -> str:
    """The folder of the CUDA toolkit: $CUDA_PATH, that of nvcc on the path, /usr/local/cuda;
    TargetError without one."""
    given = os.environ.get("CUDA_PATH")
    if given:
        return given
    program = shutil.which("nvcc")
    if program:
        return os.path.dirname(os.path.dirname(os.path.realpath(program)))
    if os.path.exists("/usr/local/cuda/bin/nvcc"):
        return "/usr/local/cuda"
    raise TargetError("Cannot find cuda path: set CUDA_PATH, or put nvcc on the path")


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The toolkit's version, as (12, 4); of the folder `find_cuda_path` finds by default. Raises
    TargetError where nvcc cannot be run or does not say its version."""
    program = os.path.join(cuda_path or find_cuda_path(), "bin", "nvcc")
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise TargetError(f"Cannot read cuda version: {program}: {error.strerror}") from None
    found = re.search(r"release (\d+)\.(\d+)", done.stdout)
    if found is None:
        raise TargetError(f"Cannot read cuda version: {program} --version says {done.stdout!r}")
    return int(found[1]), int(found[2])


def find_libdevice_path(arch: object) -> str:
    """The toolkit's bitcode library of mathematical functions; TargetError without a toolkit."""
    folder = os.path.join(find_cuda_path(), "nvvm", "libdevice")
    names = (
        sorted(n for n in os.listdir(folder) if n.endswith(".bc")) if os.path.isdir(folder) else []
    )
    if not names:
        raise TargetError(f"Cannot find libdevice for arch {arch}: nothing in {folder}")
    return os.path.join(folder, names[-1])
