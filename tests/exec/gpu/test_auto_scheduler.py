"""Candidates of the search for GPUs, on all operators of Ansor's suite in small shapes."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.ops_suite import Case, small_cases
from tests.exec.gpu.kit import ARCHS
from tests.narrow import some
from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler, lower
from tilewright.auto_scheduler.population import Candidate
from tilewright.auto_scheduler.transform import LayoutRewriteOption, apply_state
from tilewright.interp.te_bound import te_eval_bound
from tilewright.rt.drivers import nvrtc
from tilewright.tir.analysis import verify_gpu_code

OPENCL = tw.opencl(0)
CASES = {c.name: c for c in small_cases()}
CANDIDATES = 10
MALI = "opencl -device=mali"
needs_opencl = pytest.mark.skipif(
    not OPENCL.exist, reason=f"no OpenCL device: {OPENCL.why_missing()}"
)


class Searched:
    """A case with data, what has to come out, and a policy that searches it for a target."""

    def __init__(self, case: Case, target: Any) -> None:
        self.case, self.target = case, tw.Target(target)
        dag = auto_scheduler.ComputeDAG(case.func(*case.args))
        self.task = auto_scheduler.SearchTask(compute_dag=dag, target=self.target)
        self.tensors = dag.tensors
        self.inputs = case.inputs()
        feeds = dict(zip(self.tensors, self.inputs))
        ((self.value, self.limit),) = te_eval_bound([self.tensors[-1]], feeds)
        model = auto_scheduler.RandomModel()
        self.policy = auto_scheduler.SketchPolicy(self.task, model, seed=11, verbose=0)

    @cached_property
    def candidates(self) -> list[Any]:
        """At least one of each sketch."""
        population = self.policy.population
        share = -(-CANDIDATES // len(population.spaces))
        rng = np.random.default_rng(5)
        return [
            population.close(Candidate(number, row))
            for number, space in enumerate(population.spaces)
            for row in space.sample(share, rng)
        ]

    def empty(self) -> Any:
        return np.full(self.value.shape, np.nan, np.float32)

    def check(self, got: Any, state: Any) -> None:
        off = np.abs(got.astype(np.float64) - self.value)
        assert (off <= self.limit).all(), f"{self.case.name}: {np.nanmax(off)} off\n{state}"


@cache
def searched(name: str, target: str) -> Searched:
    return Searched(CASES[name], target)


@pytest.mark.parametrize("name", CASES)
def test_candidates_in_simt(name: str) -> None:
    """They keep to the device's limits, and their threads give what the tensors say."""
    s = searched(name, "cuda")
    states = s.candidates
    assert len(states) >= CANDIDATES
    hw = some(s.task.hardware_params)
    for state in states:
        assert verify_gpu_code(
            lower(state.schedule, s.tensors),
            max_threads_per_block=hw.max_threads_per_block,
            max_shared_memory_per_block=hw.max_shared_memory_per_block,
            max_local_memory_per_block=hw.max_local_memory_per_block,
            max_vthread=hw.max_vthread_extent,
        )
        out = s.empty()
        built(name, state).run_simt(*s.inputs, out)
        s.check(out, state)


_built: dict[int, Any] = {}


def built(name: str, state: Any) -> Any:
    """The candidate's module for CUDA, made once."""
    found = _built.get(id(state))
    if found is None:
        tensors = searched(name, "cuda").tensors
        found = _built[id(state)] = tw.build(state.schedule, tensors, "cuda")
    return found


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.parametrize("name", CASES)
def test_candidates_compile(name: str) -> None:
    for number, state in enumerate(searched(name, "cuda").candidates):
        text = built(name, state).imported_modules[0].get_source()
        _, log = nvrtc.compile_cuda(text, ARCHS[number % len(ARCHS)])
        assert log == "", f"{log}\n{text}"


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize(
    "name", ["C2D 7,9,6,16,3,2,1", "GMM 7,5,11 B const", "ConvLayer 6,6,5,16,3,2,1"]
)
def test_candidates_for_mali_in_simt(name: str, option: int) -> None:
    """Vectors, no shared memory, weights in the order of the tiles."""
    s = searched(name, MALI)
    for state in s.candidates[:4]:
        sch, args, moved = apply_state(state, LayoutRewriteOption(option))
        arrays = list(s.inputs)
        for m in moved:
            arrays[m.index] = m.apply(arrays[m.index])
        module = tw.build(sch, args, MALI)
        assert "__local" not in module.imported_modules[0].get_source()
        out = s.empty()
        module.run_simt(*arrays, out)
        s.check(out, state)


@needs_opencl
@pytest.mark.parametrize("target", ["opencl", MALI])
@pytest.mark.parametrize("name", ["GMM 24,16,20", "C2D 7,9,6,16,3,2,1", "NRM 16,24", "TBS 12,2,8"])
def test_candidates_on_opencl(name: str, target: str) -> None:
    s = searched(name, target)
    fitted = s.target.fitted_to(OPENCL)
    for state in s.candidates[::4]:
        out = tw.nd.array(s.empty(), OPENCL)
        arrays = [tw.nd.array(a, OPENCL) for a in s.inputs]
        tw.build(state.schedule, s.tensors, fitted)(*arrays, out)
        s.check(out.numpy(), state)


@needs_opencl
def test_tuning_for_opencl(tmp_path: Path) -> None:
    """Workers build, run, check and time candidates on the device; the best can be applied."""
    target = tw.Target("opencl").fitted_to(OPENCL)
    dag = auto_scheduler.ComputeDAG(C.matmul_relu(16, 16, 16))
    task = auto_scheduler.SearchTask(compute_dag=dag, target=target)
    file = str(tmp_path / "records.json")
    options = auto_scheduler.TuningOptions(
        num_measure_trials=6,
        num_measures_per_round=3,
        builder=auto_scheduler.LocalBuilder(timeout=120),
        runner=auto_scheduler.LocalRunner(timeout=60, min_repeat_ms=10, check_correctness=True),
        measure_callbacks=[auto_scheduler.RecordToFile(file)],
        verbose=0,
    )
    task.tune(options)
    results = [result for _, result in auto_scheduler.load_records(file)]
    assert len(results) == 6
    assert all(r.ok for r in results), [r.error_msg for r in results]
    assert "__kernel" in task.print_best(file, "opencl")
    sch, args = task.apply_best(file)
    a, b = (np.random.default_rng(n).random((16, 16), np.float32) - 0.5 for n in (1, 2))
    out = tw.nd.empty((16, 16), "float32", OPENCL)
    tw.build(sch, args, target)(tw.nd.array(a, OPENCL), tw.nd.array(b, OPENCL), out)
    np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
