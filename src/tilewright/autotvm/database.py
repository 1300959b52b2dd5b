"""Results of measurements by their inputs: `autotvm.database`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..template.record import MeasureInput, MeasureResult, decode, encode, measure_str_key

Pair = tuple[MeasureInput, MeasureResult]


class Database:
    """Base of databases: `load` what `save` was given for the same input."""

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """The latest result for an input, all with `get_all`; None where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has to define load")

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keep a result: the only one of its input, or with `extend` beside the others."""
        raise NotImplementedError(f"{type(self).__name__} has to define save")


class RedisDatabase(Database):
    """On a Redis server, at port 6379 of $TVM_FLEET_HOST (of this machine for REDIS_TEST), which
    the package `redis` speaks to. `db_index`: the number of the server's database."""

    REDIS_PROD, REDIS_LOCA, REDIS_TEST, REDIS_NIGHT_TEMP = 15, 14, 13, 12
    MAGIC_SPLIT = "$"

    def __init__(self, db_index: int = REDIS_PROD) -> None:
        local = db_index == RedisDatabase.REDIS_TEST
        host = "localhost" if local else os.environ.get("TVM_FLEET_HOST")
        self.db: Any = import_module("redis").StrictRedis(host=host, port=6379, db=db_index)
        self.db_index = db_index

    def set(self, key: str, value: str) -> None:
        """Keep a text."""
        self.db.set(key, value)

    def get(self, key: Any) -> str | None:
        """The text that was kept; None where there is none."""
        found = self.db.get(key)
        return found.decode() if isinstance(found, bytes) else found

    def _pairs(self, text: str) -> list[Pair]:
        return [pair for row in text.split(self.MAGIC_SPLIT) if (pair := decode(row)) is not None]

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """The latest result for an input, all with `get_all`; None where there is none."""
        known = self.get(measure_str_key(inp))
        if known is None:
            return None
        results = [result for _, result in self._pairs(known)]
        return results if get_all else max(results, key=lambda r: r.timestamp)

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keep a result: the only one of its input, or with `extend` beside the others."""
        key = measure_str_key(inp)
        kept = self.get(key) if extend else None
        row = encode(inp, res)
        self.set(key, row if kept is None else f"{kept}{self.MAGIC_SPLIT}{row}")

    def filter(self, func: Callable[[MeasureInput, Sequence[MeasureResult]], bool]) -> list[Pair]:
        """The inputs, each with its latest result, for which `func(input, results)` holds."""
        found = []
        for key in self.db.keys():  # noqa: SIM118 - of a client of Redis too
            pairs = self._pairs(self.get(key) or "")
            results = [result for _, result in pairs]
            if func(pairs[0][0], results):
                found.append((pairs[0][0], max(results, key=lambda r: r.timestamp)))
        return found

    def flush(self) -> None:
        """Forget everything."""
        self.db.flushdb()


class DummyDatabase(RedisDatabase):
    """In this process's memory."""

    def __init__(self) -> None:
        self.db = {}

    def set(self, key: str, value: str) -> None:
        """Keep a text."""
        self.db[key] = value

    def flush(self) -> None:
        """Forget everything."""
        self.db = {}


def filter_inputs(
    db: Database, measure_inputs: Sequence[MeasureInput], retry: bool = False
) -> tuple[list[MeasureResult | None], list[MeasureInput]]:
    """The result of each input that the database has, None for the others, and those others.
    `retry`: failures count as missing."""
    results: list[MeasureResult | None] = []
    for inp in measure_inputs:
        found = db.load(inp)
        results.append(None if found is None or (retry and found.error_no) else found)
    return results, [i for i, r in zip(measure_inputs, results) if r is None]
