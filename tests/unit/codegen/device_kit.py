"""Kernels by hand for OpenCL and CUDA: many element-wise cases in one source, run on a device of
pyopencl's, compiled with NVRTC, and compared with the interpreter of the loop IR."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.codegen.source import generate, prepare_kernel
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.loopir.iter import IterVar
from tilewright.rt.drivers import nvrtc
from tilewright.target.target import Target

ARCHS = ("sm_75", "sm_80", "sm_90")


def thread(tag: str, extent: Any) -> tuple[E.Var, Callable[[S.Stmt], S.Stmt]]:
    """A thread axis: its variable, and what puts its extent around a body."""
    var = E.Var(tag.replace(".", "_"), "int32")
    axis = IterVar((0, extent), var, IterVar.ThreadIndex, tag)
    return var, lambda body: S.AttrStmt(axis, "thread_extent", extent, body)


def kernel(
    name: str, body: S.Stmt, params: Sequence[E.Var], reads: Sequence[E.Var] = ()
) -> S.PrimFunc:
    """A kernel as split_host_device makes it."""
    access = tuple("scalar" if p.dtype != "handle" else "r" if p in reads else "rw" for p in params)
    attrs = {"global_symbol": name, "tir.noalias": True, "tir.kernel_params_access": access}
    return S.PrimFunc(params, body, None, {}, attrs)


@dataclass
class Case:
    """out[i] = build(a[i], b[i], ...), by vectors of `lanes`."""

    name: str
    func: S.PrimFunc
    buffers: list[Buffer]
    arrays: list[np.ndarray]
    groups: int
    loop: S.PrimFunc

    def expected(self) -> np.ndarray:
        out = np.zeros_like(self.arrays[-1])
        tir_eval(self.loop, *self.arrays[:-1], out)
        return out


def case(
    name: str, build: Callable[..., Any], inputs: Sequence[np.ndarray], out: str, lanes: int = 1
) -> Case:
    """A case over flat arrays of equal size, a multiple of 4 * lanes."""
    size = len(inputs[0])
    groups = size // (4 * lanes)
    dtypes = ["bfloat16" if x.dtype.name == "bfloat16" else x.dtype.name for x in inputs]
    buffers = [decl_buffer((size,), d, f"x{i}") for i, d in enumerate([*dtypes, out])]
    block, around_block = thread("blockIdx.x", groups)
    one, around_one = thread("threadIdx.x", 4)
    i = (block * 4 + one) * lanes
    at = i if lanes == 1 else E.Ramp(i, 1, lanes)
    value = build(*(E.BufferLoad(b, [at]) for b in buffers[:-1]))
    body = around_block(around_one(S.BufferStore(buffers[-1], value, [at])))
    data = [b.data for b in buffers]
    func = kernel(name, body, data, data[:-1])
    arrays = [*inputs, np.zeros(size, parse(out).numpy)]
    return Case(name, func, buffers, arrays, groups, _loop(name, build, buffers, size, lanes))


def _loop(
    name: str, build: Callable[..., Any], buffers: list[Buffer], size: int, lanes: int
) -> S.PrimFunc:
    """The same for a CPU."""
    i = E.Var("i", "int32")
    at = i if lanes == 1 else E.Ramp(i * lanes, 1, lanes)
    value = build(*(E.BufferLoad(b, [at]) for b in buffers[:-1]))
    body = S.For(i, 0, size // lanes, S.ForKind.SERIAL, S.BufferStore(buffers[-1], value, [at]))
    params = [E.Var(b.name, "handle") for b in buffers]
    return S.PrimFunc(params, body, None, dict(zip(params, buffers)), {"global_symbol": name})


def source_of(cases: Sequence[Case], target: str) -> str:
    """The source text of all cases' kernels."""
    return source({c.name: c.func for c in cases}, target)


def source(kernels: Mapping[str, S.PrimFunc], target: str) -> str:
    t = Target(target)
    return generate({name: prepare_kernel(k, t) for name, k in kernels.items()}, t)


@cache
def opencl() -> Any:
    """pyopencl with a context and a queue; the test is skipped where there is no device."""
    cl = pytest.importorskip("pyopencl")
    try:
        context = cl.create_some_context(interactive=False)
    except cl.Error as error:
        pytest.skip(f"no OpenCL device: {error}")
    return cl, context, cl.CommandQueue(context)


def run_opencl(cases: Sequence[Case], target: str = "opencl") -> dict[str, np.ndarray]:
    """What each case gives on the device."""
    cl, context, queue = opencl()
    text = source_of(cases, target)
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the driver's log
        program = cl.Program(context, text).build()
    for c in cases:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        memory = [cl.Buffer(context, flags, hostbuf=np.ascontiguousarray(a)) for a in c.arrays]
        getattr(program, c.name)(queue, (c.groups * 4,), (4,), *memory)
        out = np.zeros_like(c.arrays[-1])
        cl.enqueue_copy(queue, out.view(np.uint8), memory[-1])
        results[c.name] = out
    return results


def compile_c(text: str, folder: Path) -> ctypes.CDLL:
    """A shared library of C source; any message of the compiler fails the test."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path, library = folder / "source.c", folder / "source.so"
    path.write_text(text)
    command = [compiler, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command += ["-shared", "-fPIC", str(path), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def run_c(cases: Sequence[Case], folder: Path) -> dict[str, np.ndarray]:
    """What each case gives when compiled by a C compiler."""
    library = compile_c(source({c.name: c.loop for c in cases}, "c"), folder)
    results = {}
    for c in cases:
        out = np.zeros_like(c.arrays[-1])
        arrays = [*c.arrays[:-1], out]
        code = getattr(library, c.name)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))
        assert code == 0
        results[c.name] = out
    return results


def compile_everywhere(text: str, archs: Sequence[str] = ARCHS) -> dict[str, str]:
    """PTX by architecture; any message of the compiler fails the test."""
    if nvrtc.why_missing():
        pytest.skip(nvrtc.why_missing())
    out = {}
    for arch in archs:
        ptx, log = nvrtc.compile_cuda(text, arch)
        assert log == "", f"{arch}: {log}\n{text}"
        out[arch] = ptx.decode()
    return out


def values(dtype: str, seed: int = 0, size: int = 96) -> np.ndarray:
    """Numbers of a type: small ones, any ones, and those at the edges."""
    rng = np.random.default_rng(seed)
    t = parse(dtype)
    if t.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    if t.is_integer:
        info = np.iinfo(dtype)
        least = max(int(info.min), -100)
        small = rng.integers(least, 100, size // 2, dtype=np.int64).astype(dtype)
        edge = [info.min, info.max, info.max - 1, 0, 1, info.max // 2, info.max // 2 + 1, 5]
        count = size - len(small) - len(edge)
        big = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        return np.concatenate([small, big, np.array(edge, dtype)])
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 127.5, -128.5, 255.9]
    edges += [2147483648.0, -2147483649.0, 1e19, -1e19]
    third = size // 3
    wide = rng.normal(size=third) * 10.0 ** rng.uniform(-12, 12, third)
    whole = rng.integers(-70000, 70000, size - 2 * third - len(edges))
    with np.errstate(all="ignore"):
        return np.concatenate([rng.normal(size=third) * 3, wide, whole, edges]).astype(t.numpy)


def same(got: np.ndarray, want: np.ndarray, ulp: float = 0) -> None:
    """Equal bits (NaNs alike), or floats within so many units in the last place."""
    if ulp == 0 or not np.issubdtype(want.dtype, np.floating):
        wide = want.dtype.name == "bfloat16"
        a, b = (x.astype(np.float32) if wide else x for x in (got, want))
        np.testing.assert_array_equal(a, b)
        return
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    a, b = got[~nan].astype(np.float64), want[~nan].astype(np.float64)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    unit = np.spacing(np.abs(want[~nan][finite])).astype(np.float64)
    error = np.abs(a[finite] - b[finite]) / unit
    assert error.size == 0 or error.max() <= ulp, f"{error.max()} ulp"
