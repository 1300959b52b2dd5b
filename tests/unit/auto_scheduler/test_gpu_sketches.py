"""Sketches for GPUs: their loops with decisions open, their threads, and what blocks may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.ops_workloads import scores
from tests.golden.goldens import check
from tests.narrow import as_a
from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler, lower, te, tir
from tilewright.auto_scheduler.bind_threads import bind_threads
from tilewright.auto_scheduler.evolve import Evolution, evolve, mutated
from tilewright.auto_scheduler.features.columns import PLACE
from tilewright.auto_scheduler.population import Candidate, Scorer
from tilewright.auto_scheduler.prior_gpu import estimate
from tilewright.auto_scheduler.sketch.generate import GPU_RULES, MALI_RULES
from tilewright.auto_scheduler.space_gpu import GpuSpace
from tilewright.base.errors import TilewrightError
from tilewright.lowering.verify_gpu_code import gpu_usage
from tilewright.tir.analysis import verify_gpu_code

MALI = "opencl -device=mali"
WORKLOADS: dict[str, Callable[[], list[Any]]] = {
    "matmul": lambda: C.matmul(128, 128, 128),
    "matmul_relu": lambda: C.matmul_relu(128, 128, 128),
    "matmul_deep": lambda: C.matmul(8, 8, 1024),
    "conv2d_bn_relu": lambda: C.conv2d_bn_relu(14),
    "softmax": lambda: C.softmax(8, 128),
    "norm": lambda: C.norm(1, 64),
    "depthwise": lambda: C.depthwise(14, 32),
    "tbs": lambda: scores(1, 128, 12, 64),
}


def policy(tensors: list[Any], target: str = "cuda", **params: Any) -> Any:
    task = auto_scheduler.SearchTask(compute_dag=auto_scheduler.ComputeDAG(tensors), target=target)
    model = auto_scheduler.RandomModel()
    return auto_scheduler.SketchPolicy(task, model, params=params, seed=0, verbose=0)


def describe(found: Any) -> str:
    """The sketches as derived, and with their threads bound."""
    parts = []
    for n, sketch in enumerate(found.generate_sketches()):
        bound = bind_threads(sketch, found.hardware).state
        parts += [f"sketch {n}\n{sketch}", f"sketch {n}, threads bound\n{bound}"]
    return "\n".join(parts).rstrip()


@pytest.mark.parametrize("name", WORKLOADS)
def test_sketches_of_the_rules(name: str) -> None:
    check(f"sketches_cuda_{name}", describe(policy(WORKLOADS[name](), split_reduction=0)))


@pytest.mark.parametrize("name", ["matmul_relu", "conv2d_bn_relu", "norm"])
def test_sketches_for_mali(name: str) -> None:
    check(f"sketches_mali_{name}", describe(policy(WORKLOADS[name](), MALI)))


def test_a_reduction_cut_for_blocks_and_threads() -> None:
    """Our own rule: it goes beside those of the paper, and only where results are few."""
    few = policy(C.norm(1, 128))
    check("sketches_cuda_ours_norm", describe(few).split("\nsketch 1")[0].rstrip())
    assert len(few.generate_sketches()) == 3
    assert len(policy(C.norm(1, 128), split_reduction=0).generate_sketches()) == 2
    assert len(policy(C.norm(64, 128)).generate_sketches()) == 2
    assert len(policy(C.norm(1, 64)).generate_sketches()) == 2


def test_order_of_the_rules() -> None:
    names = [r.name for r in GPU_RULES if r.name != "SplitReductionGPU"]
    assert names == [
        "AddCacheRead", "SpecialComputeLocationGPU", "AlwaysInline",
        "SimplifyComputeWithConstTensor", "CrossThreadReduction", "AddCacheWrite",
        "MultiLevelTilingWithFusion", "MultiLevelTiling", "SkipStage",
    ]  # fmt: skip
    assert [r.name for r in MALI_RULES] == [
        "AlwaysInline", "SimplifyComputeWithConstTensor", "AddRfactor", "AddCacheWrite",
        "MultiLevelTilingWithFusion", "MultiLevelTiling", "SkipStage",
    ]  # fmt: skip


def test_two_products_in_a_row() -> None:
    """The first product is read through shared memory, so it gets a copy to be fused with."""
    a, b, c = C.matmul(64, 64, 64)
    w = te.placeholder((64, 64), name="W")
    k = te.reduce_axis((0, 64), "k2")
    d = te.compute((64, 64), lambda i, j: te.sum(c[i, k] * w[k, j], axis=k), name="D")
    found = policy([a, b, w, d])
    (sketch,) = found.generate_sketches()
    kinds = [row[0] for row in sketch.rows]
    assert kinds.count("CHR") == 4 and kinds.count("CHW") == 2
    assert kinds.count("CA") == 6


def test_an_input_of_two_readers_is_not_copied() -> None:
    a = te.placeholder((64, 64), name="A")
    w, v = te.placeholder((64, 64), name="W"), te.placeholder((64, 64), name="V")
    k, l = te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 64), "l")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="C")
    d = te.compute((64, 64), lambda i, j: te.sum(a[i, l] * v[l, j], axis=l), name="D")
    e = te.compute((64, 64), lambda i, j: c[i, j] + d[i, j], name="E")
    (sketch,) = policy([a, w, v, e]).generate_sketches()
    copied = {s.op.name for s in sketch.live_stages if s.scope == "shared"}
    assert copied == {"W.shared", "V.shared"}


def winograd_like() -> list[Any]:
    """A transform by constants of what an element-wise stage gives."""
    x = te.placeholder((64, 64), name="X")
    p = te.compute((64, 64), lambda i, j: x[i, j] * 2.0, name="scaled")
    g = te.compute((4, 4), lambda i, j: tir.Select(i == j, tir.const(1.0), 0.0), name="G")
    r = te.reduce_axis((0, 4), "r")
    out = te.compute(
        (64, 16, 4),
        lambda i, j, e: te.sum(p[i, j * 4 + r] * g[r, e], axis=r),
        name="out",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["e", "r"]},
    )
    return [x, out]


def test_what_feeds_constant_tensors_is_computed_beside_them() -> None:
    sketch = policy(winograd_like()).generate_sketches()[0]
    stage = next(s for s in sketch.live_stages if s.op.name == "scaled")
    assert stage.attach_stage is not None and stage.attach_stage.op.name == "out"
    leaves = stage.attach_stage.leaf_iter_vars
    place = next(n for n, a in enumerate(leaves) if a is stage.attach_ivar)
    assert leaves[place + 1].var.name == "e"


@pytest.mark.parametrize("target", ["cuda", "opencl", MALI])
@pytest.mark.parametrize("name", ["matmul_relu", "depthwise", "tbs", "softmax"])
def test_samples_keep_to_the_limits(name: str, target: str) -> None:
    found = policy(WORKLOADS[name](), target)
    hw = found.hardware
    for number, space in enumerate(found.population.spaces):
        rows = space.sample(100, np.random.default_rng(0))
        assert len(rows) == 100 and found.population.allowed(number, rows).all()
        for row in rows[:3]:
            state = found.population.close(Candidate(number, row))
            lowered = lower(state.schedule, found.task.compute_dag.tensors)
            assert verify_gpu_code(
                lowered,
                max_threads_per_block=hw.max_threads_per_block,
                max_shared_memory_per_block=hw.max_shared_memory_per_block,
                max_vthread=hw.max_vthread_extent,
            )
            if target == "cuda" and name in ("matmul_relu", "depthwise"):
                (kernel,) = kernels(lowered)
                assert kernel.threads_per_block >= hw.warp_size


def kernels(lowered: Any) -> list[Any]:
    return [k for f in lowered.functions.values() for k in gpu_usage(f)]


def test_memory_of_blocks_is_that_of_the_lowered_program() -> None:
    """The array check adds up what verify_gpu_code finds."""
    found = policy(C.matmul(64, 64, 64))
    (space,) = found.population.spaces
    assert isinstance(space, GpuSpace)
    rows = space.sample(200, np.random.default_rng(1))
    for row in rows[:8]:
        state = found.population.close(Candidate(0, row))
        (kernel,) = kernels(lower(state.schedule, found.task.compute_dag.tensors))
        own = sum(n for b, n in kernel.local.items() if not b.name.endswith(".acc"))
        limits = space.limits
        keep = limits.shared, limits.local
        limits.shared, limits.local = kernel.shared_bytes, own
        assert limits.allowed(row[None, :]).all()
        limits.shared = kernel.shared_bytes - 1
        assert not limits.allowed(row[None, :]).any()
        limits.shared, limits.local = kernel.shared_bytes, own - 1
        assert not limits.allowed(row[None, :]).any()
        limits.shared, limits.local = keep


def test_candidates_beyond_the_limits_score_minus_infinity() -> None:
    found = policy(C.matmul(1024, 1024, 64))
    (space,) = found.population.spaces
    rows = space.sample(4, np.random.default_rng(0))
    threads = [space.column[row, 1] for row in space.bound.tiled[0].rows]
    virtual = [space.column[row, 0] for row in space.bound.tiled[0].rows]
    rows[0, threads] = 64  # 4096 threads
    rows[1, threads] = 1  # less than a warp
    rows[2, virtual] = 8  # 64 virtual threads
    scores = Scorer(found.population, found.model)(0, rows)
    assert (scores[:3] == -np.inf).all() and np.isfinite(scores[3])


def test_vectors_fill_rows_of_what_they_fetch() -> None:
    found = policy(C.matmul(64, 64, 64))
    (space,) = found.population.spaces
    rows = space.sample(300, np.random.default_rng(0))
    columns = [space.column[f.row, 0] for f in space.bound.fetches]
    assert len(columns) == 2 and {1, 2, 4} == set(rows[:, columns].ravel().tolist())
    for column, place in space.limits.rows_of:
        extents = space.limits.program.run(rows[:, : len(space.sketch.open)])[place]
        assert (extents % rows[:, column] == 0).all()


def test_copies_that_choose_are_fetched_one_by_one() -> None:
    found = policy(C.conv2d_bn_relu(14))
    (space,) = found.population.spaces
    by_name = {
        space.sketch.schedule.by_id[f.ident].op.name: f.row >= 0 for f in space.bound.fetches
    }
    assert by_name == {"pad.shared": False, "W.shared": True}


@pytest.mark.parametrize("name", ["matmul_relu", "softmax", "norm"])
def test_mutation_gives_lengths_that_fit(name: str) -> None:
    found = policy(WORKLOADS[name]())
    rng = np.random.default_rng(0)
    for space in found.population.spaces:
        rows = space.sample(200, rng)
        if not space.groups:
            continue
        for _ in range(3):
            rows = mutated(space, rows, Evolution(unroll=0.1), rng)
        for g in space.groups:
            lengths = rows[:, g.start : g.stop]
            if g.options:
                assert set(lengths.ravel().tolist()) <= set(g.options)
            else:
                assert (g.extent % lengths.prod(axis=1) == 0).all()


def test_evolution_ends_with_programs_that_can_run() -> None:
    found = policy(C.matmul(256, 256, 256))
    population = found.population
    start = [s.sample(64, np.random.default_rng(0)) for s in population.spaces]
    how = Evolution(population=256, generations=3, unroll=0.1)
    best, scored = evolve(
        population.spaces, start, Scorer(population, found.model), how, 32, set(), found.rng
    )
    assert len(best) == 32 and scored > 256
    for number, row, score in best:
        assert np.isfinite(score) and population.allowed(number, row[None, :]).all()


def test_features_see_threads() -> None:
    found = policy(C.matmul_relu(128, 128, 128))
    rows = found.population.spaces[0].sample(16, np.random.default_rng(0))
    values, offsets = found.population.features(0, rows)
    assert np.isfinite(values).all() and (np.diff(offsets) == 4).all()
    threads = [found.population.spaces[0].column[r, 1] for r in (0, 1)]
    assert (values[:, PLACE["is_gpu"]] == 1).all()
    per_block = np.repeat(rows[:, threads].prod(axis=1), 4)
    np.testing.assert_allclose(values[:, PLACE["threadIdx.x_len"]], np.log2(per_block + 1.0), 1e-5)


@pytest.mark.parametrize("name", ["conv2d_bn_relu", "softmax", "norm"])
def test_recorded_candidates_are_recognised(name: str) -> None:
    found = policy(WORKLOADS[name]())
    for state in found.sample_initial_population(6):
        again = found.recognise(state.rows)
        assert again is not None and again.key == state.candidate.key


def test_structures_have_levels_for_threads() -> None:
    with pytest.raises(TilewrightError, match="at least four S and one R"):
        policy(C.matmul(64, 64, 64), gpu_multi_level_tiling_structure="SSRSR")
    found = policy(C.matmul(64, 64, 64), gpu_multi_level_tiling_structure="SSSRS")
    assert len(found.sample_initial_population(2)) == 2


def test_a_device_of_few_threads() -> None:
    task = auto_scheduler.SearchTask(
        compute_dag=auto_scheduler.ComputeDAG(C.matmul(61, 7, 12)),
        target="cuda",
        hardware_params=auto_scheduler.HardwareParams(
            max_threads_per_block=16, warp_size=32, target="cuda"
        ),
    )
    found = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=0, verbose=0)
    assert len(found.sample_initial_population(4)) == 4


def test_choice_without_measurements() -> None:
    """The library's schedule; of sketches, blocks for a whole device, at least a warp of threads,
    several elements in registers."""
    task = auto_scheduler.SearchTask(
        compute_dag=auto_scheduler.ComputeDAG(C.matmul(1024, 1024, 1024)), target="cuda"
    )
    found = auto_scheduler.SketchPolicy(task, None, seed=0, verbose=0)
    first = found.best_unmeasured()
    assert first is not None and first.is_default
    sketches = {"default_schedule_first": False}
    found = auto_scheduler.SketchPolicy(task, None, sketches, seed=0, verbose=0)
    state = found.best_unmeasured()
    assert state is not None and not getattr(found.model, "trained", False)
    (space,) = (as_a(GpuSpace, space) for space in found.population.spaces)
    row = state.candidate.row[None, :]
    (tiled,) = space.bound.tiled
    threads, virtual = (int(space.limits.product(tiled, level, row)[0]) for level in (1, 0))
    elements = np.prod([row[0, space.column[r, level]] for r in tiled.rows for level in (2, 3)])
    blocks = 1024 * 1024 // (threads * virtual * int(elements))
    assert threads >= 32 and virtual * elements >= 4 and blocks >= 64


def test_estimates_prefer_more_threads() -> None:
    found = policy(C.norm(1, 1024))
    split, whole, serial = (
        estimate(space, space.sample(20, np.random.default_rng(0))).max()
        for space in found.population.spaces
    )
    assert split > whole > serial
