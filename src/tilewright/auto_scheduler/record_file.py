"""Records at a path, SQLite where the name ends in .db and else lines of JSON, or at a URL."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..base.closing import Closing
from ..base.errors import TargetError, TilewrightError
from ..base.files import open_file
from ..measure.places import Url, is_store, place_of, shown
from ..measure.records import append_line, read_lines, require_lines
from ..measure.result import MeasureErrorNo, Measurement
from ..measure.store import Store
from ..measure.target_text import read_target
from ..rt.files import replacing, require_writable, write_atomically
from .lines import (
    BadRecord,
    OtherVersion,
    Record,
    decode,
    encode,
    from_parts,
    row_as_json,
)

STORE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SHOWN = 5


def holds_lines(path: str | os.PathLike[str]) -> bool:
    """Whether records are, or will be, lines of JSON rather than in a database."""
    file = place_of(path)
    if isinstance(file, Url) or is_store(file):
        return False
    if file.suffix not in STORE_SUFFIXES:
        return True
    try:
        with open_file(file) as stream:
            return stream.read(1) in (b"{", b"#")
    except OSError:
        return False


class Writer(Closing):
    """Adds records to a file or database, each on disk when `add` returns. Several processes may
    write at a time. `count`: how many were added."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = place_of(path)
        self.lines = holds_lines(self.path)
        if self.lines:
            require_lines(self.path)
        self._store: Store | None = None
        self.count = 0

    def add(self, record: Record) -> None:
        """Keep a record. TilewrightError where that cannot be; nothing of it is kept then."""
        if self.lines:
            append_line(self.path, encode(record))
        else:
            self.store.add(*_entry(record))
        self.count += 1

    @property
    def store(self) -> Store:
        """The open store, which is begun where it was not there; not of lines."""
        if self._store is None:
            self._store = Store(self.path)
        return self._store

    def require(self) -> None:
        """TilewrightError now if nothing could be written later."""
        if isinstance(self.path, Url):
            Store(self.path).close()
        else:
            require_writable(self.path)

    def close(self) -> None:
        """Let go of the file; a further `add` opens it again."""
        if self._store is not None:
            self._store.close()
            self._store = None


def write_all(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Make these the content of a new file, all or nothing; their number. TilewrightError where
    there is a file already."""
    file = place_of(path)
    if isinstance(file, Url):
        raise TilewrightError(
            "a new file is written: give its name; `tilewright records import` adds to a database"
        )
    kept = list(records)
    if file.exists() and (file.stat().st_size or not file.is_file()):
        raise TilewrightError(f"{file} is there already: give the name of a new file")
    if file.suffix not in STORE_SUFFIXES:
        write_atomically(file, "".join(encode(r) + "\n" for r in kept).encode())
        return len(kept)
    with replacing(file) as temporary, Store(temporary) as store:
        store.add_all(map(_entry, kept))
    return len(kept)


def add_new(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Add the records that a store does not have yet, all or nothing; their number."""
    file = place_of(path)
    if holds_lines(file):
        raise TilewrightError(f"{file} holds lines of JSON: give the name of a store")
    with Store(file) as store:
        return store.add_all(map(_entry, unique(records)))


def unique(records: Iterable[Record]) -> list[Record]:
    """Each record once."""
    return list({_identity(r): r for r in records}.values())


def _identity(record: Record) -> tuple[Any, ...]:
    """What makes a record the same as another: 1 and 1.0 are."""
    result = tuple(map(float, (*record.costs, record.all_cost, record.timestamp)))
    return json.dumps(record.task), record.rows, record.error_no, result


def read_records(
    path: str | os.PathLike[str], workload_keys: str | Collection[str] | None = None
) -> Iterator[Record]:
    """The records of a file or database, or those of some workloads, each workload's in the order
    in which they came.

    What cannot be read is left out, with one warning that says how much and why.
    """
    place = place_of(path)
    left_out = LeftOut(shown(place))
    keys = [workload_keys] if isinstance(workload_keys, str) else workload_keys
    if not isinstance(place, Url) and not place.is_file():
        raise TilewrightError(f"there is no file {place} of records")
    if not isinstance(place, Url) and holds_lines(place):
        found = _from_lines(place, left_out)
    else:
        found = _from_store(place, keys, left_out)
    known: dict[str, bool] = {}
    for record in found:
        if keys is not None and record.workload_key not in keys:
            continue
        if record.target not in known:
            known[record.target] = is_target(record.target)
        if known[record.target]:
            yield record
        else:
            left_out.add(f"of a target that is not known, {record.target!r}")
    left_out.warn()


class LeftOut:
    """What could not be read of a file, and why."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._why: dict[str, list[int]] = {}

    def add(self, why: str, line: int = 0) -> None:
        self._why.setdefault(why, []).append(line)

    def warn(self) -> None:
        """One warning, if there is anything to say."""
        if not self._why:
            return
        parts = []
        for why, lines in self._why.items():
            shown = ", ".join(str(n) for n in lines[:_SHOWN] if n)
            more = ", ..." if len(lines) > _SHOWN else ""
            parts.append(f"{len(lines)} {why}" + (f" (line {shown}{more})" if shown else ""))
        total = sum(map(len, self._why.values()))
        text = f"{self.name}: left out {total} record{'s' if total > 1 else ''}: "
        warnings.warn(text + "; ".join(parts), UserWarning, stacklevel=4)


def _from_lines(file: Path, left_out: LeftOut) -> Iterator[Record]:
    for number, data in read_lines(file):
        try:
            yield decode(data)
        except OtherVersion:
            left_out.add(f"of version {data['v']!r}", number)
        except BadRecord as problem:
            why = "of autotvm" if "autotvm" in str(problem) else "that are none"
            left_out.add(why, number)


def _from_store(
    place: Path | Url, keys: Collection[str] | None, left_out: LeftOut
) -> Iterator[Record]:
    def damaged(number: int) -> None:
        left_out.add("that are none", number)

    with Store(place, create=False) as store:
        for wanted in [None] if keys is None else keys:
            for number, key, target, candidate, result in store.read(wanted, damaged):
                try:
                    yield from_parts(key, target, candidate, result)
                except BadRecord:
                    damaged(number)


def _entry(record: Record) -> tuple[str, str, str, Measurement]:
    """A record as a store takes it."""
    result = Measurement(
        record.costs if record.ok else (),
        MeasureErrorNo(record.error_no),
        record.message,
        float(record.all_cost),
        float(record.timestamp),
        record.early,
        record.origin,
    )
    return record.workload_key, record.target, _candidate(record), result


def _candidate(record: Record) -> str:
    """What a store keeps of a candidate, besides its task and target."""
    rows = [row_as_json(row) for row in record.rows]
    return json.dumps([record.version, record.task[2:], rows], separators=(",", ":"))


def is_target(text: str) -> bool:
    """Whether a record's target is one that is known here."""
    try:
        read_target(text)
    except TargetError:
        return False
    return True
