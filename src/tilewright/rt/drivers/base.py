"""What every device driver offers to the runtime, and where drivers are found.

A `Driver` stands for a kind of device ("cuda", "opencl", "simt") and knows which there are. What is
done on one device goes through its `Runtime`, from `driver.open(index)`: memory, copies, streams,
events, loading and launching kernels. Work on one stream runs in order; a stream of None is the
device's default stream.

`handle`s are what launches take: an int address (CUDA), a `pyopencl.Buffer` (OpenCL), a flat
`numpy.uint8` array (simt). Kernels come as `DeviceCode`, which names each kernel's parameters.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ...base.errors import InternalError, TilewrightError
from ...base.tensor_map import TensorMap

Extents = tuple[int, int, int]
HANDLE = "handle"
"""The dtype of a kernel parameter that is a buffer."""
MAP = "map"
"""The dtype of a kernel parameter that is a tensor map, and its access."""


@dataclass(frozen=True)
class KernelInfo:
    """One kernel. `params`: "handle" for a buffer, "map" for a tensor map, else the dtype of a
    scalar; `access`: for each "r", "w", "rw", "map" or "scalar". `threads`: block extents where
    they are constants (launch bounds), else None. `shared_bytes`: shared memory that the launch has
    to ask for. `align`: for each parameter bytes that its address has to be a multiple of, as the
    widest access through it needs (0: a scalar); empty where it is not known. `cluster`: blocks of
    a cluster, which follow each other along x."""

    name: str
    params: tuple[str, ...]
    access: tuple[str, ...]
    threads: Extents | None = None
    shared_bytes: int = 0
    align: tuple[int, ...] = ()
    cluster: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "params": list(self.params),
            "access": list(self.access),
            "threads": list(self.threads) if self.threads else None,
            "shared_bytes": self.shared_bytes,
            "align": list(self.align),
            "cluster": self.cluster,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelInfo:
        x, y, z = data["threads"] or (0, 0, 0)
        return KernelInfo(
            name=str(data["name"]),
            params=tuple(map(str, data["params"])),
            access=tuple(map(str, data["access"])),
            threads=(int(x), int(y), int(z)) if data["threads"] else None,
            shared_bytes=int(data["shared_bytes"]),
            align=tuple(map(int, data.get("align", ()))),
            cluster=int(data.get("cluster", 1)),
        )


@dataclass(frozen=True, eq=False)
class DeviceCode:
    """Kernels of one kind of device, loaded once for each device that runs them.

    `source`: CUDA or OpenCL C. `options`: for the device's compiler; `arch`: "sm_90", for CUDA.
    `binary`: a cubin, or PTX text, that was made already; without it the driver compiles `source`
    when it is first loaded. `binary_arch`: the architecture of `binary` where it was made of
    `source`, which is compiled again on other devices. `payload`: what simt runs
    (kernels by name); never saved.
    """

    kind: str
    kernels: tuple[KernelInfo, ...]
    source: str = ""
    options: tuple[str, ...] = ()
    arch: str = ""
    binary: bytes | None = None
    payload: Any = None
    binary_arch: str = ""

    def to_json(self) -> dict[str, Any]:
        """All but the source and the binary, which are members of an archive of their own."""
        return {
            "kind": self.kind,
            "kernels": [k.to_json() for k in self.kernels],
            "options": list(self.options),
            "arch": self.arch,
            "binary_arch": self.binary_arch,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], source: str, binary: bytes | None) -> DeviceCode:
        return DeviceCode(
            kind=str(data["kind"]),
            kernels=tuple(map(KernelInfo.from_json, data["kernels"])),
            source=source,
            options=tuple(map(str, data["options"])),
            arch=str(data["arch"]),
            binary=binary,
            binary_arch=str(data.get("binary_arch", "")),
        )


@dataclass(frozen=True)
class Limits:
    """Facts about a device; bytes, and kHz for the clock. 0 or "": the device does not say."""

    device_name: str
    max_threads_per_block: int
    max_thread_dimensions: Extents
    warp_size: int
    max_shared_memory_per_block: int
    max_grid_dimensions: Extents = (2**31 - 1, 65535, 65535)
    registers_per_block: int = 0
    multi_processor_count: int = 0
    max_clock_rate: int = 0
    compute_version: str = ""
    l2_cache_size_bytes: int = 0
    total_global_memory: int = 0
    max_allocation: int = 0
    api_version: str = ""
    driver_version: str = ""
    platform: str = ""
    has_fp16: bool = False
    has_fp64: bool = True
    has_subgroups: bool = False
    vector_bytes: int = 16
    unified_memory: bool = False
    max_shared_memory_opt_in: int = 0  # of launches that ask for it
    memory_bandwidth: int = 0  # bytes a second, at most
    extensions: frozenset[str] = field(default_factory=frozenset)


class Memory:
    """Bytes on a device. `address` is the device's, or a number that only stands for one (OpenCL):
    either way it tells memory apart and how it is aligned. Given back when the object goes.

    `owner` is kept alive; it is set where the memory is another library's, which `free` leaves.
    """

    __slots__ = ("__weakref__", "address", "handle", "nbytes", "owner", "release", "runtime")

    def __init__(
        self,
        runtime: Runtime,
        handle: Any,
        address: int,
        nbytes: int,
        owner: Any = None,
        release: Callable[[Any], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.handle = handle
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.release = release

    def free(self) -> None:
        """Give the memory back now; nothing may use it afterwards."""
        release, self.release = self.release, None
        if release is not None:
            release(self.handle)

    def __del__(self) -> None:
        if getattr(self, "release", None) is not None:
            self.free()


class Event(ABC):
    """A point in a stream's work."""

    __slots__ = ()

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the device has passed the point."""

    @abstractmethod
    def sync(self) -> None:
        """Wait until it has."""

    @abstractmethod
    def seconds_since(self, start: Event) -> float:
        """Device time between two points of one stream, both recorded with `timing`; waits. In
        seconds."""


class Stream(ABC):
    """A queue of work that runs in order. `handle` is the driver's own object.

    When the object goes it waits for its work, whose memory may be given back from then on.
    """

    __slots__ = ("__weakref__", "handle", "runtime")

    def __init__(self, runtime: Runtime, handle: Any) -> None:
        self.runtime = runtime
        self.handle = handle

    @abstractmethod
    def sync(self) -> None:
        """Wait for all work in the stream; raises what went wrong in it."""

    @abstractmethod
    def record(self, timing: bool = False) -> Event:
        """A point behind everything in the stream so far."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Let later work wait for a point of another stream."""

    def flush(self) -> None:  # noqa: B027 - most drivers start work by themselves
        """Start work that the driver may hold back."""


class Kernel(ABC):
    """A loaded kernel of one device."""

    __slots__ = ("info",)

    def __init__(self, info: KernelInfo) -> None:
        self.info = info

    @abstractmethod
    def launch(self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream) -> None:
        """Start the kernel; extents are positive, `args` handles and numbers by `info.params`."""

    @abstractmethod
    def bind(
        self, grid: Extents, block: Extents, args: Sequence[Any], stream: Stream
    ) -> Callable[[], None]:
        """A function that launches with these arguments each time it is called, quickly."""

    def facts(self) -> dict[str, int]:
        """What the device's compiler says: registers, shared, local (spill) bytes, threads."""
        return {}


class Runtime(ABC):
    """One open device. `graphs`: whether it captures launches, see `capture`."""

    graphs = False

    def __init__(self, kind: str, index: int, limits: Limits) -> None:
        self.kind = kind
        self.index = index
        self.limits = limits
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"

    # -- streams

    @property
    @abstractmethod
    def default_stream(self) -> Stream:
        """The stream that work goes to where no other is chosen."""

    @abstractmethod
    def create_stream(self) -> Stream:
        """A new stream; work in it runs beside that of others."""

    @property
    def stream(self) -> Stream:
        """The stream of this thread."""
        chosen: Stream | None = getattr(self._local, "stream", None)
        return self.default_stream if chosen is None else chosen

    def set_stream(self, stream: Stream | None) -> Stream | None:
        """Choose the stream of this thread, None for the default; returns what was chosen."""
        if stream is not None and stream.runtime is not self:
            raise TilewrightError(f"the stream is one of {stream.runtime}, not of {self}")
        before: Stream | None = getattr(self._local, "stream", None)
        self._local.stream = stream
        return before

    def create_timing_stream(self) -> Stream:
        """A stream to measure on, where not every stream has times; else this thread's."""
        return self.stream

    @abstractmethod
    def sync(self) -> None:
        """Wait for all work on the device."""

    # -- memory

    @abstractmethod
    def alloc(self, nbytes: int) -> Memory:
        """Memory of at least `nbytes` (also for 0), aligned to 64 bytes, contents undefined.

        It may be handed out again once the object goes: that is safe for work that the present
        stream was given before. TilewrightError says how much was asked for and is free.
        """

    @abstractmethod
    def part(self, memory: Memory, offset: int, nbytes: int) -> Any:
        """The handle of a part; ArgumentError where the device cannot start a buffer there."""

    @abstractmethod
    def write(
        self, memory: Memory, offset: int, source: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        """Copy a compact array to the device; without `wait` its contents must stay as they are
        until the stream has passed (the driver keeps the array itself)."""

    @abstractmethod
    def read(
        self, memory: Memory, offset: int, target: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        """Copy from the device into a compact array."""

    @abstractmethod
    def copy(
        self,
        target: Memory,
        target_offset: int,
        source: Memory,
        source_offset: int,
        nbytes: int,
        stream: Stream,
    ) -> None:
        """Copy on the device, or from another device of this kind, in the order of the stream."""

    def tensor_map(self, handle: Any, described: TensorMap) -> Any:
        """What a kernel takes for a tensor map of the buffer `handle`; may be kept and given out
        again. TilewrightError where the device has none."""
        raise TilewrightError(f"{self} has no tensor maps: they came with CUDA's sm_90")

    def pinned(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Bytes of CPU memory that the device copies fast and without waiting (where it can)."""
        return np.empty(nbytes, np.uint8)

    def free_memory(self) -> int:
        """Bytes that are free on the device; 0 where it does not say."""
        return 0

    def trim(self) -> None:  # noqa: B027 - a driver without a pool holds nothing
        """Give memory that is kept for reuse back to the device."""

    # -- code

    @abstractmethod
    def load(self, code: DeviceCode) -> dict[str, Kernel]:
        """Compile, or take from the cache, and load; TilewrightError with the compiler's log."""

    def capture(self, work: Callable[[Stream], None]) -> Callable[[], None] | None:
        """The launches that `work` makes in the stream it is given, as one that the device repeats
        in the present stream (a CUDA graph); None where the device has no such thing."""
        return None


class Driver(ABC):
    """A kind of device. Devices that open stay open for the life of the process."""

    kind = ""
    device_type = 0
    """DLPack's number; 20 is simt, which DLPack does not know."""

    def __init__(self) -> None:
        self._runtimes: dict[int, Runtime] = {}
        self._limits: dict[int, Limits] = {}
        self._lock = threading.RLock()

    @abstractmethod
    def count(self) -> int:
        """How many devices there are; 0, never an exception, where the driver is missing."""

    @abstractmethod
    def why_missing(self, index: int = 0) -> str:
        """What has to be there for the device to work, in one sentence; empty where it works."""

    @abstractmethod
    def limits(self, index: int) -> Limits:
        """Facts about a device that exists; does not open it where that can be helped."""

    @abstractmethod
    def _open(self, index: int) -> Runtime:
        """Open a device that exists."""

    def known_limits(self, index: int) -> Limits:
        """As `limits`, asked for once."""
        found = self._limits.get(index)
        if found is None:
            found = self._limits[index] = self.limits(index)
        return found

    def exists(self, index: int) -> bool:
        return 0 <= index < self.count()

    def open(self, index: int) -> Runtime:
        """The device's runtime; TilewrightError says what is missing."""
        found = self._runtimes.get(index)
        if found is None:
            with self._lock:
                if not self.exists(index):
                    raise TilewrightError(
                        f"device {self.kind}({index}) does not exist here: "
                        f"{self.why_missing(index)}"
                    )
                found = self._runtimes.get(index)
                if found is None:
                    found = self._runtimes[index] = self._open(index)
        return found


# A driver outside of rt (simt interprets loop IR, which rt may not know) is named, not imported.
_HOMES = {
    "cuda": "tilewright.rt.drivers.cuda",
    "opencl": "tilewright.rt.drivers.opencl",
    "simt": "tilewright.driver.simt_device",
}
_drivers: dict[str, Driver] = {}


def register(kind: str, driver: Driver) -> None:
    """Make `driver` the one for a kind of device."""
    _drivers[kind] = driver


def find(kind: str) -> Driver | None:
    """The driver of a kind; None for a kind that has none (the CPU among them).

    Its module is imported at the first call; it registers its driver when it is imported.
    """
    found = _drivers.get(kind)
    home = _HOMES.get(kind)
    if found is None and home is not None:
        try:
            import_module(home)
        except ModuleNotFoundError as error:
            if error.name != home:
                raise
            return None  # an installation of the runtime alone
        found = _drivers.get(kind)
        if found is None:
            raise InternalError(f"{home} registered no driver for {kind}")
    return found
