"""Cross-compiled AArch64 objects: emitted everywhere, run under qemu-user where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.codegen.llvm import backend
from tilewright.codegen.llvm.module import generate
from tilewright.driver.prepare import prepare
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.rt.native import compile_ir
from tilewright.rt.pool import pool_ir
from tilewright.target.target import Target

TARGETS = [
    "llvm -mtriple=aarch64-linux-gnu",
    "llvm -mtriple=aarch64-linux-gnu -mattr=+fullfp16",
]
TOOLS = ("qemu-aarch64", "aarch64-linux-gnu-gcc")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
int f(void **slots);
int tw_num_threads = 3;
void *tw_kept;
void **tw_workspace = &tw_kept;
int tw_parallel(int (*task)(void *, long, long, int), void *context, long steps, int threads,
                int homes, double *site) {
  int code = 0;
  for (int t = 0; t < threads && !code; ++t)
    code = task(context, steps * t / threads, steps * (t + 1) / threads, t);
  return code;
}
int main(int argc, char **argv) {
  void *slots[64];
  for (int i = 0; i < (argc - 1) / 2; ++i) {
    long size = atol(argv[2 * i + 2]);
    FILE *in = fopen(argv[2 * i + 1], "rb");
    slots[i] = aligned_alloc(64, (size + 63) / 64 * 64);
    if (fread(slots[i], 1, size, in) != size) return 2;
    fclose(in);
  }
  int status = f(slots);
  for (int i = 0; i < (argc - 1) / 2; ++i) {
    FILE *out = fopen(argv[2 * i + 1], "wb");
    fwrite(slots[i], 1, atol(argv[2 * i + 2]), out);
    fclose(out);
  }
  return status;
}
"""


def object_code(func: S.PrimFunc, target: str) -> bytes:
    chosen = Target(target)
    generated = generate({"f": prepare(func, chosen)}, chosen)
    return backend.emit_object(generated.text, chosen)


def run(func: S.PrimFunc, target: str, arrays: list[np.ndarray], folder: Path) -> int:
    """Link with MAIN, run under qemu; the arrays get what the program wrote."""
    missing = [t for t in TOOLS if shutil.which(t) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (Debian: qemu-user gcc-aarch64-linux-gnu)")
    (folder / "f.o").write_bytes(object_code(func, target))
    (folder / "main.c").write_text(MAIN)
    compiler = [TOOLS[1], "-O1", "-static", "-o", "prog", "main.c", "f.o", "-lm"]
    subprocess.run(compiler, cwd=folder, check=True)
    args = []
    for i, array in enumerate(arrays):
        array.tofile(folder / f"a{i}")
        args += [f"a{i}", str(array.nbytes)]
    status = subprocess.run([TOOLS[0], "-cpu", "max", "./prog", *args], cwd=folder).returncode
    for i, array in enumerate(arrays):
        array[...] = np.fromfile(folder / f"a{i}", array.dtype).reshape(array.shape)
    return status


POOL_MAIN = """
#include <stdio.h>
#include <string.h>
int tw_parallel(int (*)(void *, long, long, int), void *, long, int, int, double *);
void tw_reset(void);
void tw_pool_state(double *);
static int task(void *hits, long begin, long end, int thread) {
  for (long i = begin; i < end; ++i) {
    for (volatile int k = 0; k < 50; ++k) ;
    ++((int *)hits)[i];
  }
  return 0;
}
int main(void) {
  tw_reset();
  for (int k = 0; k < 3000; ++k) {
    int hits[64], steps = k % 64 + 1;
    double time = 0;
    memset(hits, 0, sizeof hits);
    if (tw_parallel(task, hits, steps, 1 + k % 4, k / 9 % 2, &time)) return 1;
    for (int i = 0; i < 64; ++i) if (hits[i] != (i < steps)) return 2;
  }
  double state[4];
  tw_pool_state(state);
  return state[2] == 3 ? 0 : 3;
}
"""


def test_the_pool_of_threads(tmp_path: Path) -> None:
    missing = [t for t in TOOLS if shutil.which(t) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (Debian: qemu-user gcc-aarch64-linux-gnu)")
    text = 'target triple = "aarch64-linux-gnu"\n' + pool_ir("aarch64", "Linux")
    (tmp_path / "pool.o").write_bytes(compile_ir(text, "aarch64-linux-gnu"))
    (tmp_path / "main.c").write_text(POOL_MAIN)
    command = [TOOLS[1], "-O1", "-static", "-pthread", "-o", "prog", "main.c", "pool.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = [TOOLS[0], "-cpu", "max", "./prog"]
    assert subprocess.run(command, cwd=tmp_path, timeout=120).returncode == 0


def program(arrays: list[np.ndarray], build: Any) -> S.PrimFunc:
    params = [E.Var(f"p{i}", "handle") for i in range(len(arrays))]
    buffers = [decl_buffer((a.size,), a.dtype.name, f"b{i}") for i, a in enumerate(arrays)]
    return S.PrimFunc(
        params, build(*buffers), None, dict(zip(params, buffers)), {"tir.noalias": True}
    )


def test_object_files_are_for_aarch64() -> None:
    x = np.zeros(16, np.float32)
    func = program([x], lambda b: S.BufferStore(b, E.const(1.0), [0]))
    for target in TARGETS:
        data = object_code(func, target)
        assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == 183


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int32", "float64"])
def test_arithmetic_and_conversions(target: str, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    kind = parse(dtype).numpy
    a, b = (rng.normal(0, 30, 64).astype(kind) for _ in range(2))
    kinds = ["float32", "int8", "int32", "uint16", "float64", "float16", "bfloat16"]
    outs = [np.zeros(64, kind) for _ in range(4)] + [np.zeros(64, parse(k).numpy) for k in kinds]

    def build(x: Any, y: Any, *results: Any) -> S.Stmt:
        i = E.Var("i", "int32")
        at = E.Ramp(i * 8, 1, 8)
        u, v = E.BufferLoad(x, [at]), E.BufferLoad(y, [at])
        values: list[E.PrimExpr] = [E.Add(u, v), E.Mul(u, v), E.Min(u, v), E.Max(u, v)]
        values += [E.Cast(f"{k}x8", u) if k != dtype else u for k in kinds]
        stores = [S.BufferStore(r, value, [at]) for r, value in zip(results, values)]
        return S.For(i, 0, 8, 0, S.seq(stores))

    if parse(dtype).is_float:
        a[3], b[5] = np.nan, np.nan
    assert run(program([a, b, *outs], build), target, [a, b, *outs], tmp_path) == 0
    with np.errstate(invalid="ignore", over="ignore"):
        wants: list[Any] = [a + b, a * b, np.minimum(a, b), np.maximum(a, b)]
        for k in kinds:
            t = parse(k)
            if t.is_integer and parse(dtype).is_float:
                exact = np.nan_to_num(np.trunc(a.astype(float)))
                wants.append(np.clip(exact, t.min_value, t.max_value).astype(t.numpy))
            else:
                wants.append(a.astype(t.numpy))
        for got, want in zip(outs, wants):
            np.testing.assert_array_equal(got.astype(float), np.asarray(want).astype(float))


@pytest.mark.parametrize("target", TARGETS)
def test_predicates_gathers_and_threads(target: str, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    order = np.random.default_rng(2).permutation(64).astype(np.int32)
    out, tail = np.zeros(64, np.float32), np.full(64, -1, np.float32)

    def build(a: Any, idx: Any, b: Any, c: Any) -> S.Stmt:
        i = E.Var("i", "int32")
        at = E.Ramp(i * 8, 1, 8)
        where = E.LT(at, E.Broadcast(E.const(50), 8))
        value = E.BufferLoad(a, [E.BufferLoad(idx, [at])])
        tmp = decl_buffer((50000,), "float32", "tmp")
        keep = S.BufferStore(tmp, value, [E.Ramp(0, 1, 8)])
        use = E.BufferLoad(tmp, [E.Ramp(0, 1, 8)])
        stores = S.seq(keep, S.BufferStore(b, use, [at]), S.BufferStore(c, use, [at], where))
        return S.For(i, 0, 8, S.ForKind.PARALLEL, S.Allocate(tmp, stores))

    arrays = [x, order, out, tail]
    assert run(program(arrays, build), target, arrays, tmp_path) == 0
    want = np.arange(64, dtype=np.float32)[order]
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(tail, np.where(np.arange(64) < 50, want, -1))


@pytest.mark.parametrize("target", TARGETS)
def test_math(target: str, tmp_path: Path) -> None:
    names = ["exp", "log", "tanh", "sin", "sqrt", "sigmoid"]
    x = np.random.default_rng(3).uniform(0.1, 5, 64).astype(np.float32)
    half = x.astype(np.float16)
    outs = [np.zeros(64, np.float32) for _ in names] + [np.zeros(64, np.float16) for _ in names]

    def build(a: Any, h: Any, *results: Any) -> S.Stmt:
        at = [E.Ramp(0, 1, 64)]
        u, v = E.BufferLoad(a, at), E.BufferLoad(h, at)
        values = [getattr(op, n)(w) for w in (u, v) for n in names]
        return S.seq([S.BufferStore(r, value, at) for r, value in zip(results, values)])

    arrays: list[Any] = [x, half, *outs]
    assert run(program(arrays, build), target, arrays, tmp_path) == 0
    for k, got in enumerate(outs):
        name = names[k % len(names)]
        source = (x if k < len(names) else half).astype(np.float64)
        want = 1 / (1 + np.exp(-source)) if name == "sigmoid" else getattr(np, name)(source)
        rtol = 1e-6 if k < len(names) else 2e-3
        np.testing.assert_allclose(got.astype(float), want, rtol=rtol, err_msg=name)


def test_checks_return_their_number(tmp_path: Path) -> None:
    x = np.zeros(4, np.int32)
    func = program(
        [x], lambda b: S.AssertStmt(E.BufferLoad(b, [0]) > 0, "positive", S.BufferStore(b, 1, [1]))
    )
    assert run(func, TARGETS[0], [x], tmp_path) == 1
    assert not x.any()
