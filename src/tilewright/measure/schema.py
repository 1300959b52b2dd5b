"""The tables of a store, and what the two ways to reach one have to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

VERSION = 2
"""Of the tables. 1, of SQLite's files alone, knew no searches and not who measured."""

PATIENCE = 60.0
"""Seconds that a writer waits for others, or for a server that is gone."""

MEASUREMENT = {
    "task": "text", "target": "text", "candidate": "text", "costs": "text", "error": "whole",
    "message": "text", "seconds": "real", "timestamp": "real", "early": "whole",
}  # fmt: skip
"""By column what it holds. Texts are of any length, names of at most 255 characters."""

ADDED = {
    "uid": "name", "search": "whole", "login": "name", "host": "name", "device": "name",
    "tilewright": "name",
}  # fmt: skip
"""What version 2 has besides; it may be null."""

SEARCH = {"uid": "name", "login": "name", "host": "name", "tilewright": "name", "started": "real"}
"""Searches that have begun, each with a number of its own."""

Row = dict[str, Any]


class Doubled(Exception):
    """A row of those that were to be added is there already, by its uid; nothing was added."""


class Link(Protocol):
    """A connection to a store. Errors of the database come as TilewrightError."""

    name: str
    """For messages."""
    prefix: str
    """Of the tables' names."""
    by_task: str
    """The condition that a row is of the task `:task`, such that an index is used."""

    def read(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query."""

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add all rows or none: they are on disk when this returns. Doubled where one is there."""

    def close(self) -> None:
        """Let go of it."""
