"""A store in a database that many machines reach, by SQLAlchemy Core: PostgreSQL.

The one module that imports SQLAlchemy, and only where a URL is given.
"""

from __future__ import annotations

import hashlib
import importlib.util
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.errors import TilewrightError
from .places import Url, shown
from .schema import ADDED, MEASUREMENT, PATIENCE, SEARCH, VERSION, Doubled, Row

if TYPE_CHECKING:
    import sqlalchemy

T = TypeVar("T")
_DRIVERS = ("psycopg", "psycopg2")
# What passes: a transaction that lost to another, a server that ends or begins, one that has no
# connection left.
_PASSING = ("40001", "40P01", "57P01", "57P02", "57P03", "53300")
_FULL = "53100"
# Of libpq, which else waits for a host that is gone for as long as TCP does, hours.
_LIMITS = {
    "connect_timeout": "10", "tcp_user_timeout": "30000",
    "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "4",
}  # fmt: skip
_TRIES = 5  # to make tables that others make at the same time


class Database:
    """A connection to a database. `create`: make the tables where they are missing; without it
    nothing is changed."""

    prefix = "tilewright_"
    # texts of any length cannot be in an index, their digests can
    by_task = "task_key = :task_key AND task = :task"

    def __init__(self, url: Url, create: bool) -> None:
        self.name = shown(url)
        self._engine = _engine(url)
        self._seen = False
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise
        self._seen = True

    def read(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        from sqlalchemy import text

        def do() -> list[tuple[Any, ...]]:
            with self._engine.connect() as connection:
                given = dict(values)
                if "task" in given:
                    given["task_key"] = _digest(given["task"])
                return [tuple(row) for row in connection.execute(text(query), given)]

        return self._patient(do)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Add all rows or none; Doubled where one is there."""
        if not rows:
            return
        made = self._tables.tables[table]
        if "task" in rows[0]:
            rows = [{**row, "task_key": _digest(row["task"])} for row in rows]

        def do() -> None:
            with self._engine.begin() as connection:
                connection.execute(made.insert(), rows)

        self._patient(do)

    def close(self) -> None:
        """Let go of the connection."""
        self._engine.dispose()

    @cached_property
    def _tables(self) -> sqlalchemy.MetaData:
        from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, String, Table, Text

        kinds: dict[str, Any] = {
            "text": Text, "name": String(255), "whole": BigInteger, "real": Double,
        }  # fmt: skip
        # SQLite counts by itself in an INTEGER alone
        number = BigInteger().with_variant(Integer, "sqlite")

        def columns(of: Mapping[str, str], null: bool) -> list[Column[Any]]:
            return [
                Column(name, kinds[kind], nullable=null, unique=name == "uid" or None)
                for name, kind in of.items()
            ]

        tables = MetaData()
        Table(
            f"{self.prefix}measurement", tables,
            Column("id", number, primary_key=True),
            *columns(MEASUREMENT, False), *columns(ADDED, True),
            Column("task_key", String(64), nullable=False, index=True),
        )  # fmt: skip
        Table(
            f"{self.prefix}search", tables,
            Column("id", number, primary_key=True), *columns(SEARCH, True),
        )  # fmt: skip
        Table(f"{self.prefix}store", tables, Column("version", Integer, primary_key=True))
        return tables

    def _prepare(self, create: bool) -> None:
        """Make the tables, or see whether they can be used."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import IntegrityError, SQLAlchemyError

        name = f"{self.prefix}store"
        for attempt in range(_TRIES):
            try:
                there = inspect(self._engine).has_table(name)
                if not there and create:
                    with self._engine.begin() as connection:  # all tables or none
                        self._tables.create_all(connection)
                        connection.execute(self._tables.tables[name].insert(), {"version": VERSION})
                    there = True
                break
            except SQLAlchemyError as error:
                # two that make the same table at once: one of them fails, and finds it made then
                raced = isinstance(error, IntegrityError) or "already exists" in str(error)
                if not create or not raced or attempt == _TRIES - 1:
                    raise self._broken(error) from None
                time.sleep(random.uniform(0.05, 0.2))
        if not there:
            raise TilewrightError(f"{self.name} holds no records of tilewright's yet")
        ((version,),) = self.read(f"SELECT MAX(version) FROM {name}", {})
        if version is None or version > VERSION:
            raise TilewrightError(
                f"{self.name} has version {version}, this tilewright reads up to {VERSION}"
            )

    def _patient(self, do: Callable[[], T]) -> T:
        """What `do` gives, done again while the server is gone or others are in the way. An
        addition whose end was not heard of is known by its uid when it is made again."""
        from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

        end = time.monotonic() + PATIENCE
        wait = 0.05
        while True:
            try:
                return do()
            except IntegrityError as error:
                if _state(error) not in ("23505", ""):  # another rule than that uids are different
                    raise self._broken(error) from None
                raise Doubled from None
            except SQLAlchemyError as error:
                passes = isinstance(error, DBAPIError) and _passes(error)
                if not passes or not self._seen or time.monotonic() > end:
                    raise self._broken(error) from None
            self._engine.dispose()
            time.sleep(random.uniform(wait / 2, wait))
            wait = min(2 * wait, 2.0)

    def _broken(self, error: Exception) -> TilewrightError:
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        text = lines[0] if lines else type(error).__name__
        if not self._seen:
            return TilewrightError(f"cannot use {self.name} as a store of measurements: {text}")
        kept = "the measurement was not kept, those before it were"
        if _state(error) == _FULL or "database or disk is full" in text:
            return TilewrightError(f"no space left for {self.name}: {kept}")
        return TilewrightError(f"{self.name} does not answer as it should: {kept}: {text}")


def _engine(given: Url) -> sqlalchemy.Engine:
    if importlib.util.find_spec("sqlalchemy") is None:
        raise TilewrightError(
            f"records at {shown(given)} need SQLAlchemy: pip install 'tilewright[fleet]' "
            "'psycopg[binary]'; or give a file"
        )
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        url = make_url(given)
        if url.drivername in ("postgresql", "postgres"):
            driver = next((d for d in _DRIVERS if importlib.util.find_spec(d)), None)
            if driver is None:
                raise TilewrightError(
                    f"records at {shown(given)} need a driver: pip install 'psycopg[binary]'"
                )
            url = url.set(drivername=f"postgresql+{driver}")
        options: dict[str, Any] = {}
        if url.get_driver_name() in _DRIVERS:
            options = {k: v for k, v in _LIMITS.items() if k not in url.query}
        return create_engine(
            url, pool_pre_ping=True, pool_size=1, hide_parameters=True, connect_args=options
        )
    except (SQLAlchemyError, ImportError, ValueError, TypeError) as error:
        raise TilewrightError(
            f"cannot use {shown(given)} as a store of measurements: {error}"
        ) from None


def _state(error: Exception) -> str:
    """SQLSTATE of an error; empty where it has none."""
    origin = getattr(error, "orig", None)
    return str(getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None) or "")


def _passes(error: Any) -> bool:
    from sqlalchemy.exc import InterfaceError, OperationalError

    state = _state(error)
    if error.connection_invalidated or state in _PASSING or state.startswith("08"):
        return True
    # without a state it is the connection; SQLite says nothing else of a lock
    text = str(error.orig)
    gone = isinstance(error, (OperationalError, InterfaceError)) and not state
    return gone and "disk" not in text and "no such table" not in text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
