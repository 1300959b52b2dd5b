"""`tvm.testing.autotvm`: a template, tasks and records that tests of tuners share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..schedule.api import create_schedule
from ..target.target import Target
from ..template.context import get_config
from ..template.measure import Runner
from ..template.record import MeasureInput, MeasureResult
from ..template.task import Task, create, template
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute, placeholder
from ..tensor.reduce import sum


class DummyRunner(Runner):
    """Gives each candidate a time at random, and runs none."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]
    ) -> list[MeasureResult]:
        """One cost in [0, 1) seconds for each input."""
        return [
            MeasureResult((float(np.random.random()),), 0, 0.2, time.time()) for _ in measure_inputs
        ]

    def get_build_kwargs(self) -> dict[str, Any]:
        """Nothing is asked of the builder."""
        return {}


@template("testing/matmul")
def matmul(N: int, L: int, M: int, dtype: str) -> Any:
    """(N, L) times (L, M), with a split of each axis of the result. Raises TilewrightError where
    keyword arguments are given, where `dtype` is no type such as 'float32', and UsageError where
    `L` is no integer."""
    a, b = placeholder((N, L), dtype, name="A"), placeholder((L, M), dtype, name="B")
    k = reduce_axis((0, L), name="k")
    c = compute((N, M), lambda i, j: sum(a[i, k] * b[k, j], axis=k), name="C")
    s = create_schedule(c.op)
    y, x = s[c].op.axis
    k = s[c].op.reduce_axis[0]
    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    if cfg["tile_x"].size[-1] > 1:  # configurations differ in how many loops they have
        xo, xi = cfg["tile_x"].apply(s, c, x)
        s[c].reorder(yo, xo, k, yi, xi)
    else:
        s[c].reorder(yo, k, yi, x)
    return s, [a, b, c]


@template("testing/bad_matmul")
def bad_matmul(N: int, L: int, M: int, dtype: str) -> Any:
    """`matmul`, but wrong for targets with the key "bad_device": one term is missing. Raises
    TilewrightError where keyword arguments are given, where `dtype` is no type such as
    'float32'."""
    target = Target.current(allow_none=True)
    if target is None or "bad_device" not in target.keys:
        return matmul(N, L, M, dtype)
    a, b = placeholder((N, L), dtype, name="A"), placeholder((L, M), dtype, name="B")
    k = reduce_axis((0, L - 1), name="k")
    c = compute((N, M), lambda i, j: sum(a[i, k] * b[k, j], axis=k), name="C")
    s = create_schedule(c.op)
    y, x = s[c].op.axis
    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    return s, [a, b, c]


def get_sample_task(n: int = 128) -> tuple[Task, Target]:
    """The task of a product of n x n matrices, and its target."""
    target = Target("llvm")
    return create("testing/matmul", args=(n, n, n, "float32"), target=target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """n made-up records of the sample task; the i-th took i + 1 seconds a run."""
    task, target = get_sample_task()
    space = task.config_space
    return [
        (
            MeasureInput(target, task, space.get(i % len(space))),
            MeasureResult((i + 1,), 0, i, time.time()),
        )
        for i in range(n)
    ]
