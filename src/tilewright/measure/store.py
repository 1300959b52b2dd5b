"""Finished measurements in a database, from which a search resumes and which searches share.

A store is a SQLite file (`sqlite_file.py`), for the processes of one host, or a database by its URL
(`database.py`), for many hosts. Rows are only ever added, each is on disk when the call that adds
it returns, and each is there once: its `uid` is a digest of what was measured and what came of it,
so that adding it again, after a connection that broke or from another file, adds nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ..base.closing import Closing
from ..base.errors import TilewrightError
from .origin import here
from .places import Url, place_of, shown
from .result import MeasureErrorNo, Measurement, Origin
from .schema import ADDED, MEASUREMENT, Doubled, Link, Row
from .sqlite_file import SqliteFile

Entry = tuple[str, str, str, Measurement]

_PAGE = 1000
_ASKED = 500  # uids that are asked for at once
_NAME = 255
_RESULT = "costs, error, message, seconds, timestamp, early, login, host, device, tilewright"


class Store(Closing):
    """Measurements at a path or a URL, which several searches may use at a time.

    `task`, `target` and `candidate` are texts of the search's choice; equal texts mean the same.
    `create`: begin a new store where there is none; without it the store is only read. What was
    added lately to a file may stand in a second one beside it, whose name ends in -wal, until the
    last user has closed the store. TilewrightError for a place that is no store, is damaged or was
    written by a newer version.
    """

    def __init__(self, place: str | os.PathLike[str], create: bool = True) -> None:
        self.place = place_of(place)
        self.name = shown(self.place)
        self.search: int | None = None
        self._open: Link | None = _link(self.place, create)

    def add(self, task: str, target: str, candidate: str, result: Measurement) -> None:
        """Keep a measurement; it is on disk when this returns."""
        self.add_all([(task, target, candidate, result)])

    def add_all(self, entries: Iterable[Entry]) -> int:
        """Keep many, all or none; how many of them were not there yet."""
        rows = list({row["uid"]: row for row in map(self._row, entries)}.values())
        if len(rows) > 1:  # a copy, of which much may be there
            rows = self._fresh(rows)
        while rows:
            try:
                self._link.insert(f"{self._link.prefix}measurement", rows)
                break
            except Doubled:  # rows are never removed, so this ends
                rows = self._fresh(rows)
        return len(rows)

    def find(self, task: str, target: str) -> list[tuple[str, Measurement]]:
        """The candidates of a task with their measurements, in the order in which they came."""
        rows = self._read(
            f"SELECT candidate, {_RESULT} FROM :measurement "
            "WHERE :by_task AND target = :target ORDER BY id",
            task=task, target=target,
        )  # fmt: skip
        read = ((row[0], _measurement(row[1:])) for row in rows)
        return [(candidate, result) for candidate, result in read if result is not None]

    def find_others(self, task: str, seen: set[int]) -> list[tuple[str, str, Measurement | None]]:
        """(target, candidate, measurement) of what other searches than this one (`begin_search`)
        have added, but for the rows `seen`, which are noted there; None for what holds none. Rows
        of a server need not appear in the order of their numbers, so the last number seen does not
        say what is new."""
        others = "WHERE :by_task AND (search IS NULL OR search <> :search)"
        given = {"task": task, "search": self.search or 0}
        numbers = self._read(f"SELECT id FROM :measurement {others}", **given)
        new = {number for (number,) in numbers} - seen
        if not new:
            return []
        rows = self._read(
            f"SELECT id, target, candidate, {_RESULT} FROM :measurement {others} AND id >= :first "
            "ORDER BY id",
            first=min(new), **given,
        )  # fmt: skip
        read = [
            (str(row[1]), str(row[2]), _measurement(row[3:])) for row in rows if row[0] not in seen
        ]
        seen.update(row[0] for row in rows)
        return read

    def read(
        self, task: str | None = None, damaged: Callable[[int], None] = lambda number: None
    ) -> Iterator[tuple[int, str, str, str, Measurement]]:
        """(number, task, target, candidate, measurement) of one task or of all, in the order in
        which they came. `damaged` is called with the numbers of rows that hold none."""
        where = "1 = 1" if task is None else ":by_task"
        given = {} if task is None else {"task": task}
        last = 0
        while True:  # page by page, so that writers need not wait for who reads
            rows = self._read(
                f"SELECT id, task, target, candidate, {_RESULT} FROM :measurement "
                f"WHERE {where} AND id > :last ORDER BY id LIMIT {_PAGE}",
                last=last, **given,
            )  # fmt: skip
            for row in rows:
                result = _measurement(row[4:])
                if result is None or not all(isinstance(text, str) for text in row[1:4]):
                    damaged(row[0])
                else:
                    yield row[0], row[1], row[2], row[3], result
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def tasks(self) -> list[tuple[str, str, int]]:
        """(task, target, number of measurements) of all tasks in the store."""
        rows = self._read("SELECT task, target, COUNT(*) FROM :measurement GROUP BY task, target")
        return [(str(task), str(target), int(count)) for task, target, count in rows]

    def begin_search(self) -> int:
        """Say that a search begins, whose measurements are those added from now on; how many have
        begun here before."""
        origin, uid = here(), uuid.uuid4().hex
        row = {"uid": uid, "login": origin.user[:_NAME], "host": origin.host[:_NAME],
               "tilewright": origin.version[:_NAME], "started": time.time()}  # fmt: skip
        table = f"{self._link.prefix}search"
        with suppress(Doubled):  # the connection broke behind it, and it was made again
            self._link.insert(table, [row])
        ((number,),) = self._link.read(f"SELECT id FROM {table} WHERE uid = :uid", {"uid": uid})
        (before,) = self._link.read(
            f"SELECT COUNT(*) FROM {table} WHERE id < :number", {"number": number}
        )
        self.search = int(number)
        return int(before[0])

    def close(self) -> None:
        """Let go of it; a store that is closed cannot be used again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _link(self) -> Link:
        if self._open is None:
            raise TilewrightError(f"the store {self.name} is closed")
        return self._open

    def _read(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        link = self._link
        query = query.replace(":measurement", f"{link.prefix}measurement")
        return link.read(query.replace(":by_task", link.by_task), values)

    def _fresh(self, rows: Sequence[Row]) -> list[Row]:
        """Those that are not there yet."""
        known: set[str] = set()
        for start in range(0, len(rows), _ASKED):
            some = {f"u{n}": row["uid"] for n, row in enumerate(rows[start : start + _ASKED])}
            marks = ", ".join(f":{name}" for name in some)
            found = self._read(f"SELECT uid FROM :measurement WHERE uid IN ({marks})", **some)
            known.update(uid for (uid,) in found)
        return [row for row in rows if row["uid"] not in known]

    def _row(self, entry: Entry) -> Row:
        task, target, candidate, result = entry
        values = (
            task, target, candidate, json.dumps(result.costs), int(result.error_no),
            # PostgreSQL has no texts with zeros; halves of characters are none anywhere
            result.message.replace("\0", "").encode(errors="replace").decode(),
            float(result.seconds), float(result.timestamp), int(result.early),
        )  # fmt: skip
        uid = uid_of(*values)
        names = [name[:_NAME] or None for name in result.origin]
        return dict(zip((*MEASUREMENT, *ADDED), (*values, uid, self.search, *names)))


def _link(place: Any, create: bool) -> Link:
    if isinstance(place, Url):
        from .database import Database

        return Database(place, create)
    return SqliteFile(place, create, uid_of)


def uid_of(*values: Any) -> str | None:
    """A digest of a row's MEASUREMENT by which it is known; None where it holds no measurement."""
    task, target, candidate, costs, error, _, seconds, timestamp, _ = values
    try:
        numbers = [*map(float, json.loads(costs)), float(seconds), float(timestamp)]
        text = json.dumps([task, target, candidate, int(error), numbers])
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _measurement(row: Sequence[Any]) -> Measurement | None:
    """What a row holds; None where others than we have written it."""
    costs, error, message, seconds, timestamp, early, *origin = row
    try:
        return Measurement(
            tuple(map(float, json.loads(costs))),
            MeasureErrorNo(error),
            str(message),
            _finite(seconds),
            _finite(timestamp),
            bool(early),
            Origin(*(str(name or "") for name in origin)),
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number
