"""Devices, arrays and functions of a session.

A remote device is a device whose runtime is on the other side of a link, so that arrays there are
the same `DeviceArray`s as on a device of this machine: slices, views and copies are theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ..base.errors import ArgumentError, TilewrightError
from ..measure.protocol import Message
from ..rt.array import NDArray
from ..rt.device import Device
from ..rt.device_array import DeviceArray
from ..rt.drivers.base import DeviceCode, Event, Kernel, Limits, Memory, Runtime, Stream
from ..rt.function import Function, with_status
from ..rt.module import Module
from ..rt.signature import FunctionInfo
from ..rt.timing import BenchmarkResult
from ..target.target import Target
from .link import Kept, Link

CHUNK = 16 << 20
"""Bytes of arrays and files in one message."""

MASK = 128
"""TVM's RPC_SESS_MASK: the device type of a session's device is its own plus that, times 1 for the
first session, 2 for the second, ..."""

_CPU_LIMITS = Limits("cpu", 1, (1, 1, 1), 1, 0)
_spread = 40  # bits between the addresses that stand for memories of a session


class RemoteDevice(Device):
    """A device of a session. Arrays on it are made by `nd.array(x, dev)` and `nd.empty`."""

    __slots__ = ("_facts", "_runtime", "local")

    def __init__(self, link: Link, session: int, local: Device) -> None:
        super().__init__(local.device_type + MASK * session, local.device_id)
        self.local = local
        """The device, as the other side knows it."""
        self._facts: Message | None = None
        self._runtime = RemoteRuntime(link, self)

    @property
    def kind(self) -> str:
        # not that of a device of this machine, whose code and copies would take it for their own
        return f"remote_{self.local.kind}"

    def facts(self) -> Message:
        """What the other side says of it."""
        if self._facts is None:
            self._facts = self._runtime.ask("device")
        return self._facts

    @property
    def exist(self) -> bool:
        return bool(self.facts()["exists"])

    def why_missing(self) -> str:
        return str(self.facts()["why"])

    @property
    def runtime(self) -> RemoteRuntime:
        return self._runtime

    @property
    def limits(self) -> Limits | None:
        self.require()
        data = self.facts()["limits"]
        if data is None:
            return None
        triples = {k: tuple(v) for k, v in data.items() if isinstance(v, list)}
        return Limits(**{**data, **triples, "extensions": frozenset(data["extensions"])})

    def target_attributes(self) -> dict[str, Any]:
        return _Plain(self).target_attributes()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self} is of a session of this process, and cannot travel")


class _Plain(Device):
    """A remote device under its own kind, to say what code it takes."""

    __slots__ = ("_of",)

    def __init__(self, of: RemoteDevice) -> None:
        super().__init__(of.local.device_type, of.local.device_id)
        self._of = of

    @property
    def limits(self) -> Limits | None:
        return self._of.limits


class RemoteRuntime(Runtime):
    """Memory and copies on the other side of a link."""

    def __init__(self, link: Link, where: RemoteDevice) -> None:
        super().__init__(where.kind, where.device_id, _CPU_LIMITS)
        self.link = link
        self._where = {"kind": where.local.kind, "index": where.device_id}

    def ask(self, op: str, **question: Any) -> Message:
        """Ask about the device."""
        return self.link.ask(op, **self._where, **question)

    @property
    def default_stream(self) -> Stream:
        return _RemoteStream(self, None)  # not kept: a cycle would keep the session

    def create_stream(self) -> Stream:
        raise TilewrightError(f"{self} has one stream: streams are not made over a session")

    def sync(self) -> None:
        self.ask("sync")

    def alloc(self, nbytes: int) -> Memory:
        kept = Kept(self.link, self.ask("alloc", bytes=nbytes)["kept"])
        return Memory(self, kept.number, kept.number << _spread, nbytes, kept)

    def part(self, memory: Memory, offset: int, nbytes: int) -> Any:
        return memory.handle

    def write(
        self, memory: Memory, offset: int, source: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        data = source.reshape(-1).view(np.uint8)
        for start, count in _chunks(data.size):
            part = data[start : start + count].tobytes()
            self.link.ask("write", kept=memory.handle, offset=offset + start, data=part)

    def read(
        self, memory: Memory, offset: int, target: np.ndarray[Any, Any], stream: Stream, wait: bool
    ) -> None:
        out = target.reshape(-1).view(np.uint8)
        for start, count in _chunks(out.size):
            answer = self.link.ask("read", kept=memory.handle, offset=offset + start, count=count)
            out[start : start + count] = np.frombuffer(answer["data"], np.uint8)

    def copy(
        self,
        target: Memory,
        target_offset: int,
        source: Memory,
        source_offset: int,
        nbytes: int,
        stream: Stream,
    ) -> None:
        other = source.runtime
        if isinstance(other, RemoteRuntime) and other.link is self.link:
            place = {"to": target.handle, "to_offset": target_offset}
            place.update(kept=source.handle, offset=source_offset, count=nbytes)
            self.link.ask("copy", **place)
            return
        data = np.empty(nbytes, np.uint8)  # from one session to another by way of this process
        other.read(source, source_offset, data, other.stream, True)
        self.write(target, target_offset, data, stream, True)

    def load(self, code: DeviceCode) -> dict[str, Kernel]:
        raise TilewrightError(
            f"kernels get to {self} in a library: export_library, upload and load_module"
        )


class _RemoteStream(Stream):
    """The one stream of a remote device."""

    __slots__ = ()

    def sync(self) -> None:
        self.runtime.sync()

    def record(self, timing: bool = False) -> Event:
        raise TilewrightError(f"{self.runtime} has no events over a session")

    def wait(self, event: Event) -> None:
        event.sync()


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, CHUNK):
        yield start, min(CHUNK, size - start)


class RemoteFunction(Function):
    """A function of a session: its arrays are on devices of that session."""

    __slots__ = ("_link", "_of", "_which")

    def __init__(self, info: FunctionInfo, link: Link, of: Kept | None) -> None:
        """`of`: the library; None for a function that is registered on the other side."""
        super().__init__(info, partial(_no_address, info.name))
        self._link = link
        self._of = of
        self._which: Message = {"name": info.name} if of is None else {
            "kept": of.number, "name": info.name
        }  # fmt: skip

    def __call__(self, *args: Any) -> Any:
        question = {"function": self._which, "args": self._sent(args)}
        return self._link.ask("call", **question)["value"]

    def __repr__(self) -> str:
        return f"<tilewright function {self.name} on {self._link.name}>"

    def prepare(self, *args: Any) -> Callable[[], None]:
        """The function on these arguments; each run is a question to the other side."""
        question = {"function": self._which, "args": self._sent(args)}

        def run(_keep: Any = args) -> None:
            self._link.ask("call", **question)

        return run

    def prepare_raw(self, *args: Any) -> Callable[[], int]:
        """As `prepare`; the returned function gives 0."""
        return with_status(self.prepare(*args))

    def time(self, args: Sequence[Any], how: Mapping[str, Any]) -> BenchmarkResult:
        """Runs on these arguments, timed on the other side."""
        answer = self._link.ask("time", function=self._which, args=self._sent(args), how=how)
        return BenchmarkResult(tuple(answer["results"]))

    def _sent(self, args: Sequence[Any]) -> list[Any]:
        return [self._argument(n, value) for n, value in enumerate(args)]

    def _argument(self, index: int, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        memory = value._memory if isinstance(value, DeviceArray) else None
        if memory is None or not isinstance(memory.runtime, RemoteRuntime):
            array = isinstance(value, (np.ndarray, NDArray)) or hasattr(value, "__dlpack__")
            got = "one in this process's memory" if array else repr(value)[:80]
            raise ArgumentError(
                f"{self.name}: argument {index}: expected an array of the session on "
                f"{self._link.name}, got {got}; nd.array(x, session.cpu()) makes one there"
            )
        if memory.runtime.link is not self._link:
            raise ArgumentError(f"{self.name}: argument {index}: an array of another session")
        found = {"kept": memory.handle, "offset": value._offset, "shape": list(value.shape)}
        strides = None if value._strides is None else list(value._strides)
        return {**found, "strides": strides, "dtype": value.dtype}


def _no_address(name: str) -> NoReturn:
    raise TilewrightError(f"{name} is in another process: it has no address here")


class RemoteModule(Module):
    """A library that a session has loaded."""

    __slots__ = ("_link",)

    def __init__(self, link: Link, answer: Message) -> None:
        """`answer`: what the other side says of the library that it has loaded."""
        kept = Kept(link, answer["kept"])
        infos = map(FunctionInfo.from_json, answer["functions"])
        functions = {i.name: RemoteFunction(i, link, kept) for i in infos}
        super().__init__(functions, Target(answer["target"]), {}, answer["entry"], (), "rpc")
        self._link = link

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: Any = None,
    ) -> Callable[..., BenchmarkResult]:
        """As of a Module; the device times itself, and gives the times alone. `f_preproc`: the name
        of a function that is registered there."""
        function = self.get_function(func_name)
        assert isinstance(function, RemoteFunction)
        if f_preproc and not isinstance(f_preproc, str):
            raise ArgumentError(
                f"f_preproc={f_preproc!r}: a function of this process cannot run on "
                f"{self._link.name}; give the name of one that is registered there"
            )
        if dev is not None:
            _require_of(self._link, dev)
        how = {
            "number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms,
            "limit_zero_time_iterations": limit_zero_time_iterations,
            "cooldown_interval_ms": cooldown_interval_ms,
            "repeats_to_cooldown": repeats_to_cooldown, "cache_flush_bytes": cache_flush_bytes,
            "f_preproc": f_preproc,
        }  # fmt: skip
        return lambda *args: function.time(args, how)


def _require_of(link: Link, dev: Device) -> None:
    if not isinstance(dev, RemoteDevice) or dev.runtime.link is not link:
        raise ArgumentError(
            f"{dev} is no device of the session on {link.name}: take session.cpu() or another of it"
        )
    dev.require()


numbers = itertools.count(1)
"""Of the sessions of this process, which their devices' types tell apart."""
