"""`tvm.contrib.nvcc`: what GPUs of NVIDIA's can do, by their compute capability."""

from __future__ import annotations


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
