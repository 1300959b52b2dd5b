"""Features as the search computes them, against the loops of the programs that it would measure."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.auto_scheduler import computations as C
from tests.unit.auto_scheduler.slow_features import slow_features
from tilewright.auto_scheduler.cost_model import RandomModel
from tilewright.auto_scheduler.dag import ComputeDAG
from tilewright.auto_scheduler.features import COUNT, NAMES, features_of
from tilewright.auto_scheduler.policy import SketchPolicy
from tilewright.auto_scheduler.task import SearchTask
from tilewright.target.target import Target
from tilewright.tensor.compute import compute, placeholder
from tilewright.testing.auto_scheduler import zero_rank_compute_auto_scheduler_test

ODD = {
    "matmul of primes": lambda: C.matmul(37, 59, 29),
    "conv2d of primes": lambda: C.conv2d(11, 5, 23),
}

CPU = ["matmul_relu", "gram", "conv2d_bn_relu", "depthwise", "group_conv", "transposed_conv"]
CPU += ["softmax", "norm", "chain"]
GPU = ["matmul", "gram", "depthwise", "softmax", "chain"]


@pytest.mark.parametrize(
    "target, name",
    [
        *(("llvm", name) for name in (*CPU, *ODD)),
        *((f"llvm -mcpu={cpu}", name) for cpu in ("haswell", "znver4") for name in ODD),
        *(("cuda -arch=sm_80", name) for name in GPU),
    ],
)
def test_candidates_of_a_search(target: str, name: str) -> None:
    dag = ComputeDAG((ODD.get(name) or getattr(C, name))())
    task = SearchTask(compute_dag=dag, workload_key=name, target=Target(target))
    policy = SketchPolicy(task, RandomModel(), seed=1, verbose=0)
    population = policy.population
    for state in policy.sample_initial_population(24 if name in ODD else 8):
        candidate = policy.recognise(state.rows)
        assert candidate is not None
        found, offsets = population.features(candidate.sketch, candidate.row[None])
        closed = population.close(candidate)
        wanted, stores = slow_features(closed.schedule, list(closed.dag.tensors))
        assert offsets.tolist() == [0, len(stores)]
        wrong = [
            f"{stores[s]}.{NAMES[c]}: {found[s, c]} instead of {wanted[s, c]}"
            for s, c in np.argwhere(~np.isclose(found, wanted, rtol=2e-6, atol=2e-6))
        ]
        assert not wrong, f"{closed.schedule}\n" + "\n".join(wrong[:20])


def test_a_program_without_loops_has_the_features_of_its_operations() -> None:
    state = ComputeDAG(zero_rank_compute_auto_scheduler_test(7)).get_init_state()
    (row,) = features_of(state)
    assert row.shape == (COUNT,) and not row.any()
    a = placeholder((3,), name="A")
    dag = ComputeDAG([a, compute((), lambda: a[0] * a[1], name="B")])
    (row,) = features_of(dag.get_init_state())
    assert row[NAMES.index("float_mul")] == 1.0 and row.sum() == 1.0
