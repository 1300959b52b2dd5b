"""A rough estimate of how long a GPU takes, for choosing programs before anything was measured.

No measurements of GPUs ship with the package. The estimate knows what holds for all of them: work
is divided by the threads there are, up to what fills a device; a load from global memory costs more
than one from shared memory, and that more than an operation; each element held in registers saves
loads; threads beyond a multiple of a warp idle; each kernel has to be launched. It ranks
candidates; its unit, cycles of a device of middling size, means little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..schedule.state import GROUP_ROOT
from .evolve import Scores
from .features.touch import Levels
from .space import Matrix
from .space_gpu import GpuSpace

PROCESSORS, RESIDENT = 100, 512  # and the threads that keep one of them busy
LAUNCH = 5_000.0  # cycles
GLOBAL_LOAD, SHARED_LOAD, OTHER = 8.0, 4.0, 8.0


def estimate(space: GpuSpace, rows: Matrix) -> Scores:
    """The negative logarithm of the estimated cycles of each candidate."""
    factors = rows[:, : len(space.sketch.open)]
    nest = space.nest
    levels = Levels(nest.tables, factors, {})
    virtual = {
        t.ident: space.limits.product(t, 0, rows).astype(np.float64) for t in space.bound.tiled
    }
    held = _held(space, levels.slots, virtual)
    roots = set()
    total = np.zeros(len(rows))
    for k, statement in enumerate(nest.statements):
        stage = statement.nest.stage
        root = statement.path[0].stage.id if statement.path else stage.id
        roots.add(root)
        tags = nest.annotators[k].threads
        threads = levels.extent[k, tags.get("threadIdx.x", [])].prod(axis=0)
        blocks = levels.extent[k, tags.get("blockIdx.x", [])].prod(axis=0)
        workers = np.minimum(blocks * np.minimum(threads, RESIDENT), PROCESSORS * RESIDENT)
        steps = levels.trips[k, 0] / workers
        steps = steps * _idle(threads, max(1, space.hardware.warp_size))
        total += steps * _cost(stage, root, virtual, held)
    scores: Scores = -np.log(total + LAUNCH * len(roots))
    return scores


def _cost(stage: Any, root: int, virtual: dict[int, Any], held: dict[int, Any]) -> Any:
    """Cycles of one run of a stage's statement."""
    if root in virtual and stage.attach_type != GROUP_ROOT:
        if stage.scope == "shared":
            return GLOBAL_LOAD / virtual[root]  # virtual threads fetch once together
        return 1.0 + SHARED_LOAD * 2.0 / np.sqrt(np.maximum(held.get(root, 1.0), 1.0))
    return OTHER


def _held(space: GpuSpace, slots: Any, virtual: dict[int, Any]) -> dict[int, Any]:
    """By kernel, how many elements each thread holds in registers."""
    found = {}
    for root, is_shared, _, shape in space.limits.memory:
        if not is_shared and root in virtual:
            found[root] = slots[shape].prod(axis=0) * virtual[root]
    return found


def _idle(threads: Any, warp: int) -> Any:
    """By how much threads that a warp lacks slow a block down."""
    return np.ceil(threads / warp) * warp / threads
