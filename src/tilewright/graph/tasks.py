"""extract_tasks: what of a network is worth tuning, and how often it occurs."""

from __future__ import annotations

import os
from typing import Any

from ..auto_scheduler.hardware import HardwareParams
from ..auto_scheduler.task import SearchTask
from ..base.errors import UsageError
from ..target.target import Target
from .build import distinct_groups, prepare
from .ir import Graph
from .onnx.load import load_onnx
from .tuned import is_complex, task_of


def extract_tasks(
    model: Graph | str | os.PathLike[str],
    target: Any = "llvm",
    *,
    dtype: str = "float32",
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
) -> tuple[list[SearchTask], list[int]]:
    """The tasks of a network, and how many kernels each stands for: weights for a TaskScheduler.

    `model`: a Graph, or an ONNX file. `target` and `dtype`: as given to `compile`. Tasks are groups
    with a convolution, a product, pooling or another reduction; with `include_simple_tasks` also
    those that only move or combine elements. Kernels that compute the same are one task. Raises
    UsageError where model is neither a Graph nor an ONNX file, and TargetError where `target` is no
    target, as text, dict or Target, where `target` has no kind of target, or no attributes by name.
    """
    if isinstance(model, (str, os.PathLike)):
        model = load_onnx(model)
    if not isinstance(model, Graph):
        raise UsageError(f"extract_tasks takes a Graph or an ONNX file, got {model!r:.100}")
    chosen = Target(target)
    groups, which = distinct_groups(prepare(model, chosen, dtype)[1])
    tasks: dict[str, SearchTask] = {}
    weights: dict[str, int] = {}
    for k, group in enumerate(groups):
        if not include_simple_tasks and not is_complex(group):
            continue
        task = task_of(group, chosen, hardware_params)
        tasks.setdefault(task.workload_key, task)
        weights[task.workload_key] = weights.get(task.workload_key, 0) + which.count(k)
    return list(tasks.values()), list(weights.values())
