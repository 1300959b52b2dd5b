"""Features of the loops of a schedule: `autotvm.feature`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..template.loop_features import ana_lower as ana_lower
from ..template.loop_features import curves, flat, loop_features, rows_of
from ..template.record import decode

Array = np.ndarray[Any, Any]

_NAMES = {
    "_attr_": ["length", "nest_level", "topdown", "bottomup", *(f"ann_{i}" for i in range(20))],
    "_arith_": ["add", "mul", "div"],
}
_TOUCH = ["stride", "mod", "count", "reuse", "T_count", "T_reuse"]


def get_itervar_feature(sch: Any, args: Any, take_log: bool = False) -> list[list[list[Any]]]:
    """For each loop a list of ["_itervar_", variable], ["_attr_", numbers...], ["_arith_",
    numbers...] and [access, numbers...] (`template/loop_features.py`). `take_log`: logarithms."""
    return [
        [["_itervar_", loop.var], *([name, *numbers] for name, numbers in rows_of(loop, take_log))]
        for loop in loop_features(sch, args)
    ]


def flatten_itervar_feature(fea: list[list[list[Any]]]) -> Array:
    """The numbers of `get_itervar_feature` in one array, float32."""
    rows = [row[1:] for loop in fea for row in loop if row[0] != "_itervar_"]
    return np.array(np.concatenate(rows) if rows else [], "float32")


def get_itervar_feature_flatten(sch: Any, args: Any, take_log: bool = True) -> Array:
    """The numbers of all loops in one array, float64."""
    return np.array(flat(loop_features(sch, args), take_log))


def get_flatten_name(fea: Any) -> list[str]:
    """The names of the numbers of `get_itervar_feature`'s result, or of the schedule of a record
    (a line), in the order of `flatten_itervar_feature`. Raises TilewrightError where the record is
    of an old version, where the line is no record of a measurement."""
    if isinstance(fea, str):
        from ..template.task import create

        record = decode(fea)
        if record is None:
            raise TilewrightError("a record of this version is no longer read")
        inp = record[0]
        task = create(inp.task.name, inp.task.args, inp.target)
        fea = get_itervar_feature(*task.instantiate(inp.config))
    names: list[str] = []
    for loop in fea:
        for row in loop[1:]:
            known = _NAMES.get(row[0], _TOUCH)
            for k in range(len(row) - 1):
                names.append(f"f{len(names)}.{loop[0][1]}.{row[0]}.{known[k]}")
    return names


def get_buffer_curve_sample_flatten(sch: Any, args: Any, sample_n: int = 30) -> Array:
    """Relations of what accesses touch, sampled at `sample_n` places: eight numbers a place for
    each buffer of the innermost loops. Raises TilewrightError where sample_n is below 1."""
    if sample_n < 1:
        raise TilewrightError(f"sample_n is at least 1, got {sample_n}")
    return np.array(curves(loop_features(sch, args), sample_n))
