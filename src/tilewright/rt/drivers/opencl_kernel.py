"""Kernels of OpenCL devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import TilewrightError
from .base import HANDLE, Extents, Kernel, KernelInfo, Stream
from .scalars import packer

if TYPE_CHECKING:
    from .opencl import OpenCLRuntime


class OpenCLKernel(Kernel):
    """A kernel; one object of OpenCL holds its arguments, so launches of threads take turns."""

    __slots__ = ("_cl", "_kernel", "_last", "_lock", "_make", "_packers", "_runtime", "_set")

    def __init__(self, info: KernelInfo, runtime: OpenCLRuntime, make: Callable[[], Any]) -> None:
        super().__init__(info)
        self._runtime = runtime
        self._cl = runtime.cl
        self._make = make
        self._kernel = make()
        self._lock = threading.Lock()
        self._packers = [None if p == HANDLE else packer(p) for p in info.params]
        self._last: list[Any] = [self] * len(info.params)
        # pyopencl's public set_arg tries every other kind of argument before bytes: 7 us
        self._set = getattr(self._kernel, "_set_arg_buf", self._kernel.set_arg)

    def launch(self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream) -> None:
        size = (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])
        with self._lock:
            try:
                self._fill(self._kernel, self._set, self._last, args)
                self._cl.enqueue_nd_range_kernel(stream.handle, self._kernel, size, block)
            except self._cl.Error as error:
                raise self._failure(grid, block, error) from None

    def _fill(self, kernel: Any, set_bytes: Any, last: list[Any], args: Sequence[Any]) -> None:
        for i, (value, pack) in enumerate(zip(args, self._packers)):
            if last[i] is value:
                continue
            last[i] = self  # in case that setting fails
            if pack is None:
                kernel.set_arg(i, value)
            else:
                set_bytes(i, pack(value))
            last[i] = value

    def bind(
        self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream
    ) -> Callable[[], None]:
        size = (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])
        kernel = self._make()
        kept = list(args)
        set_bytes = getattr(kernel, "_set_arg_buf", kernel.set_arg)
        self._fill(kernel, set_bytes, [self] * len(kept), kept)
        enqueue, queue, error_type = self._cl.enqueue_nd_range_kernel, stream.handle, self._cl.Error

        def run() -> None:
            try:
                enqueue(queue, kernel, size, block)
            except error_type as error:
                raise self._failure(grid, block, error) from None

        run.__dict__["keep"] = kept
        return run

    def _failure(self, grid: Extents, block: Extents, error: Exception) -> TilewrightError:
        limits = self._runtime.limits
        return TilewrightError(
            f"cannot launch kernel {self.info.name} on {self._runtime} ({limits.device_name}) with "
            f"grid {grid}, block {block}: {error}. The device runs at most "
            f"{limits.max_threads_per_block} threads a block, {limits.max_thread_dimensions} by "
            "dimension"
        )

    def facts(self) -> dict[str, int]:
        group = self._cl.kernel_work_group_info
        ask = self._kernel.get_work_group_info
        device = self._runtime.device
        return {
            "shared_bytes": int(ask(group.LOCAL_MEM_SIZE, device)),
            "local_bytes": int(ask(group.PRIVATE_MEM_SIZE, device)),
            "max_threads": int(ask(group.WORK_GROUP_SIZE, device)),
        }
