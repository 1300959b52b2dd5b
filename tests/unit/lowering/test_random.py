"""Every pass, and the pipeline, keeps the value of random tiled, guarded, reduced programs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.lowering.evaluator import run
from tests.unit.lowering.random_programs import Program
from tilewright.loopir import stmt as S
from tilewright.loopir.verify import verify
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import PHASES, run_pipeline

PASSES = [p for phase in PHASES for p in phase]
BLOCKS = [range(i, i + 5) for i in range(0, 40, 5)]


def same(program: Program, want: dict[str, np.ndarray], func: S.PrimFunc, stage: str) -> None:
    got = run(func, program.arrays, program.scalars)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=f"{stage}\n{func}")


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_each_pass(seeds: range) -> None:
    for seed in seeds:
        program = Program(seed)
        want = run(program.func, program.arrays, program.scalars)
        func = program.func
        options = LowerOptions(verify=True, unroll_max_step=8 * (seed % 2))
        for one in PASSES:
            new = one(func, options)
            verify(new, after=one.__name__)
            if new is not func:
                same(program, want, new, f"seed {seed}, {one.__name__}")
            func = new


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_options(seeds: range) -> None:
    for seed in range(seeds.start + 1000, seeds.stop + 1000):
        program = Program(seed)
        want = run(program.func, program.arrays, program.scalars)
        options = LowerOptions(
            verify=True,
            simple_mode=seed % 5 == 0,
            partition_const_loop=seed % 3 == 0,
            disable_vectorize=seed % 7 == 0,
            disable_storage_rewrite=seed % 4 == 0,
            bound_checks=seed % 6 == 0,
            unroll_max_extent=3 * (seed % 2),
        )
        same(program, want, run_pipeline(program.func, options), f"seed {seed}")


@pytest.mark.parametrize("index", range(len(PASSES)))
def test_pipeline_without_one_pass(index: int) -> None:
    """No pass is needed by the others for right values, but for the flat form itself."""
    name = PASSES[index].__name__
    if name == "flatten_buffers":
        return
    for seed in range(2000 + index, 2003 + index):
        program = Program(seed)
        want = run(program.func, program.arrays, program.scalars)
        options = LowerOptions(verify=True, disabled_pass=(name,))
        same(program, want, run_pipeline(program.func, options), f"seed {seed} without {name}")


def test_program_generator_covers_the_passes() -> None:
    """Guards, reductions, symbols, private stages and all loop kinds do occur."""
    texts = [str(Program(seed).func) for seed in range(60)]
    for word in ("T.likely", "T.vectorized", "T.unroll", "T.parallel", "T.allocate", "T.max", "n5"):
        assert sum(word in t for t in texts) >= 6, word
