"""Records of the search as lines of JSON, in the form of TVM's logs (version 0.6).

    {"i": [[workload key, target, hardware, host, layout, inputs], [[], steps]],
     "r": [costs, error, all_cost, timestamp], "v": "v0.6"}

Of the task's fields those behind the target may be missing, from the end on. Steps are lists. Those
that only we have make a line of version "tw1", of the same form; an error has a message, "m".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import TilewrightError
from ..measure.result import NOWHERE, Measurement, Origin
from .rows import ALGORITHM_STEP, DECISION_STEP, DEFAULT_STEP, Row

VERSION = "v0.6"
OWN_VERSION = "tw1"
VERSIONS = frozenset(("v0.1", "v0.2", "v0.3", "v0.4", "v0.5", VERSION, OWN_VERSION))
FAILED_COST = 1e10  # stands where a cost would, as TVM has it

# by step: i an integer, o one or null, s a text, I a list of integers, O a list of such or nulls
_FIELDS = {
    "AN": "iii", "FU": "iI", "PR": "iis", "RE": "iI", "SP": "iioOi", "FSP": "iiii",
    "FFSP": "iiIii", "SA": "iiii", "CA": "iii", "CI": "i", "CR": "i", "CHR": "isI", "CHW": "is",
    "RF": "iii", "PK": "ii", DEFAULT_STEP: "s", ALGORITHM_STEP: "sii", DECISION_STEP: "sI",
}  # fmt: skip
_OWN_STEPS = frozenset(("PK", DEFAULT_STEP, ALGORITHM_STEP, DECISION_STEP))
_MAX_TASK_FIELDS = 6
_LAST_ERROR = 8


class BadRecord(TilewrightError):
    """A line is no record, or none that can be read."""


class OtherVersion(BadRecord):
    """A record was written by another version."""


@dataclass(frozen=True)
class Record:
    """One line. `task`: the fields of the task as they stand there, of which `workload_key` and
    `target` (a text) are always there. `costs`: seconds, or FAILED_COST after an error. `message`,
    `early` and `origin` (see MeasureResult) are known from stores only."""

    task: tuple[Any, ...]
    rows: tuple[Row, ...]
    costs: tuple[float, ...]
    error_no: int
    all_cost: float
    timestamp: float
    version: str = VERSION
    message: str = ""
    early: bool = False
    origin: Origin = NOWHERE

    @property
    def workload_key(self) -> str:
        return str(self.task[0])

    @property
    def target(self) -> str:
        return str(self.task[1])

    @property
    def ok(self) -> bool:
        return not self.error_no and bool(self.costs)


def version_of(rows: Iterable[Row]) -> str:
    """The version that a record with these steps has."""
    return OWN_VERSION if any(row[0] in _OWN_STEPS for row in rows) else VERSION


def encode(record: Record) -> str:
    """A record as a line, without the line's end."""
    data: dict[str, Any] = {
        "i": [list(record.task), [[], [row_as_json(r) for r in record.rows]]],
        "r": [list(record.costs), record.error_no, record.all_cost, record.timestamp],
        "v": record.version,
    }
    if record.version == OWN_VERSION and record.message:
        data["m"] = record.message
    return json.dumps(data, ensure_ascii=False)


def decode(line: str | dict[str, Any]) -> Record:
    """The record that a line holds, as text or parsed; BadRecord where it holds none."""
    try:
        data = json.loads(line) if isinstance(line, str) else line
    except (ValueError, RecursionError) as problem:
        raise BadRecord(f"this is no record: {problem}") from None
    if isinstance(data, dict) and "input" in data and "config" in data:
        raise BadRecord("this is a record of autotvm, not of the auto-scheduler")
    version = data.get("v") if isinstance(data, dict) else None
    if isinstance(version, str) and version not in VERSIONS:
        raise OtherVersion(
            f"this record has version {version!r}; read are {', '.join(sorted(VERSIONS))}"
        )
    try:
        if not isinstance(version, str):
            raise ValueError("it has no version")
        task, (stages, steps) = data["i"]
        costs, error, seconds, timestamp = data["r"]
        return Record(
            checked_task(task),
            rows_from_json(_list(steps, _list(stages, []))),
            tuple(_number(c) for c in _costs(costs, error)),
            error,
            _number(seconds),
            _number(timestamp),
            version,
            str(data.get("m", "")),
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise BadRecord(f"this is no record of a measurement: {problem}") from None


def row_as_json(row: Row) -> list[Any]:
    """A step as a list."""
    return [
        [_plain(v) for v in item] if isinstance(item, (tuple, list)) else _plain(item)
        for item in row
    ]


def from_parts(key: str, target: str, candidate: str, result: Measurement) -> Record:
    """The record of what a store keeps; BadRecord where it is none."""
    try:
        version, more, steps = json.loads(candidate)
        return Record(
            checked_task([key, target, *_list(more, [])]),
            rows_from_json(_list(steps, [])),
            result.costs if result.ok else (FAILED_COST,),
            int(result.error_no),
            _whole(result.seconds),
            _whole(result.timestamp),
            str(version),
            result.message,
            result.early,
            result.origin,
        )
    except (ValueError, TypeError, RecursionError) as problem:
        raise BadRecord(f"this is no record of a measurement: {problem}") from None


def _whole(value: float) -> Any:
    """Whole numbers as JSON has them from TVM."""
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def rows_from_json(steps: Sequence[Any]) -> tuple[Row, ...]:
    """Steps as tuples; ValueError for what is none."""
    return tuple(map(_row, steps))


def _row(step: Any) -> Row:
    name = step[0] if isinstance(step, list) and step else None
    fields = _FIELDS.get(name) if isinstance(name, str) else None
    if fields is None:
        raise ValueError(f"there is no step {step!r:.80}")
    if len(step) - 1 != len(fields) or not all(map(_fits, fields, step[1:])):
        raise ValueError(f"the step {step!r:.80} has other parts than {name} needs")
    return tuple(tuple(x) if isinstance(x, list) else x for x in step)


def _fits(kind: str, value: Any) -> bool:
    if kind in "IO":
        return isinstance(value, list) and all(_fits(kind.lower(), v) for v in value)
    if kind == "s":
        return isinstance(value, str)
    return isinstance(value, int) or (kind == "o" and value is None)


def _plain(value: Any) -> Any:
    """Integers of whatever kind as Python's."""
    return value if value is None or isinstance(value, str) else int(value)


def checked_task(task: Any) -> tuple[Any, ...]:
    """The fields of a task; ValueError for what are none."""
    fields = _list(task, [])
    if not 2 <= len(fields) <= _MAX_TASK_FIELDS:
        raise ValueError(f"a task has 2 to {_MAX_TASK_FIELDS} fields, this one {len(fields)}")
    kinds = (str, str, list, str, int, list)
    for value, kind in zip(fields, kinds):
        if not isinstance(value, kind):
            raise ValueError(f"{value!r:.80} stands in the task where a {kind.__name__} has to")
    return tuple(fields)


def _costs(costs: Any, error: Any) -> list[Any]:
    if not isinstance(error, int) or not 0 <= error <= _LAST_ERROR:
        raise ValueError(f"the error {error!r:.80} is not from 0 to {_LAST_ERROR}")
    found = _list(costs, [])
    if not found and not error:
        raise ValueError("it has no costs")
    return found


def _list(value: Any, other: list[Any]) -> list[Any]:
    if not isinstance(value, list) or not isinstance(other, list):
        raise ValueError(f"{value!r:.80} is no list")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise ValueError(f"{value!r:.80} is no number")
    if abs(value) > 1e300 and value not in (math.inf, -math.inf):
        raise ValueError("a number is too large")
    return value
