"""`tilewright records`: what files of measurements hold, and making others of them."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..auto_scheduler.lines import Record, encode, row_as_json
from ..auto_scheduler.record_file import add_new, holds_lines, read_records, unique, write_all
from ..auto_scheduler.records import as_pair, best_records
from ..base.errors import TilewrightError
from ..measure.places import shown
from ..measure.result import NOWHERE, MeasureErrorNo
from . import show as terminal
from . import show_tuning as view

Files = Sequence[str]


def show(files: Files, workload: str, as_json: bool) -> None:
    """A summary of each task: how many measurements, how many failed and why, the best."""
    tasks = [_summary(*item) for item in _by_task(_read(files, workload)).items()]
    if as_json:
        print(json.dumps({"tasks": tasks}))
        return
    view.record_summary(tasks)


def best(files: Files, workload: str, as_json: bool) -> None:
    """The fastest measurement of each task, with its steps."""
    found = [_best(r) for r in best_records(iter(_read(files, workload)))]
    if as_json:
        print(json.dumps({"best": found}))
        return
    view.best_records(found)


def export(files: Files, output: str) -> None:
    """Write the measurements as lines of JSON, to standard output where `output` is "-"."""
    records = unique(_read(files))
    if output == "-":
        for record in records:
            print(encode(record))
        return
    _say(write_all(output, records), output)


def import_lines(files: Files, output: str) -> None:
    """Add measurements to a store, those that it does not have yet."""
    records = _read(files)
    with terminal.warnings_as_notes():
        _say(add_new(output, records), output)


def merge(files: Files, output: str) -> None:
    """Write the measurements of several files to a new one, in the order of time."""
    records = unique(_read(files))
    _say(write_all(output, sorted(records, key=lambda r: float(r.timestamp))), output)


def distill(files: Files, output: str) -> None:
    """Write the fastest measurement of each task to a new file."""
    _say(write_all(output, best_records(iter(_read(files)))), output)


def _say(count: int, output: str) -> None:
    print(f"{count} record{'' if count == 1 else 's'} written to {shown(output)}")


def _read(files: Files, workload: str = "") -> list[Record]:
    found: list[Record] = []
    with terminal.warnings_as_notes():
        for file in files:
            records = list(read_records(file))
            if not records and holds_lines(file) and os.path.getsize(file):
                raise TilewrightError(f"{file} is no file of records: none of its lines is one")
            found += [r for r in records if workload in r.workload_key]
    return found


def _by_task(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    tasks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tasks.setdefault((record.workload_key, record.target), []).append(record)
    return tasks


def _summary(task: tuple[str, str], records: list[Record]) -> dict[str, Any]:
    results = [as_pair(r)[1] for r in records]
    good = [r for r in results if r.ok]
    leader = next((as_pair(r)[1] for r in best_records(iter(records))), None)
    errors = Counter(MeasureErrorNo(r.error_no).name for r in results if not r.ok)
    last = next((r.message for r in reversed(records) if not r.ok and r.message), "")
    return {
        "workload_key": task[0],
        "target": task[1],
        "measurements": len(records),
        "errors": dict(errors),
        "last_error": last,
        "best_s": leader.cost if leader else None,
        "median_s": statistics.median(r.cost for r in good) if good else None,
        "noise": leader.noise if leader else None,
        "seconds": sum(r.all_cost for r in results),
        "first": _moment(min(r.timestamp for r in results)),
        "last": _moment(max(r.timestamp for r in results)),
        "by": dict(Counter(str(r.origin) for r in results if r.origin != NOWHERE)),
    }


def _best(record: Record) -> dict[str, Any]:
    result = as_pair(record)[1]
    return {
        "workload_key": record.workload_key,
        "target": record.target,
        "best_s": result.cost,
        "noise": result.noise,
        "measured": _moment(result.timestamp),
        "by": None if result.origin == NOWHERE else result.origin._asdict(),
        "steps": [row_as_json(row) for row in record.rows],
    }


def _moment(timestamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp))
