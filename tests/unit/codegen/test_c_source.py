"""C source of built functions: compiles without warnings, gives what the built function gives."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.codegen.device_kit import compile_c, source
from tilewright import te
from tilewright.base.errors import CompileError
from tilewright.codegen.source import generate, prepare_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import op, runtime_calls
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
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


def test_operations_of_users_own_passes(tmp_path: Path) -> None:
    """Addresses in bytes, marks for profilers, conditions of all threads, checked calls."""
    data = decl_buffer((8,), "int32", "data")
    shifted = E.Var("shifted", "handle")
    view = decl_buffer((8,), "int32", "view", data=shifted)
    i = E.Var("i", "int32")
    size = op.call_extern("int32", "abs", E.BufferLoad(data, [E.const(0)]))
    keeps = runtime_calls.tvm_thread_invariant(E.LT(i, 3))
    double = S.BufferStore(view, E.BufferLoad(view, [i]) * 2, [i])
    body = S.seq(
        S.Evaluate(runtime_calls.start_profile_intrinsic(1)),
        S.Evaluate(runtime_calls.tvm_check_return(3, -5, size)),
        S.For(i, 0, 5, 0, S.IfThenElse(keeps, double)),
        S.Evaluate(runtime_calls.end_profile_intrinsic(1)),
    )
    moved = S.LetStmt(shifted, runtime_calls.handle_add_byte_offset(data.data, 8), body)
    func = S.PrimFunc([data.data], moved, None, {}, {"global_symbol": "f"})
    library = compile_c("#include <stdlib.h>\n" + source({"f": func}, "c"), tmp_path)
    numbers = np.array([-3, 1, 2, 3, 4, 5, 6, 7], np.int32)
    assert library.f(pointer(numbers)) == 0
    assert numbers.tolist() == [-3, 1, 4, 6, 8, 5, 6, 7]
    numbers[0] = 9
    assert library.f(pointer(numbers)) == -5 and numbers[2] == 4
