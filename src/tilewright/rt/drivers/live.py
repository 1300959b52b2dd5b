"""The streams of a device that somebody still holds."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

from .base import Stream

S = TypeVar("S", bound=Stream)


class LiveStreams(Generic[S]):
    """Streams by weak references: one that nobody holds any more drops out."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: list[weakref.ref[S]] = []

    def add(self, stream: S) -> S:
        """The stream, remembered."""
        self._references.append(weakref.ref(stream))
        return stream

    def all(self) -> list[S]:
        """Those that live."""
        live = [s for s in (ref() for ref in self._references) if s is not None]
        if len(live) != len(self._references):
            self._references = [ref for ref in self._references if ref() is not None]
        return live
