"""Finished measurements on disk: a SQLite store from which a search resumes, and JSON lines.

Every entry is on disk when the call that adds it returns. Both hold data only.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import open_file
from .result import MeasureErrorNo, Measurement

VERSION = 1
_HEADER = b"SQLite format 3\0"
_FULL = 13  # SQLITE_FULL
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # what SQLite says of a damaged file may quote it
_TABLE = """
CREATE TABLE IF NOT EXISTS measurement (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  target TEXT NOT NULL,
  candidate TEXT NOT NULL,
  costs TEXT NOT NULL,
  error INTEGER NOT NULL,
  message TEXT NOT NULL,
  seconds REAL NOT NULL,
  timestamp REAL NOT NULL,
  early INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS measurement_by_task ON measurement (task, target);
"""
_PAGE = 1000
_COLUMNS = "candidate, costs, error, message, seconds, timestamp, early"
_INSERT = f"INSERT INTO measurement (task, target, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"


class Store:
    """Measurements in a SQLite file, which several searches may use at a time.

    `task`, `target` and `candidate` are texts of the search's choice; equal texts mean the same.
    `create`: begin a new file where there is none; without it the store is only read. What was
    added lately may stand in a second file beside it, whose name ends in -wal, until the last user
    has closed the store. TilewrightError for a file that is no store, is damaged or was written by
    a newer version.
    """

    def __init__(self, path: str | os.PathLike[str], create: bool = True) -> None:
        self.path = Path(path)
        self._db: sqlite3.Connection | None = None
        try:
            self._db = _connect(self.path, create)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise TilewrightError(
                    f"{self.path} has version {version}, this tilewright reads up to {VERSION}"
                )
            if version < VERSION and create:
                # one write and one wait for the disk a measurement; journals need several
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.executescript(f"BEGIN IMMEDIATE; {_TABLE} COMMIT;")
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            self._db.execute("PRAGMA synchronous = FULL")
        except _ERRORS as error:
            self.close()
            raise self._broken(error) from None
        except TilewrightError:
            self.close()
            raise

    def add(self, task: str, target: str, candidate: str, result: Measurement) -> None:
        """Keep a measurement; it is on disk when this returns."""
        with self._errors():
            self._connection.execute(_INSERT, _row(task, target, candidate, result))

    def add_all(self, entries: Iterable[tuple[str, str, str, Measurement]]) -> None:
        """Keep many, all or none: (task, target, candidate, measurement) each."""
        rows = [_row(*entry) for entry in entries]
        with self._errors():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(_INSERT, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def find(self, task: str, target: str) -> list[tuple[str, Measurement]]:
        """The candidates of a task with their measurements, in the order in which they came."""
        with self._errors():
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM measurement WHERE task = ? AND target = ? ORDER BY id",
                (task, target),
            ).fetchall()
        read = ((row[0], _measurement(row[1:])) for row in rows)
        return [(candidate, result) for candidate, result in read if result is not None]

    def read(
        self, task: str | None = None, damaged: Callable[[int], None] = lambda number: None
    ) -> Iterator[tuple[int, str, str, str, Measurement]]:
        """(number, task, target, candidate, measurement) of one task or of all, in the order in
        which they came. `damaged` is called with the numbers of rows that hold none."""
        where, values = ("WHERE task = ?", (task,)) if task is not None else ("", ())
        last = 0
        while True:  # page by page, so that writers need not wait for who reads
            with self._errors():
                rows = self._connection.execute(
                    f"SELECT id, task, target, {_COLUMNS} FROM measurement "
                    f"{where or 'WHERE 1'} AND id > ? ORDER BY id LIMIT {_PAGE}",
                    (*values, last),
                ).fetchall()
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
        with self._errors():
            return self._connection.execute(
                "SELECT task, target, COUNT(*) FROM measurement GROUP BY task, target"
            ).fetchall()

    def close(self) -> None:
        """Close the file; a store that is closed cannot be used again."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise TilewrightError(f"the store {self.path} is closed")
        return self._db

    def _errors(self) -> _Translate:
        return _Translate(self)

    def _broken(self, error: Exception) -> TilewrightError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == _FULL or "is full" in str(error):
            return TilewrightError(
                f"no space left for {self.path}: the measurement was not kept, those before it were"
            )
        return TilewrightError(
            f"cannot use {self.path} as a store of measurements: {error}; give another path, or "
            "move the file away"
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Translate:
    """Errors of SQLite as the user's."""

    __slots__ = ("store",)

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, _ERRORS):
            raise self.store._broken(error) from None


def _row(task: str, target: str, candidate: str, result: Measurement) -> tuple[Any, ...]:
    return (
        task,
        target,
        candidate,
        json.dumps(result.costs),
        int(result.error_no),
        result.message,
        result.seconds,
        result.timestamp,
        int(result.early),
    )


def _measurement(row: Any) -> Measurement | None:
    """What a row holds; None where others than we have written it."""
    costs, error, message, seconds, timestamp, early = row
    try:
        return Measurement(
            tuple(map(float, json.loads(costs))),
            MeasureErrorNo(error),
            str(message),
            _finite(seconds),
            _finite(timestamp),
            bool(early),
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _connect(path: Path, create: bool) -> sqlite3.Connection:
    where = path.absolute().as_uri()
    mode = "rwc" if create else "rw"
    if path.exists() and not path.is_file():
        raise sqlite3.OperationalError(f"{path} is not a regular file")
    try:
        db = sqlite3.connect(f"{where}?mode={mode}", 60.0, isolation_level=None, uri=True)
        if not create:
            db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if create or not path.is_file():
            raise
        # a folder that cannot be written, so nobody else writes there either
        db = sqlite3.connect(f"{where}?immutable=1", 60.0, isolation_level=None, uri=True)
    db.text_factory = _text  # a damaged text costs its row, not the store
    return db


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a SQLite database."""
    try:
        with open_file(path) as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add a line to a file, on disk when this returns. Half a line that a killed process left at
    its end stays a line of its own. TilewrightError where the file cannot be written or the disk is
    full; nothing of the line is kept then."""
    data = line.rstrip("\n").encode() + b"\n"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise TilewrightError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
    try:
        with suppress(OSError):  # not every file system can
            fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        except OSError as error:
            with suppress(OSError):  # a pipe or a device
                os.ftruncate(fd, size)
            raise TilewrightError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
        with suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value) of the lines of a file. Lines that are not JSON are left out, with
    one warning that says which; blank ones and those that begin with # without a warning."""
    damaged: list[int] = []
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith(b"#"):
                    continue
                try:
                    yield number, json.loads(text)
                except (ValueError, RecursionError):
                    damaged.append(number)
    except OSError as error:
        raise TilewrightError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    warn_of_lines(path, damaged)


def warn_of_lines(path: object, damaged: list[int]) -> None:
    """One warning for the lines of a file of records that could not be read."""
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        warnings.warn(
            f"{path}: left out {len(damaged)} damaged record{'s' if len(damaged) > 1 else ''} "
            f"(line {shown})",
            UserWarning,
            stacklevel=3,
        )
