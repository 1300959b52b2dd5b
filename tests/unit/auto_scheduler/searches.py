"""Policies for small computations, and a measurer that gives costs by a formula."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler as A
from tilewright.auto_scheduler.population import Candidate
from tilewright.auto_scheduler.space import Space

CORES = 2


def task_of(tensors: list[Any], target: str = "llvm", **more: Any) -> A.SearchTask:
    """A task for two cores, whatever the machine has."""
    hardware = A.HardwareParams(CORES, 64, 64)
    return A.SearchTask(compute_dag=tensors, target=target, hardware_params=hardware, **more)


def policy_of(
    tensors: list[Any], seed: int = 0, model: Any = None, callbacks: Any = None, **params: Any
) -> A.SketchPolicy:
    return A.SketchPolicy(
        task_of(tensors),
        A.RandomModel(seed) if model is None else model,
        params,
        seed=seed,
        verbose=0,
        init_search_callbacks=callbacks,
    )


COMPUTATIONS = {
    "matmul": lambda: C.matmul(32, 48, 64),
    "matmul_relu": lambda: C.matmul_relu(32, 16, 64),
    "conv2d": lambda: C.conv2d(8, 4, 16),
    "conv2d_bn_relu": C.conv2d_bn_relu,
    "norm": lambda: C.norm(1, 64),
    "softmax": C.softmax,
    "depthwise": lambda: C.depthwise(8, 96),
    "chain": C.chain,
    "gram": C.gram,
}


@cache
def spaces_of(name: str) -> list[Space]:
    """The spaces of a computation's sketches, made once."""
    return policy_of(COMPUTATIONS[name]()).population.spaces


def samples(policy: A.SketchPolicy, count: int, seed: int = 0) -> list[Candidate]:
    """Random candidates of every sketch."""
    rng = np.random.default_rng(seed)
    found = []
    for number, space in enumerate(policy.population.spaces):
        found += [Candidate(number, row) for row in space.sample(count, rng)]
    return found


class Formula:
    """Measures by the text of a state: the same state always costs the same."""

    def __init__(self, fail_every: int = 0) -> None:
        self.fail_every = fail_every
        self.seen: list[tuple[Any, ...]] = []

    def cost(self, rows: Any) -> float:
        digest = hashlib.md5(repr(rows).encode(), usedforsecurity=False).digest()
        return 1e-4 * (1 + digest[0] / 32)

    def measure(self, task: Any, policy: Any, inputs: Sequence[Any]) -> list[A.MeasureResult]:
        results = []
        for item in inputs:
            self.seen.append(item.state.rows)
            if self.fail_every and len(self.seen) % self.fail_every == 0:
                results.append(A.MeasureResult((), 4, "it fails", 0.1, 1.0))
            else:
                results.append(A.MeasureResult((self.cost(item.state.rows),), 0, "", 0.1, 1.0))
        return results
