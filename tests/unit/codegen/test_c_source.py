"""C source of built functions: compiles without warnings, gives what the built function gives."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.codegen.device_kit import compile_c
from tilewright import te
from tilewright.base.errors import CompileError
from tilewright.codegen.source import generate, prepare_kernel
from tilewright.target.target import Target


def pointer(x: np.ndarray) -> Any:
    return ctypes.c_void_p(x.ctypes.data)


def test_a_function_with_symbolic_sizes(tmp_path: Path) -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(te.exp(A[i, k]), axis=k), name="B")
    C = te.compute((n,), lambda i: te.tanh(B[i]) + i // 3, name="C")
    s = te.create_schedule(C.op)
    f = tw.build(s, [A, C], "llvm", name="rows")
    text = f.get_source("c")
    assert "int32_t rows(float* restrict A, float* restrict C, int32_t n, int32_t m" in text
    library = compile_c(text, tmp_path)
    a = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")
    c = np.zeros(7, "float32")
    assert library.rows(pointer(a), pointer(c), 7, 5, 5, 1, 1) == 0
    want = tw.nd.array(np.zeros(7, "float32"))
    f(tw.nd.array(a), want)
    np.testing.assert_allclose(c, want.numpy(), rtol=1e-5)


def test_a_tiled_vectorised_matmul(tmp_path: Path) -> None:
    n = 32
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    xo, yo, _, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 8)
    s[CC].compute_at(s[C], yo)
    ko, ki = s[CC].split(s[CC].op.reduce_axis[0], 4)
    xc, yc = s[CC].op.axis
    s[CC].reorder(ko, xc, ki, yc)
    s[CC].unroll(ki)
    s[CC].vectorize(yc)
    s[C].vectorize(yi)
    s[C].parallel(xo)
    f = tw.build(s, [A, B, C], "llvm", name="matmul")
    library = compile_c(f.get_source("c"), tmp_path)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, n)).astype("float32") for _ in range(2))
    c = np.zeros((n, n), "float32")
    assert library.matmul(pointer(a), pointer(b), pointer(c)) == 0
    np.testing.assert_array_equal(c, a @ b)


def test_gpu_threads_have_no_c() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    func = tw.lower(s, [A, B], name="f")["f"]
    target = Target("c")
    with pytest.raises(CompileError, match="bound to a GPU thread, but the target is a CPU"):
        generate({"f": prepare_kernel(func, target)}, target)
