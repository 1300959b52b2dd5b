"""Records of a search: kept as it measures, read to resume it or to use what it found."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..base.errors import TilewrightError
from ..base.pictured import Shown
from ..measure.origin import here_for
from ..measure.places import place_of, shown
from ..measure.result import NOWHERE
from ..measure.target_text import read_target
from ..target.target import Target
from .fastest import Fastest
from .hardware import HardwareParams
from .lines import FAILED_COST, Record, decode, encode, version_of
from .measure import MeasureCallback, MeasureInput, MeasureResult
from .record_file import Writer, read_records, write_all
from .rows import Row

_HARDWARE = (
    "num_cores", "vector_unit_bytes", "cache_line_bytes", "max_shared_memory_per_block",
    "max_local_memory_per_block", "max_threads_per_block", "max_vthread_extent", "warp_size",
)  # fmt: skip

Pair = tuple[MeasureInput, MeasureResult]


class RecordedTask:
    """The task of a record. The workload need not be known; `recover_measure_input` gives the
    SearchTask."""

    def __init__(self, fields: Sequence[Any]) -> None:
        self.fields = tuple(fields)

    @property
    def workload_key(self) -> str:
        return str(self.fields[0])

    @cached_property
    def target(self) -> Target:
        target, host = read_target(self.fields[1]), self._field(3, "")
        return Target(target, read_target(host)) if host else target

    @property
    def target_host(self) -> Target | None:
        return self.target.host

    @cached_property
    def hardware_params(self) -> HardwareParams | None:
        values = self._field(2, None)
        if values is None or len(values) != len(_HARDWARE):
            return None
        return HardwareParams(**dict(zip(_HARDWARE, values)), target=self.target)

    @property
    def layout_rewrite_option(self) -> int:
        return int(self._field(4, 0))

    @property
    def task_input_names(self) -> tuple[str, ...]:
        return tuple(self._field(5, ()))

    def _field(self, place: int, default: Any) -> Any:
        return self.fields[place] if place < len(self.fields) else default

    def __repr__(self) -> str:
        return f"RecordedTask({self.workload_key}, {self.fields[1]})"


class RecordedState:
    """The steps of a recorded state."""

    __slots__ = ("rows",)

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows

    @property
    def transform_steps(self) -> tuple[Row, ...]:
        return self.rows


class RecordToFile(MeasureCallback):
    """Keeps every measurement, on disk before the next one is reported: in a file of lines of JSON,
    in SQLite, which the processes of a host may write together, where the name ends in .db, or in a
    database that many hosts share, by its URL. Raises TilewrightError where `filename` names no
    file of records, where `filename` is neither text nor a Path."""

    def __init__(self, filename: str | os.PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(place_of(filename))
        self.writer = Writer(self.filename)
        self.writer.require()

    def callback(
        self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        for item, result in zip(inputs, results):
            record = as_record(item, result)
            if record.origin == NOWHERE and not self.writer.lines:  # lines have no place for it
                record = replace(record, origin=here_for(item.task.target))
            self.writer.add(record)

    def close(self) -> None:
        """Let go of the file; a further measurement opens it again."""
        self.writer.close()


class RecordReader(Shown):
    """The records of a file, as (MeasureInput, MeasureResult): iterate, or read some of them.
    Raises TilewrightError where `filename` names no file of records, where `filename` is neither
    text nor a Path."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = str(place_of(filename))

    def __iter__(self) -> Iterator[Pair]:
        return load_records(self.filename)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Inputs and results of at most `max_lines` records behind the first `skip_lines`."""
        most = math.inf if max_lines is None or max_lines < 0 else max_lines
        inputs: list[MeasureInput] = []
        results: list[MeasureResult] = []
        for number, (item, result) in enumerate(self):
            if number >= skip_lines and len(inputs) < most:
                inputs.append(item)
                results.append(result)
        self.check_workload_key(inputs)
        return inputs, results

    def check_workload_key(self, inputs: Sequence[MeasureInput]) -> None:
        """Warn of workload keys of an older form, which has no shapes."""
        old = sorted(
            {i.task.workload_key for i in inputs if not _key_parts(i.task.workload_key)[1]}
        )
        if old:
            warnings.warn(
                f"{shown(self.filename)}: {len(old)} workload keys have the old format, without "
                f"shapes, such as {old[0]}; tune these anew",
                UserWarning,
                stacklevel=2,
            )


def task_fields(task: Any) -> tuple[Any, ...]:
    """A task as a file keeps it: key, target, hardware, host, layout option, names of inputs."""
    if isinstance(task, RecordedTask):
        return task.fields
    host = task.target.host
    hardware = [int(getattr(task.hardware_params, name)) for name in _HARDWARE]
    layout = int(task.layout_rewrite_option or 0)
    text = "" if host is None else str(host)
    names = list(task.task_input_names)
    return (task.workload_key, str(task.target), hardware, text, layout, names)


def as_record(item: MeasureInput, result: MeasureResult) -> Record:
    """A measurement as a file keeps it."""
    fields, rows = task_fields(item.task), tuple(item.state.rows)
    costs = result.costs if result.ok else (FAILED_COST,)
    return Record(
        fields, rows, tuple(costs), int(result.error_no), result.all_cost, result.timestamp,
        version_of(rows), result.error_msg, result.early, result.origin,
    )  # fmt: skip


def as_pair(record: Record) -> Pair:
    """A measurement as searches take it."""
    item = MeasureInput(RecordedTask(record.task), RecordedState(record.rows))
    costs = tuple(map(float, record.costs)) if record.ok else ()
    number, seconds, moment = record.error_no, float(record.all_cost), float(record.timestamp)
    more = record.early, record.origin
    return item, MeasureResult(costs, number, record.message, seconds, moment, *more)


def load_records(filename: str | os.PathLike[str]) -> Iterator[Pair]:
    """(MeasureInput, MeasureResult) of each record of a file. What cannot be read is left out, with
    a warning that says how much and why. Raises TilewrightError where there is no such file of
    records, where `filename` names no file of records."""
    return map(as_pair, read_records(filename))


def save_records(
    filename: str | os.PathLike[str],
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
) -> None:
    """Add records to a file. Raises TilewrightError where inputs are not as many as results, where
    `filename` names no file of records."""
    if len(inputs) != len(results):
        raise TilewrightError(f"{len(inputs)} inputs have {len(results)} results")
    with Writer(filename) as writer:
        for pair in zip(inputs, results):
            writer.add(as_record(*pair))


def dump_record_to_string(item: MeasureInput, result: MeasureResult) -> str:
    """A measurement as a line of JSON."""
    return encode(as_record(item, result))


def load_record_from_string(record: str) -> Pair:
    """The measurement of a line of JSON; TilewrightError where it holds none."""
    return as_pair(decode(record))


def load_best_record(
    filename: str | os.PathLike[str],
    workload_key: str | None = None,
    target: Any = None,
    include_compatible: bool = False,
) -> Pair | tuple[None, None]:
    """The fastest record of a workload (None: of any) on targets of the same kind as `target`;
    (None, None) where there is none. Steps measured again count as `fastest.py` says.

    `include_compatible`: also of workloads with smaller sizes that divide these, whose cost counts
    as many times as they fit in. Raises TargetError where `target` is no target, as text, dict or
    Target, where `target` has no kind of target, or no attributes by name, and TilewrightError
    where there is no such file of records, where `filename` names no file of records.
    """
    only = None if include_compatible else workload_key
    wanted = None if target is None else _kind(Target(target))
    found: Fastest[str, Record] = Fastest()
    fits: dict[str, bool] = {}
    for record in read_records(filename, only):
        if not record.ok:
            continue
        if wanted is not None and record.target not in fits:
            fits[record.target] = _kind(read_target(record.target)) == wanted
        if wanted is not None and not fits[record.target]:
            continue
        factor = 1.0
        if workload_key is not None and record.workload_key != workload_key:
            factor = workload_distance(workload_key, record.workload_key)
        steps = (record.workload_key, record.target, record.rows)
        if factor < math.inf:
            found.add("", steps, as_pair(record)[1].cost * factor, record)
    best = found.best("")
    return (None, None) if best is None else as_pair(best[1])


def distill_record_file(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> int:
    """Write the fastest record of each workload and target of a file to another; their number.
    Raises TilewrightError where the file to write is there already, or is a database, where there
    is no such file of records, where `in_file` or `out_file` names no file of records."""
    return write_all(out_file, best_records(read_records(in_file)))


def best_records(records: Iterator[Record]) -> list[Record]:
    """The fastest of each workload and target, by what counts (see `fastest.py`)."""
    found: Fastest[tuple[str, str], Record] = Fastest()
    for record in records:
        if record.ok:
            key = (record.workload_key, record.target)
            found.add(key, record.rows, as_pair(record)[1].cost, record)
    best = [found.best(key) for key in found]
    return [one[1] for one in best if one is not None]


def workload_distance(wanted: str, known: str) -> float:
    """How many times a known workload fits into the wanted one, where both are the same function of
    numbers and each number of the known one divides the other; else infinite."""
    return distance_of(_key_parts(wanted), _key_parts(known))


def distance_of(wanted: tuple[Any, Any], known: tuple[Any, Any]) -> float:
    """`workload_distance` of pairs of a function's name and its arguments."""
    (name, args), (other_name, other_args) = wanted, known
    a, b = _flat(args or ()), _flat(other_args or ())
    if name is None or name != other_name or len(a) != len(b):
        return math.inf
    factor = 1.0
    for x, y in zip(a, b):
        if x == y:
            continue
        if not (isinstance(x, int) and isinstance(y, int)) or x <= 0 or y <= 0 or x % y:
            return math.inf
        factor *= x // y
    return factor


def _flat(items: Any) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found += _flat(item) if isinstance(item, (list, tuple)) else [item]
    return found


def _key_parts(workload_key: str) -> tuple[str | None, list[Any]]:
    """Function (or hash) and arguments of a workload key."""
    try:
        name, *args = json.loads(workload_key)
    except (ValueError, TypeError):
        return None, []
    return str(name), args


def _kind(target: Target) -> tuple[Any, ...]:
    return target.kind.name, tuple(target.keys)


__all__ = [
    "RecordReader", "RecordToFile", "RecordedState", "RecordedTask", "as_pair", "as_record",
    "best_records", "distill_record_file", "dump_record_to_string", "load_best_record",
    "load_record_from_string", "load_records", "save_records", "task_fields",
    "workload_distance",
]  # fmt: skip
