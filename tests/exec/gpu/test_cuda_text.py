"""The text of CUDA kernels, as C++ on the CPU, gives what it should: simt runs their loop IR."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.cuda_text import Program, kernels_as_text
from tests.cuda_text.asm import without_asm
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import problem
from tilewright import te, tir, topi
from tilewright.base.dtype import parse

ARCHS = ("sm_75", "sm_80")
SHARE = 8
"""Of the corpus, each architecture runs another eighth; `python -m tests.cuda_text` runs all."""
NAMES = sorted(n for n in CASES if "wmma" not in n)


def run(name: str, arch: str) -> None:
    p = problem(name)
    target = tw.Target(f"cuda -arch={arch}")
    with kernels_as_text(arch) as ran:
        arrays = p.arrays(tw.simt(0))
        p.build(target)(*arrays)
        p.check(arrays)
    assert ran


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        (arch, name)
        for k, arch in enumerate(ARCHS)
        for name in NAMES[k::SHARE]
        if problem(name).case.runs_on(arch)
    ],
)
def test_a_case_of_the_corpus(arch: str, name: str) -> None:
    run(name, arch)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86"])
def test_products_on_tensor_cores(arch: str, dtype: str) -> None:
    """Default schedules: asynchronous copies, ldmatrix and mma, and what stands for them before."""
    if (arch, dtype) == ("sm_75", "bfloat16"):
        arch = "sm_80"
    a, b = te.placeholder((70, 96), dtype, "a"), te.placeholder((72, 96), dtype, "b")
    sums = "int32" if dtype == "int8" else "float32"
    c = topi.nn.dense(a, b, None, sums)
    target = tw.Target(f"cuda -arch={arch}")
    with kernels_as_text(arch) as ran, target:
        f = tw.build(topi.default_schedule(c, target), [a, b, c], target)
        assert "mma" in f.imported_modules[0].get_source()
        rng = np.random.default_rng(3)
        kind = parse(dtype).numpy
        x, y = (rng.integers(-4, 5, s).astype(kind) for s in ((70, 96), (72, 96)))
        out = np.zeros((70, 72), sums)
        assert f.run_simt(x, y, out) == {}, "there are no reports: text ran"
    assert ran
    np.testing.assert_array_equal(out, x.astype(np.float64) @ y.astype(np.float64).T)


def test_what_the_text_says_otherwise_is_seen() -> None:
    """As an infinity that is the largest power of two was: loop IR has it right."""
    x = te.placeholder((8,), "float64", "x")
    y = te.compute((8,), lambda i: tir.max(x[i], tir.const(-np.inf, "float64")), name="y")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    source = tw.build(s, [x, y], "cuda -arch=sm_80", name="f").imported_modules[0].get_source()
    given, out = np.full(8, -np.finfo(np.float64).max), np.zeros(8)
    found = re.search(r"\w+\((.*?)\) \{", source[source.index("__global__") :])
    assert found is not None
    by_name = {"x": given, "y": out}
    order = [by_name[p.split()[-1][0]] for p in found[1].split(",")]
    args = [np.array(v.ctypes.data, np.uint64) for v in order]
    for wrong in (False, True):
        text = re.sub(r"-?__longlong_as_double\([^)]*\)", "-1e300", source) if wrong else source
        assert (text != source) == wrong
        Program(text, 800).launch("f_kernel", (1,), (8,), [a.ctypes.data for a in args])
        assert np.array_equal(out, given) != wrong


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("if (threadIdx.x == 0) __syncthreads(); else __syncwarp();", "wait for each other"),
        ("for (;;) if (threadIdx.x == 3) __trap(); else __syncthreads();", "a trap"),
    ],
)
def test_faults_of_threads_are_told(body: str, text: str) -> None:
    program = Program(f'extern "C" __global__ void f() {{\n{body}\n}}\n')
    with pytest.raises(AssertionError, match=text):
        program.launch("f", (2,), (64,), [])


def test_instructions_that_no_function_stands_for_are_named() -> None:
    with pytest.raises(NotImplementedError, match=r"the instruction 'wgmma\.fence"):
        without_asm('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')
    assert without_asm('asm volatile("cp.async.commit_group;" ::: "memory");') == ";"
