"""`HardwareParams`: the limits of a device that the search keeps to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..base.errors import TilewrightError
from ..rt.threads import num_threads
from ..target.target import Target

CPUS = ("llvm", "c")
_ANY = 2**31 - 1
_GPU_VECTOR_BYTES = 16
_CACHE_LINE = 64


@dataclass(frozen=True, init=False)
class HardwareParams:
    """Limits of a device; what is not given is that of `target` (this machine without one).

    num_cores: cores of a CPU, -1 for devices. vector_unit_bytes: bytes of a vector; on devices, of
    the widest load. cache_line_bytes. max_shared_memory_per_block, max_local_memory_per_block:
    bytes. max_threads_per_block, max_vthread_extent (most virtual threads), warp_size: threads.
    The five limits of blocks are 0 for CPUs. Raises TargetError where `target_host` is no target,
    as text, dict or Target.
    """

    num_cores: int
    vector_unit_bytes: int
    cache_line_bytes: int
    max_shared_memory_per_block: int
    max_local_memory_per_block: int
    max_threads_per_block: int
    max_vthread_extent: int
    warp_size: int

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: Any = None,
        target_host: Any = None,
    ) -> None:
        given = (
            num_cores, vector_unit_bytes, cache_line_bytes, max_shared_memory_per_block,
            max_local_memory_per_block, max_threads_per_block, max_vthread_extent, warp_size,
        )  # fmt: skip
        known = _defaults(Target(target if target is not None else "llvm", target_host))
        for field, value, default in zip(fields(self), given, known):
            object.__setattr__(self, field.name, _checked(field.name, value, default))

    @classmethod
    def of(cls, target: Any) -> HardwareParams:
        """The limits of a target: text, dict or Target."""
        return cls(target=target)

    def __str__(self) -> str:
        lines = [f"  {f.name}: {getattr(self, f.name)}" for f in fields(self)]
        return "\n".join(["HardwareParams:", *lines])


def _checked(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    least = -1 if name == "num_cores" else 0
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TilewrightError(f"HardwareParams: {name} is a whole number, got {value!r}")
    return value


def _defaults(target: Target) -> tuple[int, ...]:
    """The limits of a target, in the order of the fields."""
    kind = target.kind.name
    if kind in CPUS:
        cores = int(target.attrs.get("num-cores") or num_threads())
        return (cores, target.vector_bytes, _CACHE_LINE, 0, 0, 0, 0, 0)
    warp = target.thread_warp_size
    # Mali's threads are not in lock step: virtual threads hide nothing there
    vthreads = 1 if "mali" in target.keys else max(1, warp // 4)
    return (
        -1, _GPU_VECTOR_BYTES, _CACHE_LINE, target.max_shared_memory_per_block, _ANY,
        target.max_num_threads, vthreads, warp,
    )  # fmt: skip
