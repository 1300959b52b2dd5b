"""`auto_scheduler.feature`: the numbers that cost models see of programs.

Zheng et al., Ansor, OSDI 2020: 164 numbers for each statement that stores to a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..base.errors import ScheduleError, TilewrightError, UsageError
from ..loopir.stmt import PrimFunc
from .cost_model import cost_of
from .features import COUNT, NAMES, features_of
from .features.columns import BUFFERS
from .features.of_function import features_of_function
from .records import load_records
from .recover import recover_measure_input
from .state import State

Array = np.ndarray[Any, Any]

DEFAULT_MAX_N_BUFS = BUFFERS
DEFAULT_FEATURE_VEC_LEN = COUNT

_WORDS = (
    ("acc_read_write", "acc_type.kReadWrite"), ("acc_read", "acc_type.kRead"),
    ("acc_write", "acc_type.kWrite"), ("reuse_loop", "reuse_type.kLoopMultipleRead"),
    ("reuse_serial", "reuse_type.kSerialMultipleReadWrite"), ("reuse_none", "reuse_type.kNoReuse"),
    ("bytes_per_reuse", "bytes_d_reuse_ct"), ("lines_per_reuse", "lines_d_reuse_ct"),
    ("intensity_", "arith_intensity_curve_"), ("blockIdx.", "blockIdx_"),
    ("threadIdx.", "threadIdx_"), ("type_none", "type.kPosNone"), ("type_mixed", "type.kPosMixed"),
    *((f"type_{a}_{b}", f"type.kPos{a.title()}{b.title()}")
      for a in ("inner", "middle", "outer") for b in ("spatial", "reduce")),
)  # fmt: skip


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """The names of the numbers, in their order. `max_n_bufs`: buffers of a statement that are
    spoken of, at most 5 (None). Raises TilewrightError where `max_n_bufs` is out of the range of
    numbers of buffers."""
    names = []
    for name in np.array(NAMES)[_columns(max_n_bufs)]:
        text = str(name)
        for own, theirs in _WORDS:
            text = text.replace(own, theirs)
        names.append(text)
    return names


def get_per_store_features_from_states(
    states: Sequence[State], task: Any, max_n_bufs: int | None = None
) -> Array:
    """For each state its features, float32 (statements, 164), in an array of objects; one row of
    zeros for a state that has none. Raises TilewrightError where `max_n_bufs` is out of the range
    of numbers of buffers."""
    columns = _columns(max_n_bufs)
    return _objects([_features(State(s, task.compute_dag))[:, columns] for s in states])


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[Any],
    results: Sequence[Any],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> tuple[Array, Array, Array]:
    """Of measurements: features (see above; rows of zeros for the first so many), throughputs (the
    least cost of the task over the cost, 0 for failures), and numbers of their tasks. Raises
    TilewrightError where inputs are not as many as results, where `max_n_bufs` is out of the range
    of numbers of buffers."""
    if len(inputs) != len(results):
        raise TilewrightError(f"{len(inputs)} inputs have {len(results)} results")
    columns = _columns(max_n_bufs)
    tasks: dict[tuple[str, str], tuple[int, Any]] = {}
    found, numbers = [], []
    for n, item in enumerate(inputs):
        key = (item.task.workload_key, str(item.task.target))
        if key not in tasks:
            known = getattr(item.task, "compute_dag", None)
            dag = recover_measure_input(item).task.compute_dag if known is None else known
            tasks[key] = (len(tasks), dag)
        number, dag = tasks[key]
        skipped = n < skip_first_n_feature_extraction
        rows = np.zeros((1, COUNT), np.float32) if skipped else _features(State(item.state, dag))
        found.append(rows[:, columns])
        numbers.append(number)
    costs, which = np.array([cost_of(r) for r in results]), np.array(numbers, np.int32)
    least = np.array([costs[which == k].min() for k in range(len(tasks))])
    with np.errstate(invalid="ignore"):
        speeds = np.where(np.isfinite(costs), least[which] / costs, 0.0) if len(costs) else costs
    return _objects(found), speeds, which


def get_per_store_features_from_file(
    filename: str, max_lines: int, max_n_bufs: int | None = None
) -> tuple[Array, Array, Array]:
    """The same, of the first `max_lines` records of a file, whose workloads have to be known.
    Raises TilewrightError where there is no such file of records, where `max_n_bufs` is out of the
    range of numbers of buffers."""
    pairs = list(islice(load_records(filename), max_lines))
    inputs, results = [p[0] for p in pairs], [p[1] for p in pairs]
    return get_per_store_features_from_measure_pairs(inputs, results, 0, max_n_bufs)


def features_from_primfunc(
    func: Any, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> Array:
    """The features of a function of loops, float32 [statements, 164]: a row for each buffer that is
    stored to, of several statements that store to it the last.

    `max_n_bufs`: see above. `log_scale`: log2(x + 1) of each number, as cost models see it.
    UsageError for what is no PrimFunc. Raises TilewrightError where `max_n_bufs` is out of the
    range of numbers of buffers. `cache_line_bytes`: bytes of a cache line.
    """
    if not isinstance(func, PrimFunc):
        raise UsageError(f"features_from_primfunc takes a PrimFunc, got {type(func).__name__}")
    rows = features_of_function(func, int(cache_line_bytes))[:, _columns(max_n_bufs)]
    return np.asarray(np.log2(rows + 1) if log_scale else rows, np.float32)


def named_features_from_primfunc(
    func: Any, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> dict[str, Array] | None:
    """The same by their names, for each an array over the statements; None where nothing is
    stored. Raises UsageError where func is no PrimFunc, and TilewrightError where `max_n_bufs` is
    out of the range of numbers of buffers. `cache_line_bytes`: bytes of a cache line."""
    rows = features_from_primfunc(func, cache_line_bytes, max_n_bufs, log_scale)
    names = get_per_store_feature_names(max_n_bufs)
    return {name: rows[:, k] for k, name in enumerate(names)} if len(rows) else None


def unpack_feature(byte_arr: bytes | bytearray) -> tuple[Array, Array, Array]:
    """Features, throughputs and numbers of tasks of n records from the bytes in which TVM's library
    packs them: numbers of four bytes, in this machine's order. ValueError where their sizes do not
    fit the bytes.

    First n, then n + 2 sizes; for each record, of so many numbers, that of its statements and for
    each its 164 features (no numbers: it could not be lowered, and has a row of zeros); then the
    throughputs, then the tasks. Counts are integers, and numbers of statements floats.
    """
    data = np.frombuffer(bytes(byte_arr), np.float32)
    counts = data.view(np.int32)
    n = int(counts[0]) if len(counts) else -1
    sizes = counts[1 : n + 3]
    if n < 0 or len(sizes) != n + 2 or sizes.min() < 0 or n + 3 + sizes.sum() != len(data):
        raise ValueError(f"{len(byte_arr)} bytes are not the packed features of {n} records")
    ends = np.cumsum(sizes) + n + 3
    features = []
    for size, end in zip(sizes[:n], ends):
        rows = data[end - size + 1 : end] if size else np.zeros(COUNT, np.float32)
        statements = round(float(data[end - size])) if size else 1
        if statements * COUNT != len(rows):
            raise ValueError(f"{len(rows)} numbers are not {statements} statements of {COUNT}")
        features.append(rows.reshape(statements, COUNT).copy())
    return (
        _objects(features),
        data[ends[n - 1] if n else 3 : ends[n]].copy(),
        counts[ends[n] : ends[n + 1]].copy(),
    )


def _columns(max_n_bufs: int | None) -> Array:
    count = BUFFERS if max_n_bufs is None else int(max_n_bufs)
    if not 1 <= count <= BUFFERS:
        raise TilewrightError(f"max_n_bufs is from 1 to {BUFFERS}, got {max_n_bufs!r}")
    absent = tuple(f"B{k}." for k in range(count, BUFFERS))
    return np.array([n for n, name in enumerate(NAMES) if not name.startswith(absent)])


def _features(state: State) -> Array:
    try:
        return features_of(state)
    except ScheduleError:  # loops that features do not speak of
        return np.zeros((1, COUNT), np.float32)


def _objects(arrays: Sequence[Array]) -> Array:
    found = np.empty(len(arrays), dtype=object)
    found[:] = list(arrays)
    return found
