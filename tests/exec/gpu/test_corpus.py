"""Every case of the corpus in simt, on PoCL and other OpenCL devices, on CUDA, and by NVRTC."""

from __future__ import annotations

import pytest

import tilewright as tw
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import ARCHS, problem
from tilewright.rt.drivers import nvrtc

OPENCL, CUDA = tw.opencl(0), tw.cuda(0)


@pytest.mark.parametrize("name", CASES)
def test_simt(name: str) -> None:
    p = problem(name)
    arrays = p.arrays(tw.simt(0))
    p.build(p.case.target)(*arrays)
    p.check(arrays)


@pytest.mark.skipif(not OPENCL.exist, reason=f"no OpenCL device: {OPENCL.why_missing()}")
@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.opencl])
def test_opencl(name: str) -> None:
    p = problem(name)
    arrays = p.arrays(OPENCL)
    p.build(tw.Target("opencl").fitted_to(OPENCL))(*arrays)
    p.check(arrays)


@pytest.mark.skipif(not CUDA.exist, reason=f"no CUDA device: {CUDA.why_missing()}")
@pytest.mark.parametrize("name", CASES)
def test_cuda(name: str) -> None:
    p = problem(name)
    target = tw.Target.from_device(CUDA)
    if not p.case.runs_on(str(target.attrs["arch"])):
        pytest.skip(f"{p.case.name} needs {p.case.arch}, the device is {target.attrs['arch']}")
    arrays = p.arrays(CUDA)
    p.build(target)(*arrays)
    p.check(arrays)


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.parametrize("name", CASES)
def test_cuda_source(name: str) -> None:
    case = problem(name).case
    text = problem(name).build(case.target).imported_modules[0].get_source()
    for arch in (*ARCHS, "sm_90a"):
        if case.runs_on(arch):
            _, log = nvrtc.compile_cuda(text, arch)
            assert log == "", f"{name}, {arch}: {log}\n{text}"
