"""Records of measurements as lines of JSON, in the form of TVM's logs (version 0.2)."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import TilewrightError
from ..measure.records import append_line, read_lines, warn_of_lines
from ..measure.target_text import read_target
from ..rt.files import write_atomically
from ..target.target import Target
from . import workload as workloads
from .space import ConfigEntity

VERSION = 0.2
FAILED_COST = 1e9


class MeasureInput(NamedTuple):
    """What is measured: a configuration of a task on a target."""

    target: Target
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """What came of it. `costs`: seconds of a run, one a repetition; the error as the only entry
    where `error_no` (a MeasureErrorNo) is not 0. `all_cost`: seconds that it took in all.
    `timestamp`: when it ended, in seconds since 1970."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


class RecordedTask:
    """The task of a record: its name and arguments; the template need not be known."""

    __slots__ = ("args", "kwargs", "name")

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs

    @property
    def workload(self) -> workloads.Workload:
        return (self.name, *self.args)


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """One record as a line of JSON."""
    if protocol != "json":
        raise TilewrightError(f"records are written as 'json', not as {protocol!r}")
    costs = [FAILED_COST] if result.error_no else [float(c) for c in result.costs]
    return json.dumps(
        {
            "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
            "config": inp.config.to_json_dict(),
            "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
            "version": VERSION,
        }
    )


def decode(row: str | dict[str, Any], protocol: str = "json") -> tuple[MeasureInput, MeasureResult]:
    """(MeasureInput, MeasureResult) of a record, also of one that TVM has written.

    TilewrightError where it is none, or has another version.
    """
    if protocol != "json":
        raise TilewrightError(f"records are read from 'json', not from {protocol!r}")
    try:
        data = json.loads(row) if isinstance(row, str) else row
        if float(data["version"]) != VERSION:
            raise ValueError(f"its version is {data['version']!r}, {VERSION} is read")
        target, name, args, kwargs = data["input"]
        costs, error, seconds, timestamp = data["result"]
        task = RecordedTask(str(name), workloads.from_json(args), dict(kwargs))
        inp = MeasureInput(read_target(target), task, ConfigEntity.from_json_dict(data["config"]))
        values = tuple(map(float, costs))
        if not error and not values:
            raise ValueError("it has no costs")
        return inp, MeasureResult(values, int(error), float(seconds), float(timestamp))
    except (
        ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
    ) as problem:  # fmt: skip
        raise TilewrightError(f"this is no record of a measurement: {problem}") from None


def load_from_file(
    filepath: str | os.PathLike[str],
) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a file. Damaged lines are left out, with a warning that says which."""
    damaged: list[int] = []
    for number, data in read_lines(filepath):
        try:
            yield decode(data)
        except TilewrightError:
            damaged.append(number)
    warn_of_lines(filepath, damaged)


def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Write the fastest record of each task and target of a file to another."""
    best: dict[Any, tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in load_from_file(in_file):
        key = (str(inp.target), inp.task.workload)
        if result.error_no == 0 and (key not in best or cost_of(result) < cost_of(best[key][1])):
            best[key] = (inp, result)
    text = "".join(encode(*pair) + "\n" for pair in best.values())
    write_atomically(out_file, text.encode())


def write(path: str | os.PathLike[str], inp: MeasureInput, result: MeasureResult) -> None:
    """Add a record to a file; it is on disk when this returns."""
    append_line(Path(path), encode(inp, result))


def cost_of(result: MeasureResult) -> float:
    """Seconds of a run: the median of the repetitions; infinite after an error."""
    if result.error_no or not result.costs:
        return float("inf")
    return float(statistics.median(result.costs))
