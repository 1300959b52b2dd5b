"""A store in a SQLite file: many processes of one host write it at once.

Each addition is a transaction in the write-ahead log, which is on disk before it is reported. A
process that is killed leaves its transaction undone, and the next one to open the file puts the log
in order. Writers take turns by SQLite's locks, which need the memory of one host: not for a file
that several hosts mount.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..base.errors import TilewrightError
from .schema import ADDED, MEASUREMENT, PATIENCE, SEARCH, VERSION, Doubled, Row

T = TypeVar("T")
_BUSY, _LOCKED, _IO, _FULL = 5, 6, 10, 13  # SQLite's error codes
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # what SQLite says of a damaged file may quote it
_TYPES = {"text": "TEXT", "name": "TEXT", "whole": "INTEGER", "real": "REAL"}
_WAIT = 5.0  # seconds that SQLite itself waits for a lock
_OLD = ", ".join(MEASUREMENT)


class SqliteFile:
    """An open file. `create`: begin a new one where there is none, and bring an older one up to
    date; without it the file is only read. `uid_of`: the uid of a row's values, in the order of
    MEASUREMENT; null where it has none."""

    prefix = ""
    by_task = "task = :task"

    def __init__(self, path: Path, create: bool, uid_of: Callable[..., str | None]) -> None:
        self.path, self.name = path, str(path)
        self._db: sqlite3.Connection | None = None
        try:
            self._db = self._patient(lambda: _connect(path, create), "nothing was written")
            self._patient(lambda: self._prepare(create, uid_of), "nothing was written")
        except BaseException:
            self.close()
            raise

    def read(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._patient(lambda: self._open.execute(query, values).fetchall())

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add all rows or none; Doubled where one is there."""
        if not rows:
            return
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        query = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
        self._patient(lambda: self._transaction(query, rows))

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._db is not None
        return self._db

    def _transaction(self, query: str, rows: Sequence[Row]) -> None:
        db = self._open
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(query, rows)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _prepare(self, create: bool, uid_of: Callable[..., str | None]) -> None:
        """Make the tables, or see whether they can be read."""
        db = self._open
        version = self._version()
        if version < VERSION and create:
            # one write and one wait for the disk a measurement; journals need several
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            try:
                self._upgrade(uid_of)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        elif version == 1:  # of the same name, it stands before the file's own
            nulls = ", ".join(f"NULL AS {name}" for name in ADDED)
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute(f"CREATE TEMP VIEW measurement AS SELECT id, {_OLD}, {nulls} "
                       "FROM main.measurement")  # fmt: skip
        db.execute("PRAGMA synchronous = FULL")

    def _upgrade(self, uid_of: Callable[..., str | None]) -> None:
        """Bring the tables up to date, in a transaction: others may have done so meanwhile."""
        db = self._open
        version = self._version()
        if version >= VERSION:
            return
        columns = ", ".join(f"{name} {_TYPES[kind]} NOT NULL" for name, kind in MEASUREMENT.items())
        db.execute(f"CREATE TABLE IF NOT EXISTS measurement (id INTEGER PRIMARY KEY, {columns})")
        db.execute("CREATE INDEX IF NOT EXISTS measurement_by_task ON measurement (task, target)")
        for name, kind in ADDED.items():
            db.execute(f"ALTER TABLE measurement ADD COLUMN {name} {_TYPES[kind]}")
        db.execute("CREATE UNIQUE INDEX measurement_by_uid ON measurement (uid)")
        rows = db.execute(f"SELECT {_OLD}, id FROM measurement").fetchall()
        uids = [(uid_of(*values), number) for *values, number in rows]
        db.executemany("UPDATE OR IGNORE measurement SET uid = ? WHERE id = ?", uids)
        columns = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in SEARCH.items())
        db.execute(f"CREATE TABLE search (id INTEGER PRIMARY KEY, {columns}, UNIQUE (uid))")
        db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        version: int
        (version,) = self._open.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise TilewrightError(
                f"{self.path} has version {version}, this tilewright reads up to {VERSION}"
            )
        return version

    def _patient(
        self,
        do: Callable[[], T],
        lost: str = "the measurement was not kept, those before it were",
    ) -> T:
        """What `do` gives, done again while others are in the way: SQLite waits by itself in most
        places, but not where it would change the journal's mode or put a log in order."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return do()
            except sqlite3.IntegrityError as error:
                if "measurement.uid" in str(error) or "search.uid" in str(error):
                    raise Doubled from None
                raise self._broken(error, lost) from None
            except _ERRORS as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise self._broken(error, lost) from None
            time.sleep(random.uniform(0.01, 0.1))

    def _broken(self, error: Exception, lost: str) -> TilewrightError:
        code, text = getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error)
        if code == _FULL or "is full" in text:
            return TilewrightError(f"no space left for {self.path}: {lost}")
        if code == _IO or "disk I/O error" in text:
            return TilewrightError(
                f"cannot write {self.path} (a full disk, a limit on the sizes of files, or a disk "
                f"that fails): {lost}"
            )
        if _is_busy(error):
            return TilewrightError(
                f"another process has held {self.path} locked for {PATIENCE:.0f} seconds: {lost}"
            )
        return TilewrightError(
            f"cannot use {self.path} as a store of measurements: {error}; give another path, or "
            "move the file away"
        )


def _is_busy(error: Exception) -> bool:
    # codes are known from Python 3.11 on
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (_BUSY, _LOCKED) or "is locked" in str(error)


def _connect(path: Path, create: bool) -> sqlite3.Connection:
    where = path.absolute().as_uri()
    mode = "rwc" if create else "rw"
    if path.exists() and not path.is_file():
        raise sqlite3.OperationalError(f"{path} is not a regular file")
    try:
        return _opened(f"{where}?mode={mode}", not create)
    except sqlite3.OperationalError as error:
        if create or not path.is_file() or _is_busy(error):
            raise
        # a folder that cannot be written, so nobody else writes there either
        return _opened(f"{where}?immutable=1", False)


def _opened(uri: str, look: bool) -> sqlite3.Connection:
    """A connection; `look` has it read, as only that says whether the file can be."""
    db = sqlite3.connect(uri, timeout=_WAIT, isolation_level=None, uri=True)
    try:
        if look:
            db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    db.text_factory = _text  # a damaged text costs its row, not the store
    return db


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
