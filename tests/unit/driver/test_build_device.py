"""Building for GPUs: host code, kernels, modules of several targets, files. Nothing needs a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.golden import gpu_schedules as gpu
from tests.narrow import as_a, some
from tilewright import te
from tilewright.loopir.module import IRModule
from tilewright.rt.device_module import DeviceFunction
from tilewright.target.target import Target

OPENCL = tw.nd.device("opencl", 0)
needs_opencl = pytest.mark.skipif(not OPENCL.exist, reason="no OpenCL device here")


def bind(s: Any, stage: Any, threads: int = 32) -> None:
    outer, inner = s[stage].split(stage.op.axis[0], factor=threads)
    s[stage].bind(outer, te.thread_axis("blockIdx.x"))
    s[stage].bind(inner, te.thread_axis("threadIdx.x"))


def scaled(factor: float = 2.0, size: Any = 64, threads: int = 0) -> tuple[Any, list[Any]]:
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda i: a[i] * factor, name="B")
    s = te.create_schedule(b.op)
    if threads:
        bind(s, b, threads)
    return s, [a, b]


def reversed_twice() -> tuple[Any, list[Any]]:
    """Two kernels with memory of the device between them, of symbolic size."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    t = te.compute((n,), lambda i: a[i] * 2.0, name="T")
    b = te.compute((n,), lambda i: t[n - 1 - i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    bind(s, t)
    bind(s, b)
    return s, [a, b]


def on_cpu(function: Any, *shape: int) -> tuple[Any, Any]:
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    b = np.zeros(shape, "float32")
    function(a, b)
    return a, b


def test_source_has_the_users_names() -> None:
    module = tw.build(*reversed_twice(), "cuda", name="twice")
    source = module.imported_modules[0].get_source()
    assert (
        "twice_kernel(const float* __restrict__ A, float* __restrict__ T, int n, int stride)"
        in (source)
    )
    assert "twice_kernel_1(" in source and source.count("__launch_bounds__(32)") == 2


def test_host_code_is_python() -> None:
    text = tw.build(*reversed_twice(), "cuda", name="twice").get_source("host")
    compile(text, "host", "exec")
    assert text.startswith("def twice(rt, stream, A, B, n, ")
    assert "rt.launch('twice_kernel', (((n + 31) // 32), 1, 1), (32, 1, 1)" in text
    assert text.index("rt.alloc((n * 4))") < text.index("rt.launch") < text.index("rt.free(T)")


@pytest.mark.parametrize("size", [0, 1, 31, 33, 100])
def test_several_kernels(size: int) -> None:
    module = tw.build(*reversed_twice(), "opencl")
    a, b = on_cpu(module.run_simt, size)
    np.testing.assert_allclose(b, a[::-1] * 2 + 1, rtol=1e-6)
    if OPENCL.exist:
        x, y = tw.nd.array(a, OPENCL), tw.nd.empty((size,), "float32", OPENCL)
        module(x, y)
        np.testing.assert_allclose(y.numpy(), a[::-1] * 2 + 1, rtol=1e-6)


@needs_opencl
def test_prepared_call_repeats_its_launches() -> None:
    module = tw.build(*reversed_twice(), "opencl")
    x = tw.nd.array(np.arange(40, dtype="float32"), OPENCL)
    y = tw.nd.empty((40,), "float32", OPENCL)
    run = module.prepare(x, y)
    for start in (0.0, 5.0):
        x.copyfrom(np.arange(40, dtype="float32") + start)
        run()
        np.testing.assert_array_equal(y.numpy(), (np.arange(40)[::-1] + start) * 2 + 1)


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_files(target: str, tmp_path: Path) -> None:
    module = tw.build(*scaled(threads=16), target)
    path = module.export_library(tmp_path / "m.two")
    again = tw.runtime.load_module(path)
    assert again.get_source() == module.get_source()
    kernels, before = again.imported_modules[0], module.imported_modules[0]
    assert kernels.get_source() == before.get_source()
    assert some(kernels.device_code).kernels == some(before.device_code).kernels
    if target == "opencl" and OPENCL.exist:
        x = tw.nd.array(np.ones(64, "float32"), OPENCL)
        y = tw.nd.empty((64,), "float32", OPENCL)
        again(x, y)
        np.testing.assert_array_equal(y.numpy(), np.full(64, 2, "float32"))
    shared = tw.runtime.load_module(module.export_library(tmp_path / "m.so"))
    assert shared.imported_modules[0].get_source() == kernels.get_source()


@pytest.mark.parametrize(
    "target",
    ["cuda -arch=sm_90", {"kind": "cuda", "arch": "sm_90"}, Target("cuda -arch=sm_90", "llvm")],
    ids=["text", "dict", "with host"],
)
def test_forms_of_targets(target: Any) -> None:
    module = tw.build(*scaled(threads=16), target)
    code = some(module.imported_modules[0].device_code)
    assert (code.kind, code.arch) == ("cuda", "sm_90")


def test_targets_side_by_side(tmp_path: Path) -> None:
    both = tw.build(
        {
            "cuda": tw.lower(*scaled(2.0, threads=16), name="gpu"),
            "llvm": tw.lower(*scaled(3.0), name="cpu"),
        }
    )
    for module in (both, tw.runtime.load_module(both.export_library(tmp_path / "m.two"))):
        a, b = on_cpu(module["cpu"], 64)
        np.testing.assert_array_equal(b, a * 3)
        assert "gpu_kernel(" in module.imported_modules[0].imported_modules[0].get_source()
    a, b = on_cpu(as_a(DeviceFunction, both["gpu"]).run_simt, 64)
    np.testing.assert_array_equal(b, a * 2)


def test_functions_with_targets_of_their_own() -> None:
    gpu_func = tw.lower(*scaled(2.0, threads=16), name="gpu")["gpu"]
    functions = {
        "gpu": gpu_func.with_attr("target", Target("opencl")),
        "cpu": tw.lower(*scaled(3.0), name="cpu")["cpu"],
    }
    module = tw.build(IRModule(functions), target="llvm")
    assert [m.target.kind.name for m in module.imported_modules] == ["opencl", "llvm"]


def test_ptx_of_the_targets_architecture() -> None:
    from tilewright.rt.drivers import nvrtc

    if not nvrtc.find_compiler():
        pytest.skip("no CUDA compiler here")
    module = tw.build(*scaled(threads=16), "cuda -arch=sm_90")
    assert ".target sm_90" in module.imported_modules[0].get_source("ptx")


_WITHOUT_LLVM = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "llvmlite":
            raise ImportError(name)

sys.meta_path.insert(0, Block())
import numpy as np
import tilewright as tw
from tilewright import te

a = te.placeholder((64,), name="A")
b = te.compute((64,), lambda i: te.exp(a[i]) + 1.0, name="B")
s = te.create_schedule(b.op)
outer, inner = s[b].split(b.op.axis[0], factor=16)
s[b].bind(outer, te.thread_axis("blockIdx.x"))
s[b].bind(inner, te.thread_axis("threadIdx.x"))
x = np.linspace(0, 1, 64, dtype="float32")
for target in ("cuda -arch=sm_80", "opencl -device=mali"):
    y = np.zeros(64, "float32")
    module = tw.build(s, [a, b], target)
    module.run_simt(x, y)
    np.testing.assert_allclose(y, np.exp(x) + 1, rtol=1e-5)
    device = tw.nd.device(target)
    if device.exist:
        out = tw.nd.empty((64,), "float32", device)
        module(tw.nd.array(x, device), out)
        np.testing.assert_allclose(out.numpy(), np.exp(x) + 1, rtol=1e-5)
print("done")
"""


def test_no_llvm_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LLVM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr


def test_a_function_for_cuda_runs_on_arrays_of_simt() -> None:
    module = tw.build(*scaled(threads=16), "cuda")
    simt = tw.nd.device("simt", 0)
    x = tw.nd.array(np.ones(64, "float32"), simt)
    y = tw.nd.empty((64,), "float32", simt)
    module(x, y)
    np.testing.assert_array_equal(y.numpy(), np.full(64, 2, "float32"))


@needs_opencl
def test_matmul_on_opencl() -> None:
    case = gpu.matmul(size=50)
    module = gpu.build(case, "opencl")
    values = gpu.arrays(case)
    arrays = [tw.nd.array(v, OPENCL) for v in values]
    module(*arrays)
    np.testing.assert_allclose(arrays[-1].numpy(), case[2](*values[:-1]), rtol=1e-3, atol=1e-4)
