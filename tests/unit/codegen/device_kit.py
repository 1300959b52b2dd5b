"""Kernels by hand for OpenCL and CUDA: many element-wise cases in one source, run on a device of
pyopencl's, compiled with NVRTC, and compared with the interpreter of the loop IR."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
    access = tuple(
        "scalar" if p.dtype != "handle" else "r" if p in reads else "rw" for p in params
    )
    attrs = {"global_symbol": name, "tir.noalias": True, "tir.kernel_params_access": access}
    return S.PrimFunc(params, body, {}, attrs)


@dataclass
class Case:
    """out[i] = build(a[i], b[i], ...), by vectors of `lanes`."""

    name: str
    func: S.PrimFunc
    buffers: list[Buffer]
    arrays: list[np.ndarray]
    groups: int

    def expected(self) -> np.ndarray:
        params = [E.Var(b.name, "handle") for b in self.buffers]
        func = S.PrimFunc(params, self.func.body, dict(zip(params, self.buffers)))
        out = np.zeros_like(self.arrays[-1])
        tir_eval(func, *self.arrays[:-1], out)
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
    return Case(name, func, buffers, arrays, groups)


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
    unit = np.spacing(np.abs(want[~nan])).astype(np.float64)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    error = np.abs(a - b)[finite] / unit[finite]
    assert error.size == 0 or error.max() <= ulp, f"{error.max()} ulp"
