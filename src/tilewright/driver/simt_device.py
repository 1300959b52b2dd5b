"""The device "simt": kernels run in the lock-step executor, memory is NumPy's.

`rt` finds it by name (rt.drivers.base). Launches run at once, so a stream is always done. What a
kernel does wrong is raised at its launch, as SimtError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError, TilewrightError
from ..base.tensor_map import TensorMap
from ..interp.simt import SimtArray, SimtMap, SimtReport, run_kernel
from ..loopir.stmt import PrimFunc
from ..rt.device_module import DeviceFunction
from ..rt.drivers import base

DEVICE_TYPE = 20
_THREADS = 1024
_WARP = 32
_SHARED = 1 << 20  # what targets allow is checked when they are built for
_ALIGN = 64
_AXES = ("x", "y", "z")


_UNKNOWN = 64  # where an extent is not known
_sampling = ContextVar("sampling", default=False)


def sampled(function: DeviceFunction) -> dict[str, SimtReport]:
    """How the kernels of a function use memory, by one block of each in the middle of its grid, on
    zeros. Extents that are not known, and numbers, are 64; empty where that fits no argument."""
    args: list[Any] = []
    for a in function.info.args:
        shape = [d if isinstance(d, int) else _UNKNOWN for d in a.shape]
        args.append(np.zeros(shape, parse(a.dtype).numpy) if a.is_array else _UNKNOWN)
    token = _sampling.set(True)
    try:
        return function.run_simt(*args)
    except TilewrightError:  # the arguments do not fit each other, or it is more than simt takes
        return {}
    finally:
        _sampling.reset(token)


class _Event(base.Event):
    """A time; the work before it is done."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = time.perf_counter()

    @property
    def done(self) -> bool:
        return True

    def sync(self) -> None:
        pass

    def seconds_since(self, start: base.Event) -> float:
        if not isinstance(start, _Event):
            raise ArgumentError("the two events are of different devices")
        return self.at - start.at


class _Stream(base.Stream):
    __slots__ = ()

    def sync(self) -> None:
        pass

    def record(self, timing: bool = False) -> base.Event:
        return _Event()

    def wait(self, event: base.Event) -> None:
        event.sync()


class SimtKernel(base.Kernel):
    """A kernel PrimFunc; `last` is the report of its latest launch."""

    __slots__ = ("func", "last", "warp_size")

    def __init__(self, info: base.KernelInfo, func: PrimFunc, warp_size: int) -> None:
        super().__init__(info)
        self.func = func
        self.warp_size = warp_size
        self.last: SimtReport | None = None

    def launch(
        self, grid: base.Extents, block: base.Extents, args: Sequence[Any], stream: base.Stream
    ) -> None:
        sizes = {f"blockIdx.{a}": n for a, n in zip(_AXES, grid)}
        sizes.update({f"threadIdx.{a}": n for a, n in zip(_AXES, block)})
        self.last = run_kernel(
            self.func,
            sizes,
            args,
            warp_size=self.warp_size,
            align=self.info.align,
            sample=_sampling.get(),
        )

    def bind(
        self, grid: base.Extents, block: base.Extents, args: Sequence[Any], stream: base.Stream
    ) -> Callable[[], None]:
        kept = list(args)
        return lambda: self.launch(grid, block, kept, stream)


class SimtRuntime(base.Runtime):
    """The one simt device. `SimtArray`s are its handles: bytes, and which have been written."""

    def __init__(self, index: int, limits: base.Limits) -> None:
        super().__init__("simt", index, limits)
        self._default = _Stream(self, None)

    @property
    def default_stream(self) -> base.Stream:
        return self._default

    def create_stream(self) -> base.Stream:
        return _Stream(self, None)

    def sync(self) -> None:
        pass

    def alloc(self, nbytes: int) -> base.Memory:
        raw = np.full(nbytes + _ALIGN, 0x6B, np.uint8)
        start = -raw.ctypes.data % _ALIGN
        data = raw[start : start + nbytes]
        return base.Memory(self, SimtArray(data), data.ctypes.data, nbytes)

    def part(self, memory: base.Memory, offset: int, nbytes: int) -> SimtArray:
        whole: SimtArray = memory.handle
        inside = slice(offset, offset + nbytes)
        return SimtArray(whole.data[inside], whole.written[inside])

    def write(
        self,
        memory: base.Memory,
        offset: int,
        source: np.ndarray[Any, Any],
        stream: base.Stream,
        wait: bool,
    ) -> None:
        target = self.part(memory, offset, source.nbytes)
        target.data[:] = source.reshape(-1).view(np.uint8)
        target.written[:] = True

    def read(
        self,
        memory: base.Memory,
        offset: int,
        target: np.ndarray[Any, Any],
        stream: base.Stream,
        wait: bool,
    ) -> None:
        target.reshape(-1).view(np.uint8)[:] = self.part(memory, offset, target.nbytes).data

    def copy(
        self,
        target: base.Memory,
        target_offset: int,
        source: base.Memory,
        source_offset: int,
        nbytes: int,
        stream: base.Stream,
    ) -> None:
        to, from_ = (
            self.part(target, target_offset, nbytes),
            self.part(source, source_offset, nbytes),
        )
        to.data[:] = from_.data
        to.written[:] = from_.written

    def tensor_map(self, handle: Any, described: TensorMap) -> SimtMap:
        return SimtMap(handle, described)

    def load(self, code: base.DeviceCode) -> dict[str, base.Kernel]:
        """The kernels of a module that was built in this process; saved ones have no loop IR."""
        if code.payload is None:
            raise TilewrightError(
                "simt runs kernels as loop IR, which exported modules do not have; build the "
                "module again in this process"
            )
        return {k.name: SimtKernel(k, code.payload[k.name], _WARP) for k in code.kernels}


class SimtDriver(base.Driver):
    kind = "simt"
    device_type = DEVICE_TYPE

    def count(self) -> int:
        return 1

    def why_missing(self, index: int = 0) -> str:
        return "" if index == 0 else "there is one simt device, simt(0)"

    def limits(self, index: int) -> base.Limits:
        return base.Limits(
            device_name="simt (NumPy)",
            max_threads_per_block=_THREADS,
            max_thread_dimensions=(_THREADS, _THREADS, 64),
            warp_size=_WARP,
            max_shared_memory_per_block=_SHARED,
            has_fp16=True,
            has_subgroups=True,
        )

    def _open(self, index: int) -> base.Runtime:
        return SimtRuntime(index, self.limits(index))


base.register("simt", SimtDriver())
