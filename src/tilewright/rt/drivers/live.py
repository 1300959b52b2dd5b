"""The streams of a device whose work given back memory has to wait for.

What is remembered is not the object that a user holds, which would not go then, nor a weak
reference to it: that still gives the object while its `__del__` runs, so another thread would
record events in a stream that is being destroyed, and in a collected cycle it is dead before
`__del__` has waited for the work. It is a second object over the same queue, which the first one
drops when it has waited.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Generic, TypeVar

from .base import Stream

S = TypeVar("S", bound=Stream)


class LiveStreams(Generic[S]):
    """Streams that may have work; safe in threads and destructors without a lock, as each method is
    one operation on a list."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: list[S] = []

    def add(self, stream: S) -> S:
        """The stream, remembered until it is dropped."""
        self._streams.append(stream)
        return stream

    def begin(self, stream: Stream, remembered: S) -> None:
        """Let memory wait for a new stream, and it for those before, whose memory it may get: in
        this order, or memory given back in between would be waited for by nobody."""
        before = self.all()
        self.add(remembered)
        for other in before:
            stream.wait(other.record())
            other.flush()

    def drop(self, stream: S) -> None:
        """Forget a stream whose work is done."""
        with suppress(ValueError):
            self._streams.remove(stream)

    def all(self) -> list[S]:
        """Those remembered now."""
        return self._streams.copy()
