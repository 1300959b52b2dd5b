"""A pool of device memory: taking and giving back cost no call of the driver.

Blocks come in sizes an eighth of a power of two apart. A block that is given back may still be in
use by work that the device has not done. On the stream where it is taken next that work comes
first, so a pool that serves one stream hands it out at once; where there are more streams it waits
until each has passed a point behind the giving back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import TilewrightError
from .base import Event

_LEAST = 512


class OutOfDeviceMemory(TilewrightError):
    """The device has no memory left for an allocation."""


Block = tuple[Any, int, int]
"""Handle, address, bytes."""


def block_size(nbytes: int) -> int:
    """The size of the block for so many bytes."""
    if nbytes <= _LEAST:
        return _LEAST
    step = max(1 << ((nbytes - 1).bit_length() - 4), _LEAST)
    return -(-nbytes // step) * step


class Pool:
    """Blocks of one device. `allocate(nbytes)` gives (handle, address) or raises
    OutOfDeviceMemory; `marks()` a point of each stream, none where only one stream is there;
    `wait()` waits for the device."""

    def __init__(
        self,
        allocate: Callable[[int], tuple[Any, int]],
        release: Callable[[Any], None],
        marks: Callable[[], Sequence[Event]],
        wait: Callable[[], None],
    ) -> None:
        self._allocate = allocate
        self._release = release
        self._marks = marks
        self._wait = wait
        self._lock = threading.Lock()
        self._free: dict[int, list[Block]] = {}
        # Given back by destructors, which may run anywhere, even inside of `take`
        self._returned: deque[Block] = deque()
        self._pending: deque[tuple[Sequence[Event], list[Block]]] = deque()
        self.taken_bytes = 0
        self.held_bytes = 0

    def take(self, nbytes: int) -> Block:
        """A block of at least so many bytes."""
        size = block_size(nbytes)
        with self._lock:
            if self._returned or self._pending:
                self._sweep()
            blocks = self._free.get(size)
            if blocks:
                block = blocks.pop()
                self.held_bytes -= size
            else:
                handle, address = self._grow(size)
                block = (handle, address, size)
            self.taken_bytes += size
        return block

    def give(self, block: Block) -> None:
        """Take a block back; safe in a destructor."""
        self._returned.append(block)

    def trim(self) -> None:
        """Release every block that nobody has, after waiting for the device."""
        with self._lock:
            self._trim()

    def _grow(self, size: int) -> tuple[Any, int]:
        try:
            return self._allocate(size)
        except OutOfDeviceMemory:
            self._trim()
            return self._allocate(size)

    def _sweep(self) -> None:
        blocks = []
        while self._returned:
            blocks.append(self._returned.popleft())
        if blocks:
            marks = self._marks()
            if marks:
                self._pending.append((marks, blocks))
            else:
                self._keep(blocks)
        while self._pending and all(mark.done for mark in self._pending[0][0]):
            self._keep(self._pending.popleft()[1])

    def _keep(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            size = block[2]
            self.taken_bytes -= size
            self.held_bytes += size
            self._free.setdefault(size, []).append(block)

    def _trim(self) -> None:
        self._wait()
        self._sweep()
        while self._pending:  # their marks are passed now, unless work came meanwhile
            for mark in self._pending[0][0]:
                mark.sync()
            self._keep(self._pending.popleft()[1])
        for blocks in self._free.values():
            for handle, _, size in blocks:
                self._release(handle)
                self.held_bytes -= size
        self._free.clear()
