"""Records of measurements as lines of JSON, in the form of TVM's logs (version 0.2)."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import statistics
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..base.errors import TilewrightError
from ..measure.records import read_lines, warn_of_lines
from ..measure.target_text import read_target
from ..rt.files import write_atomically
from ..target.target import Target
from . import workload as workloads
from .space import ConfigEntity

logger = logging.getLogger("autotvm")

AUTOTVM_LOG_VERSION = VERSION = 0.2
PACKAGE = "tilewright"
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

    def __repr__(self) -> str:
        return workloads.described(self)


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text that is the same for the same task and target and, `include_config`, choices."""
    config = str(inp.config) if include_config else ""
    task = inp.task
    return f"{inp.target}{task.name}{task.args}{task.kwargs}{config}"


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """One record as a line: of JSON, or with protocol "pickle" of three pickles in base64 and two
    versions, which is for short-lived files: `decode` takes those of this package only. Raises
    TilewrightError where protocol is neither 'json' nor 'pickle'."""
    if protocol == "pickle":
        task = [inp.task.name, inp.task.args, inp.task.kwargs]
        plain = tuple(result._replace(error_no=int(result.error_no)))
        pickles = [_pickled(part) for part in (task, inp.config, plain)]
        texts = [str(inp.target), *(b64encode(p).decode() for p in pickles)]
        return "\t".join([*texts, str(VERSION), PACKAGE])
    _require_json(protocol)
    costs = (
        [FAILED_COST]
        if result.error_no
        else [c if isinstance(c, int) else float(c) for c in result.costs]
    )
    return json.dumps(
        {
            "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
            "config": inp.config.to_json_dict(),
            "result": [
                costs or [FAILED_COST],
                int(result.error_no),
                result.all_cost,
                result.timestamp,
            ],
            "version": VERSION,
        }
    )


def _require_json(protocol: str) -> None:
    if protocol != "json":
        raise TilewrightError(f"Invalid log protocol: {protocol!r}; there are 'json' and 'pickle'")


def _pickled(value: Any) -> bytes:
    """A pickle by what the values themselves say: other packages (Dask's) teach Python's copyreg
    to name functions of theirs for every exception, which `decode` does not call."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    pickler.dispatch_table = {}
    pickler.dump(value)
    return file.getvalue()


class _Unpickler(pickle.Unpickler):
    """Takes configurations, results and errors; nothing else that a pickle may name."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module in _HOMES else None
        if isinstance(found, type) and (module != "builtins" or issubclass(found, Exception)):
            return found
        raise pickle.UnpicklingError(f"it names {module}.{name}")


_HOMES = {"builtins"} | {
    f"{__package__}.{m}" for m in ("space", "split", "reorder", "annotate", "knob", "measure")
}


def _unpickled(row: str) -> tuple[MeasureInput, MeasureResult]:
    try:
        target, *texts, version, _ = row.rstrip("\n").split("\t")
        parts = [_Unpickler(io.BytesIO(b64decode(text))).load() for text in texts]
        (name, args, kwargs), config, result = parts
        if float(version) != VERSION:
            raise ValueError(f"its version is {version}, {VERSION} is read")
        task = RecordedTask(str(name), workloads.from_json(args), dict(kwargs))
        return MeasureInput(read_target(target), task, config), MeasureResult(*result)
    except (pickle.UnpicklingError, ValueError, TypeError, EOFError) as problem:
        raise TilewrightError(f"this is no record of a measurement: {problem}") from None


def decode(
    row: str | dict[str, Any], protocol: str = "json"
) -> tuple[MeasureInput, MeasureResult] | None:
    """(MeasureInput, MeasureResult) of a record, also of one that TVM has written; None, after a
    warning, for one of its old version 0.1.

    TilewrightError where it is none, or has another version. `protocol`: "json", or "pickle".
    """
    if protocol == "pickle":
        return _unpickled(str(row))
    _require_json(protocol)
    try:
        data = json.loads(row) if isinstance(row, str) else row
        if data.get("v") == 0.1:
            logger.warning("AutoTVM log version 0.1 is no longer supported: tune again")
            return None
        if float(data["version"]) != VERSION:
            raise ValueError(f"its version is {data['version']!r}, {VERSION} is read")
        target, name, args, kwargs = data["input"]
        costs, error, seconds, timestamp = data["result"]
        task = RecordedTask(str(name), workloads.from_json(args), dict(kwargs))
        inp = MeasureInput(read_target(target), task, ConfigEntity.from_json_dict(data["config"]))
        values = tuple(map(_number, costs))
        if not error and not values:
            raise ValueError("it has no costs")
        return inp, MeasureResult(values, int(error), _number(seconds), _number(timestamp))
    except (
        ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
    ) as problem:  # fmt: skip
        raise TilewrightError(f"this is no record of a measurement: {problem}") from None


def _number(value: Any) -> Any:
    """A number as it stands there: whole ones stay whole."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is no number")
    return value


def load_from_file(
    filepath: str | os.PathLike[str],
) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a file. Damaged lines are left out, with a warning that says which. Raises
    TilewrightError where there is no such file, or nothing in it is JSON."""
    damaged: list[int] = []
    for number, data in read_lines(filepath):
        try:
            found = decode(data)
            if found is not None:
                yield found
        except TilewrightError:
            damaged.append(number)
    warn_of_lines(filepath, damaged)


def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Write the fastest record of each task and target of a file to another. Raises TilewrightError
    where there is no such file, or nothing in it is JSON."""
    best: dict[Any, tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in load_from_file(in_file):
        key = (str(inp.target), inp.task.workload)
        if result.error_no == 0 and (key not in best or cost_of(result) < cost_of(best[key][1])):
            best[key] = (inp, result)
    text = "".join(encode(*pair) + "\n" for pair in best.values())
    write_atomically(out_file, text.encode())


def split_workload(in_file: str | os.PathLike[str], clean: bool = True) -> None:
    """Write the records of each workload and target of a file to one of its own, `FILE.000.wkl`
    and so on; with `clean` each configuration once. Raises TilewrightError where there is no such
    file, or nothing in it is JSON."""
    found: dict[str, dict[Any, tuple[MeasureInput, MeasureResult]]] = {}
    for number, (inp, result) in enumerate(load_from_file(in_file)):
        mine = found.setdefault(measure_str_key(inp, False), {})
        mine.setdefault(measure_str_key(inp) if clean else number, (inp, result))
    for number, pairs in enumerate(found.values()):
        text = "".join(encode(*pair) + "\n" for pair in pairs.values())
        write_atomically(f"{os.fspath(in_file)}.{number:03d}.wkl", text.encode())


def cost_of(result: MeasureResult) -> float:
    """Seconds of a run: the median of the repetitions; infinite after an error."""
    if result.error_no or not result.costs:
        return float("inf")
    return float(statistics.median(result.costs))
