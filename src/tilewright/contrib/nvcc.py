"""`tvm.contrib.nvcc`: compile CUDA source; what GPUs of NVIDIA's can do, by their compute
capability."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..base.errors import UsageError
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
    CompileError with the lines of the source that are wrong; TargetError without a compiler.
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


def have_tensorcore(compute_version: str) -> bool:
    """Whether there are tensor cores."""
    return parse_compute_version(compute_version) >= (7, 0)
