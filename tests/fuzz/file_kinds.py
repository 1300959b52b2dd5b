"""The kinds of files that we read: how to make one, and how to read it."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import te
from tilewright.auto_scheduler.boosting import FEATURES, Boosting, Forest, grow
from tilewright.auto_scheduler.lines import Record
from tilewright.auto_scheduler.record_file import Writer, read_records
from tilewright.auto_scheduler.records import best_records
from tilewright.base import config
from tilewright.base.errors import TilewrightError
from tilewright.cli.data import load_array
from tilewright.loopir.serial import load_json as load_loops
from tilewright.loopir.serial import save_json as save_loops
from tilewright.rt import cache
from tilewright.schedule import trace
from tilewright.template.record import load_from_file
from tilewright.tensor.serial import load_json as load_tensors
from tilewright.tensor.serial import save_json as save_tensors

RECORDS = 8


@dataclass(frozen=True)
class Kind:
    """`make(folder)` gives the bytes of a good file. `read(path)` reads one; it gives the number of
    records where there are any. `json`: it is a JSON value, in each line with `lines`."""

    suffix: str
    make: Callable[[Path], bytes]
    read: Callable[[Path], int | None]
    json: bool = False
    lines: bool = False
    records: int = 0
    names_file: bool = True
    mutate: Callable[[bytes, Random, tuple[Any, ...]], bytes] | None = None


def _npy(folder: Path) -> bytes:
    data = io.BytesIO()
    np.save(data, np.arange(60, dtype=np.float32).reshape(3, 4, 5))
    return data.getvalue()


def _read_npy(path: Path) -> None:
    array = load_array(str(path))
    array.shape  # noqa: B018


def _records() -> list[Record]:
    rows = (("SP", 0, 0, 64, (4, 2), 1), ("RE", 0, (0, 2, 1)), ("AN", 0, 0, 3), ("PR", 0, 0, "x$1"))
    key = '["0123abcd", 64, 64]'
    hardware = [2, 64, 64, 0, 0, 0, 0, 0]
    return [
        Record((key, "llvm", hardware, "", 1, []), rows, (1e-3 * (k + 1),), 0, 0.5, 1e9 + k)
        for k in range(RECORDS)
    ]


def _record_file(suffix: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        path = folder / f"good{suffix}"
        path.unlink(missing_ok=True)
        with Writer(path) as writer:
            for record in _records():
                writer.add(record)
        return path.read_bytes()

    return make


def _read_records(path: Path) -> int:
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    found = list(read_records(path))
    best_records(iter(found))
    return len(found)


def _mutate_row(data: bytes, rng: Random, values: tuple[Any, ...]) -> bytes:
    """A store with a wrong value in one row."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(data[:18] + b"\1\1" + data[20:])  # memory has no write-ahead log
    names = ("task", "target", "candidate", "costs", "error", "message", "seconds", "timestamp",
             "early")  # fmt: skip
    extreme = [v for v in values if isinstance(v, (int, float, str)) and v == v]
    value = rng.choice([*extreme, b"\xff\0", "[[[", "[1e999]", '["v0.6",[],[["SP"]]]', "{}"])
    if isinstance(value, int) and abs(value) >= 1 << 63:
        value = float(value) if abs(value) < 10**300 else 1e300
    if isinstance(value, str):
        value = value.encode(errors="replace").decode()
    number = rng.randrange(1, RECORDS + 1)
    db.execute("PRAGMA ignore_check_constraints = 1")
    db.execute(f"UPDATE measurement SET {rng.choice(names)} = ? WHERE id = ?", (value, number))
    changed = bytes(db.serialize())
    return changed[:18] + data[18:20] + changed[20:]


def _template_lines(folder: Path) -> bytes:
    line = (
        '{"input": ["llvm", "t", [["TENSOR", [8, 8], "float32"], 3], {}], "config": {"index": 1, '
        '"code_hash": null, "entity": [["tile", "sp", [-1, 4]], ["u", "ot", 1]]}, '
        '"result": [[0.001], 0, 0.5, 1600000000.0], "version": 0.2}'
    )
    return "\n".join([line] * RECORDS).encode() + b"\n"


def _read_template(path: Path) -> int:
    return sum(1 for _ in load_from_file(path))


def _model(suffix: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        rng = np.random.default_rng(0)
        rows = rng.random((40, FEATURES), np.float32)
        offsets, labels = np.arange(0, 44, 4), rng.random(10).astype(np.float32)
        forest = grow(rows, offsets, labels, np.ones(10, np.float32), Boosting(rounds=3))
        path = folder / f"good{suffix}"
        forest.save(path)
        return path.read_bytes()

    return make


def _read_model(path: Path) -> None:
    forest = Forest.load(path)
    forest.predict_rows(np.random.default_rng(1).random((50, FEATURES), np.float32) * 2)


def _module() -> Any:
    a = te.placeholder((16,), name="A")
    c = te.compute((16,), lambda i: a[i] * 2 + 1, name="C")
    return tvm.build(te.create_schedule(c.op), [a, c], "llvm")


def _exported(suffix: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        path = folder / f"good{suffix}"
        _module().save(path)
        return path.read_bytes()

    return make


def _tar(folder: Path) -> bytes:
    path = folder / "lib0.o"
    _module().save(path)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(path, "lib0.o")
    return data.getvalue()


def _read_module(path: Path) -> None:
    module = tvm.runtime.load_module(path)
    a, c = np.ones(16, np.float32), np.zeros(16, np.float32)
    module(a, c)
    if not (c == 3).all():
        raise AssertionError("a damaged module ran, and gave another result")


def _program() -> Any:
    a = te.placeholder((12, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((12,), lambda i: te.sum(te.exp(a[i, k]), k), name="B")
    return a, te.compute((12,), lambda i: te.if_then_else(i > 3, b[i], 1.5), name="C")


def _loops(folder: Path) -> bytes:
    a, c = _program()
    module = tvm.lower(te.create_schedule(c.op), [a, c])
    return save_loops(module).encode()


def _tensors(folder: Path) -> bytes:
    return save_tensors(_program()[1]).encode()


def _trace(folder: Path) -> bytes:
    _, c = _program()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return trace.to_json(s.steps).encode()


def _read_text(load: Callable[[str], Any]) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        load(path.read_bytes().decode(errors="replace"))

    return read


def _replay(text: str) -> None:
    steps = trace.from_json(text)
    s = te.create_schedule(_program()[1].op)
    trace.replay(s, steps)


def _entry(folder: Path) -> bytes:
    with config.scoped(cache_dir=folder / "cache", cache=True):
        cache.put("key", b"value" * 50)
        return cache._path("key").read_bytes()


def _read_entry(path: Path) -> None:
    with config.scoped(cache_dir=path.parent / "cache", cache=True):
        place = cache._path("key")
        place.parent.mkdir(0o700, parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
        place.chmod(0o600)
        if cache.get("key") not in (None, b"value" * 50):
            raise TilewrightError("a damaged entry is used")


KINDS: dict[str, Kind] = {
    "npy": Kind(".npy", _npy, _read_npy),
    "records-lines": Kind(
        ".json", _record_file(".json"), _read_records, json=True, lines=True, records=RECORDS
    ),
    "records-sqlite": Kind(
        ".db", _record_file(".db"), _read_records, records=RECORDS, mutate=_mutate_row
    ),
    "records-template": Kind(
        ".log", _template_lines, _read_template, json=True, lines=True, records=RECORDS
    ),
    "model": Kind(".ubj", _model(".ubj"), _read_model),
    "model-json": Kind(".json", _model(".json"), _read_model, json=True),
    "module": Kind(".two", _exported(".two"), _read_module),
    "object": Kind(".o", _exported(".o"), _read_module),
    "archive": Kind(".tar", _tar, _read_module),
    "serial": Kind(".json", _loops, _read_text(load_loops), json=True, names_file=False),
    "tensors": Kind(".json", _tensors, _read_text(load_tensors), json=True, names_file=False),
    "schedule": Kind(".json", _trace, _read_text(_replay), json=True, names_file=False),
    "cache": Kind(".twc", _entry, _read_entry, names_file=False),
}
