"""What the stub knows of handles, memory and captures, and how a call is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.stub_cuda.names import RESULTS, CUresult, CUstreamCaptureMode
from tilewright.base.tensor_map import TensorMap
from tilewright.interp.simt import SimtArray

OK = CUresult.CUDA_SUCCESS
ALIGN = 512  # of what cuMemAlloc gives: 256 at least
GUARD = 4096  # bytes around an allocation that belong to nobody


class Refused(Exception):
    """A call gets this status. `why`: what it violates; empty where programs have to expect it."""

    def __init__(self, status: str, why: str = "") -> None:
        super().__init__(why)
        self.status = CUresult[f"CUDA_ERROR_{status}"]
        self.why = why


class Block:
    """An allocation: on a device, or pinned in the host's memory (device -1)."""

    def __init__(self, size: int, device: int) -> None:
        raw = np.full(size + 2 * GUARD + ALIGN, 0x6B, np.uint8)
        start = GUARD + -(raw.ctypes.data + GUARD) % ALIGN
        self.array = SimtArray(raw[start : start + size])
        self.address = int(self.array.data.ctypes.data)
        self.size = size
        self.device = device
        if device < 0:
            self.array.written[:] = True

    def part(self, address: int, nbytes: int | None = None) -> SimtArray:
        first = address - self.address
        last = self.size if nbytes is None else first + nbytes
        return SimtArray(self.array.data[first:last], self.array.written[first:last])


@dataclass
class Capture:
    mode: CUstreamCaptureMode
    thread: int
    work: list[Callable[[], None]] = field(default_factory=list)
    valid: bool = True


@dataclass
class Stream:
    device: int
    blocking: bool
    capture: Capture | None = None


@dataclass
class Event:
    device: int
    timing: bool
    at: float | None = None
    captured: Capture | None = None


class State:
    """Handles are numbers, each given out once, so that one of another kind or one that is gone is
    told from one that is there."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.violations: list[str] = []
        self.fault: CUresult | None = None
        self.handles: dict[str, dict[int, Any]] = {}
        self.blocks: dict[int, Block] = {}
        self.maps: dict[int, tuple[int, int, TensorMap]] = {}
        self.local = threading.local()
        self.lock = threading.RLock()
        self.last = 0x1000

    def __getattr__(self, name: str) -> Any:
        if name not in RESULTS:
            raise AttributeError(name)

        def call(*args: Any) -> Any:
            with self.lock:
                self.calls.append((name, *args))
                try:
                    if self.fault is not None and name not in ("cuGetErrorString",):
                        return (self.fault, *[None] * RESULTS[name])
                    found = getattr(self, f"_{name}")(*args)
                except Refused as refused:
                    if refused.why:
                        self.violations.append(f"{name}: {refused.why}")
                    return (refused.status, *[None] * RESULTS[name])
            results = () if found is None else found if isinstance(found, tuple) else (found,)
            assert len(results) == RESULTS[name], name
            return (OK, *results)

        return call

    # -- handles

    def new(self, kind: str, value: Any) -> int:
        self.last += 8
        self.handles.setdefault(kind, {})[self.last] = value
        return self.last

    def get(self, kind: str, handle: Any) -> Any:
        found = self.handles.get(kind, {}).get(self.number(handle, kind))
        if found is None:
            raise Refused("INVALID_HANDLE", f"{handle!r} is no {kind}, or it was given back")
        return found

    def take(self, kind: str, handle: Any) -> Any:
        found = self.get(kind, handle)
        del self.handles[kind][int(handle)]
        return found

    def left(self) -> dict[str, int]:
        """What was made and not given back, by kind."""
        return {
            k: len(v) for k, v in self.handles.items() if v and k not in ("context", "function")
        }

    @staticmethod
    def number(value: Any, what: str, least: int = 0) -> int:
        try:
            found = int(value)
        except (TypeError, ValueError):
            raise Refused("INVALID_VALUE", f"{what} is {value!r}") from None
        if not least <= found < 1 << 64:
            raise Refused("INVALID_VALUE", f"{what} is {found}, not at least {least}")
        return found

    # -- contexts

    @property
    def device(self) -> int:
        """The device of the context that this thread has entered."""
        found: int | None = getattr(self.local, "device", None)
        if found is None:
            raise Refused("INVALID_CONTEXT", "no context is current in this thread")
        return found

    def of_context(self, thing: Any, what: str) -> Any:
        if thing.device != self.device:
            raise Refused(
                "INVALID_HANDLE",
                f"{what} is of device {thing.device}, the current context of {self.device}",
            )
        return thing

    # -- memory

    def find(self, address: Any, nbytes: int, what: str) -> Block:
        """The allocation that has all of these bytes."""
        start = self.number(address, what)
        for block in self.blocks.values():
            if block.address <= start < block.address + max(block.size, 1):
                if start + nbytes > block.address + block.size:
                    raise Refused(
                        "INVALID_VALUE",
                        f"{what}: {nbytes} bytes at {start - block.address} of {block.size}",
                    )
                return block
        raise Refused("INVALID_VALUE", f"{what}: {start:#x} is in no allocation")

    # -- captures

    @property
    def mode(self) -> CUstreamCaptureMode:
        found: CUstreamCaptureMode | None = getattr(self.local, "mode", None)
        return CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL if found is None else found

    def captures(self) -> list[Capture]:
        return [s.capture for s in self.handles.get("stream", {}).values() if s.capture is not None]

    def unsafe(self) -> None:
        """What the capture modes forbid: see cuThreadExchangeStreamCaptureMode."""
        modes = CUstreamCaptureMode
        if self.mode is modes.CU_STREAM_CAPTURE_MODE_RELAXED:
            return
        for c in self.captures():
            mine = c.thread == threading.get_ident()
            mine = mine and c.mode is not modes.CU_STREAM_CAPTURE_MODE_RELAXED
            everywhere = c.mode is modes.CU_STREAM_CAPTURE_MODE_GLOBAL
            if mine or (everywhere and self.mode is modes.CU_STREAM_CAPTURE_MODE_GLOBAL):
                c.valid = False
                raise Refused(
                    "STREAM_CAPTURE_UNSUPPORTED",
                    "a stream is being captured, of which this call would make the graph wrong",
                )

    def stream(self, handle: Any) -> Stream | None:
        """The stream of a handle; None: a default stream."""
        if self.number(handle, "stream") in (0, 1, 2):
            _ = self.device
            for c in self.handles.get("stream", {}).values():
                if c.capture is not None and c.blocking and c.device == self.device:
                    c.capture.valid = False
                    raise Refused(
                        "STREAM_CAPTURE_IMPLICIT", "the legacy stream waits for one that captures"
                    )
            return None
        return self.of_context(self.get("stream", handle), "the stream")

    def enqueue(self, handle: Any, work: Callable[[], None]) -> None:
        """Do something in a stream: at once, or in the graph that it captures."""
        found = self.stream(handle)
        if found is None or found.capture is None:
            work()
        elif not found.capture.valid:
            raise Refused("STREAM_CAPTURE_INVALIDATED", "the capture has failed before")
        else:
            found.capture.work.append(work)
