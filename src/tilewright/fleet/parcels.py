"""Candidates that are built by one task, and run by another: mostly one, several for a crowd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..measure.protocol import Message


class Parcel:
    """Candidates of one target, which are added until it is sent."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.programs: dict[int, Message] = {}
        """Of the candidates that somebody still waits for, by their tickets."""
        self.places: dict[int, int] = {}
        """Where they are in what is built, once it is sent."""
        self.build: Any = None
        """The future of the answer that holds what was built."""

    def parts(self, size: int) -> Iterator[Parcel]:
        """The same candidates in parcels of so many at most; this one where that holds them."""
        if 0 < len(self.programs) <= size:
            yield self
            return
        tickets = list(self.programs)
        for n in range(0, len(tickets), size):
            part = Parcel(self.target)
            part.programs = {t: self.programs[t] for t in tickets[n : n + size]}
            yield part

    def takes(self, program: Message) -> bool:
        """Whether a candidate may travel with these."""
        return bool(program["target"] == self.target)

    def contents(self) -> list[Message]:
        """What is sent, in its order, which is kept."""
        self.places = {ticket: place for place, ticket in enumerate(self.programs)}
        return list(self.programs.values())
