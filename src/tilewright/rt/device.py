"""Devices: where arrays live and code runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import TilewrightError
from .drivers import base
from .drivers.base import Limits, Runtime, Stream

_NAMES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    12: "ext_dev",
    15: "webgpu",
    16: "hexagon",
    20: "simt",
}
"""DLPack's numbers; of those for which there is no driver, no device exists."""
_CPU = 1
_TYPES = {
    **{name: number for number, name in _NAMES.items()},
    "llvm": 1,
    "c": 1,
    "gpu": 2,
    "nvptx": 2,
    "cl": 4,
    "sdaccel": 4,
}


class Device:
    """A device: its type by DLPack's number (1 is the CPU) and its index. Compares by value. Raises
    TilewrightError where `device_type` is no kind of device, or `device_id` no whole number of 0 or
    more."""

    __slots__ = ("device_id", "device_type")

    def __init__(self, device_type: int | str, device_id: int = 0) -> None:
        if isinstance(device_type, str):
            name = device_type.split()[0] if device_type.split() else ""
            if name not in _TYPES:
                raise TilewrightError(
                    f"unknown device {device_type!r}; known: {', '.join(sorted(_TYPES))}"
                )
            device_type = _TYPES[name]
        if not isinstance(device_type, int):
            raise TilewrightError(f"a device is found by its kind, got {device_type!r}")
        if not isinstance(device_id, int) or device_id < 0:
            raise TilewrightError(f"the index of a device cannot be {device_id!r}")
        self.device_type = int(device_type)
        self.device_id = int(device_id)

    @property
    def kind(self) -> str:
        """The name of the device's type: "cpu", "cuda", "opencl", ..."""
        return _NAMES.get(self.device_type, f"device_type_{self.device_type}")

    @property
    def exist(self) -> bool:
        """Whether the device is there and tilewright has a driver for it."""
        if self.device_type == _CPU:
            return True
        driver = base.find(self.kind)
        return driver is not None and driver.exists(self.device_id)

    def why_missing(self) -> str:
        """What has to be there for the device to work; empty where it does."""
        if self.device_type == _CPU:
            return ""
        driver = base.find(self.kind)
        return "there is no driver for it" if driver is None else driver.why_missing(self.device_id)

    def require(self) -> None:
        """Raise TilewrightError where the device cannot be used."""
        if not self.exist:
            raise TilewrightError(f"device {self} does not exist here: {self.why_missing()}")

    @property
    def runtime(self) -> Runtime:
        """The open device; TilewrightError where it cannot be used, or is the CPU."""
        driver = base.find(self.kind)
        if driver is None:
            raise TilewrightError(
                f"device {self} has no driver: its memory is that of this process"
            )
        return driver.open(self.device_id)

    # -- streams

    def sync(self, stream: Stream | None = None) -> None:
        """Wait for everything that was started on the device, or in one stream of it; on the CPU,
        nothing is ever open. Raises TilewrightError where the device does not exist here."""
        self.require()
        if self.device_type != _CPU:
            (self.runtime if stream is None else stream).sync()

    def create_stream(self) -> Stream:
        """A new stream: work in it runs beside that in others."""
        return self.runtime.create_stream()

    def set_stream(self, stream: Stream | None) -> None:
        """Let this thread's work on the device go to a stream; None: to the default one."""
        self.runtime.set_stream(stream)

    @property
    def current_stream(self) -> Stream:
        """The stream that this thread's work on the device goes to."""
        return self.runtime.stream

    create_raw_stream = create_stream
    set_raw_stream = set_stream

    def free_raw_stream(self, stream: Stream) -> None:
        """Wait for a stream, and choose the default one where this thread had chosen it."""
        stream.sync()
        if self.runtime.stream is stream:
            self.runtime.set_stream(None)

    # -- facts, by TVM's names; None on the CPU

    @property
    def limits(self) -> Limits | None:
        """All facts about a device; None for the CPU, TilewrightError where it is missing."""
        if self.device_type == _CPU:
            return None
        self.require()
        driver = base.find(self.kind)
        return None if driver is None else driver.known_limits(self.device_id)

    def _fact(self, name: str) -> Any:
        limits = self.limits
        return None if limits is None else getattr(limits, name)

    @property
    def max_threads_per_block(self) -> int | None:
        """Most threads of a block (OpenCL: work items of a group); None where the device is
        missing."""
        found: int | None = self._fact("max_threads_per_block")
        return found

    @property
    def warp_size(self) -> int | None:
        """Threads that run in lock step."""
        found: int | None = self._fact("warp_size")
        return found

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of shared (OpenCL: local) memory that a block may use."""
        found: int | None = self._fact("max_shared_memory_per_block")
        return found

    @property
    def compute_version(self) -> str | None:
        """CUDA's compute capability ("9.0"), or the version of OpenCL."""
        found: str | None = self._fact("compute_version")
        return found

    @property
    def device_name(self) -> str | None:
        """The name that the driver gives; None where the device is missing."""
        found: str | None = self._fact("device_name")
        return found

    @property
    def max_clock_rate(self) -> int | None:
        """In kHz."""
        found: int | None = self._fact("max_clock_rate")
        return found

    @property
    def multi_processor_count(self) -> int | None:
        """Multiprocessors (OpenCL: compute units); None where the device is missing."""
        found: int | None = self._fact("multi_processor_count")
        return found

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        """Most threads of a block by dimension."""
        found = self._fact("max_thread_dimensions")
        return None if found is None else list(found)

    @property
    def api_version(self) -> str | None:
        """Version of the driver's interface; None where the device is missing or does not say."""
        found: str | None = self._fact("api_version")
        return found

    @property
    def driver_version(self) -> str | None:
        """The version of the driver; None where the device is missing or does not say."""
        found: str | None = self._fact("driver_version")
        return found

    @property
    def l2_cache_size_bytes(self) -> int | None:
        """Bytes of the second-level cache; None where the device is missing."""
        found: int | None = self._fact("l2_cache_size_bytes")
        return found

    @property
    def total_global_memory(self) -> int | None:
        """Bytes of the device's memory."""
        found: int | None = self._fact("total_global_memory")
        return found

    @property
    def available_global_memory(self) -> int | None:
        """Bytes of it that are free now; 0 where the device does not say."""
        return None if self.device_type == _CPU else self.runtime.free_memory()

    def target_attributes(self) -> dict[str, Any]:
        """What `Target.from_device` makes a target of. Raises TilewrightError where no kind of
        target is for the device."""
        limits = self.limits
        if limits is None:
            return {"kind": "llvm"}
        if self.kind not in ("cuda", "opencl"):
            raise TilewrightError(f"there is no kind of target for device {self}")
        found: dict[str, Any] = {
            "kind": self.kind,
            "max_num_threads": limits.max_threads_per_block,
            "max_threads_per_block": limits.max_threads_per_block,
            "thread_warp_size": limits.warp_size,
            "max_shared_memory_per_block": limits.max_shared_memory_per_block,
        }
        if limits.registers_per_block:
            found["registers_per_block"] = limits.registers_per_block
        if limits.l2_cache_size_bytes:
            found["l2_cache_size_bytes"] = limits.l2_cache_size_bytes
        if self.kind == "cuda":
            # of launches that do not ask for more; else what the architecture says
            del found["max_shared_memory_per_block"]
            if limits.max_shared_memory_opt_in:
                found["max_shared_memory_per_block"] = limits.max_shared_memory_opt_in
            if limits.multi_processor_count:
                found["multi_processor_count"] = limits.multi_processor_count
            arch = "sm_" + limits.compute_version.replace(".", "")
            return {**found, "arch": _VARIANTS.get(arch, arch)}
        found.update(fp16=limits.has_fp16, subgroups=limits.has_subgroups)
        found["vector_bytes"] = limits.vector_bytes
        family = next((f for f in ("mali", "adreno") if f in limits.device_name.lower()), "")
        return {**found, "device": family} if family else found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Device)
            and other.device_type == self.device_type
            and other.device_id == self.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.kind}({self.device_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.device_type, self.device_id)


_VARIANTS = {"sm_90": "sm_90a"}
"""Architectures with instructions that later ones lack: what is built for a device has them."""


def device(dev: str | int | Device, dev_id: int = 0) -> Device:
    """The device of a kind ("cpu", "llvm", "cuda", ..., or the text of a target) and index. Raises
    TilewrightError where `dev` is no kind of device, or `dev_id` no whole number of 0 or more."""
    if isinstance(dev, Device):
        return dev
    return Device(dev if isinstance(dev, int) else str(dev), dev_id)


def enabled(target: str) -> bool:
    """Whether code for a kind of target ("llvm", "cuda", ...) can run here."""
    name = target.split()[0] if target.split() else ""
    return name in _TYPES and Device(name).exist


def cpu(dev_id: int = 0) -> Device:
    """A CPU device. Raises TilewrightError where `dev_id` is no whole number of 0 or more."""
    return Device(1, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A CUDA device. Raises TilewrightError where `dev_id` is no whole number of 0 or more."""
    return Device(2, dev_id)


def opencl(dev_id: int = 0) -> Device:
    """An OpenCL device. Raises TilewrightError where `dev_id` is no whole number of 0 or more."""
    return Device(4, dev_id)


def simt(dev_id: int = 0) -> Device:
    """The device that runs kernels in lock step on this machine's CPU, and finds their races.
    Raises TilewrightError where `dev_id` is no whole number of 0 or more."""
    return Device(20, dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A Vulkan device; there is no driver for it. Raises TilewrightError where `dev_id` is no whole
    number of 0 or more."""
    return Device(7, dev_id)


def metal(dev_id: int = 0) -> Device:
    """A Metal device; there is no driver for it. Raises TilewrightError where `dev_id` is no whole
    number of 0 or more."""
    return Device(8, dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A ROCm device; there is no driver for it. Raises TilewrightError where `dev_id` is no whole
    number of 0 or more."""
    return Device(10, dev_id)


@contextmanager
def stream(chosen: Stream) -> Iterator[Stream]:
    """Let this thread's work on the stream's device go to it, within the body of a `with`."""
    before = chosen.runtime.set_stream(chosen)
    try:
        yield chosen
    finally:
        chosen.runtime.set_stream(before)
