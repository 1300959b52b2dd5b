"""Streams and events of CUDA devices."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from .base import Event, Stream

if TYPE_CHECKING:
    from .cuda import CudaRuntime


class CudaEvent(Event):
    __slots__ = ("_api", "_runtime", "handle")

    def __init__(self, runtime: CudaRuntime, timing: bool) -> None:
        api = self._api = runtime.api
        self._runtime = runtime
        runtime.enter()
        kind = api.binding.CUevent_flags
        flags = kind.CU_EVENT_DEFAULT if timing else kind.CU_EVENT_DISABLE_TIMING
        self.handle = api.call("cuEventCreate", int(flags))

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            self._runtime.close("cuEventDestroy", handle)

    @property
    def done(self) -> bool:
        with self._runtime.unguarded():
            (status,) = self._api.binding.cuEventQuery(self.handle)
        if status and status.name != "CUDA_ERROR_NOT_READY":
            raise self._api.error(status, "work on the device failed")
        return not status

    def sync(self) -> None:
        with self._runtime.unguarded():
            self._api.call("cuEventSynchronize", self.handle)

    def seconds_since(self, start: Event) -> float:
        assert isinstance(start, CudaEvent)
        self.sync()
        return float(self._api.call("cuEventElapsedTime", start.handle, self.handle)) * 1e-3


class CudaStream(Stream):
    """A CUstream; 0 is the legacy default stream. `owner`: what destroys it."""

    __slots__ = ("_api", "_lock", "_open", "_owner")

    def __init__(self, runtime: CudaRuntime, handle: Any, owner: _StreamOwner | None) -> None:
        super().__init__(runtime, handle)
        self._api = runtime.api
        self._owner = owner
        self._open: deque[tuple[Event, Any]] = deque()
        self._lock = Lock()

    def sync(self) -> None:
        count = len(self._open)  # what other threads add meanwhile is not waited for
        with _runtime_of(self).unguarded():
            self._api.call("cuStreamSynchronize", self.handle)
        with self._lock:
            for _ in range(min(count, len(self._open))):
                self._open.popleft()

    def record(self, timing: bool = False) -> Event:
        _enter(self)
        event = CudaEvent(_runtime_of(self), timing)
        self._api.call("cuEventRecord", event.handle, self.handle)
        return event

    def wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        _enter(self)
        self._api.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def keep(self, value: Any) -> None:
        """Hold an object until the work so far is done."""
        with self._lock:
            while self._open and self._open[0][0].done:
                self._open.popleft()
            self._open.append((self.record(), value))


class _StreamOwner:
    """A CUstream of ours, which goes with the last object over it: see live.py."""

    __slots__ = ("_runtime", "handle")

    def __init__(self, runtime: CudaRuntime) -> None:
        self._runtime = runtime
        with runtime.unguarded():
            flags = int(runtime.api.binding.CUstream_flags.CU_STREAM_NON_BLOCKING)
            self.handle = runtime.api.call("cuStreamCreate", flags)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            self._runtime.close("cuStreamDestroy", handle)


class CreatedStream(CudaStream):
    """A stream that somebody holds: waits for its work when it goes."""

    __slots__ = ("_remembered",)

    def __init__(self, runtime: CudaRuntime) -> None:
        owner = _StreamOwner(runtime)
        super().__init__(runtime, owner.handle, owner)
        self._remembered = CudaStream(runtime, owner.handle, owner)

    def __del__(self) -> None:
        if not hasattr(self, "_remembered"):
            return  # the driver has refused to create one
        runtime = _runtime_of(self)
        with suppress(Exception), runtime.unguarded():
            self._api.close("cuStreamSynchronize", self.handle)
        runtime.streams.drop(self._remembered)

    def remember(self) -> None:
        """Let memory wait for this stream, and it for those before."""
        _runtime_of(self).streams.begin(self, self._remembered)


def _runtime_of(stream: CudaStream) -> CudaRuntime:
    runtime: Any = stream.runtime
    return runtime  # type: ignore[no-any-return]


def _enter(stream: CudaStream) -> None:
    _runtime_of(stream).enter()
