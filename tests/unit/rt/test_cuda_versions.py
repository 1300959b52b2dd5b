"""CUDA's compiler, bindings and driver of several versions: what fits, and what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.forget import collect
from tests.narrow import some
from tests.unit.rt.fake_cuda import CUresult, FakeCuda
from tilewright.base.errors import CompileError, TilewrightError
from tilewright.rt.device import cuda
from tilewright.rt.device_module import KernelCode
from tilewright.rt.drivers import base, cuda_code, nvrtc
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda import CudaDriver
from tilewright.rt.drivers.cuda_api import load_binding

K = KernelInfo("k", ("handle",), ("w",))
SOURCE = 'extern "C" __global__ void k(float* a) { a[0] = 1; }'
CACHED = (nvrtc._nvrtc, nvrtc.compiler_version, nvrtc.compiler_name, nvrtc._nvcc_says)


class Nvrtc(types.ModuleType):
    """A stand-in for the bindings of NVRTC: what it compiles names its version."""

    def __init__(self, name: str, version: tuple[int, int]) -> None:
        super().__init__(name)
        self.version = version
        self.archs: list[str] = []
        self.nvrtcResult = types.SimpleNamespace(NVRTC_SUCCESS=CUresult.CUDA_SUCCESS)

    def nvrtcVersion(self):
        return (CUresult.CUDA_SUCCESS, *self.version)

    def nvrtcCreateProgram(self, source, name, count, headers, names):
        return CUresult.CUDA_SUCCESS, source

    def nvrtcCompileProgram(self, program, count, options):
        self.archs.append(options[0].decode())
        return (CUresult.CUDA_SUCCESS,)

    def nvrtcGetProgramLogSize(self, program):
        return CUresult.CUDA_SUCCESS, 1

    def nvrtcGetProgramLog(self, program, buffer):
        return (CUresult.CUDA_SUCCESS,)

    def nvrtcGetCUBINSize(self, program):
        return CUresult.CUDA_SUCCESS, 5

    def nvrtcGetCUBIN(self, program, buffer):
        buffer[:] = b"\x7fELF" + bytes([self.version[0]])
        return (CUresult.CUDA_SUCCESS,)

    def nvrtcDestroyProgram(self, program):
        return (CUresult.CUDA_SUCCESS,)


class Binding(FakeCuda, types.ModuleType):
    """A module of a binding."""

    def __init__(self, name: str, version: int) -> None:
        types.ModuleType.__init__(self, name)
        FakeCuda.__init__(self)
        self.version = self.CUDA_VERSION = version


def forget() -> None:
    for function in CACHED:
        function.cache_clear()


@pytest.fixture(params=[("cuda.bindings", 12), ("cuda.bindings", 13), ("cuda", 12)])
def major(request, monkeypatch):
    """CUDA 12 or 13, under the modules' names of new bindings or those before 12.6."""
    package, number = request.param
    driver, compiler = ("driver", "nvrtc") if package == "cuda.bindings" else ("cuda", "nvrtc")
    names = ["cuda.bindings.driver", "cuda.bindings.nvrtc", "cuda.cuda", "cuda.nvrtc"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    binding = Binding(f"{package}.{driver}", number * 1000 + 40)
    compiles = Nvrtc(f"{package}.{compiler}", (number, 4))
    for module in (binding, compiles):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    forget()
    before = base.find("cuda")
    base.register("cuda", CudaDriver())
    yield number, binding, compiles
    collect()
    base.register("cuda", some(before))
    forget()


def test_bindings_of_both_majors_load_what_is_compiled(major) -> None:
    number, binding, compiles = major
    assert load_binding()[0] is binding
    assert nvrtc.compiler_version() == (number, 4)
    assert nvrtc.compiler_name().startswith(f"nvrtc {number}.4")
    binding.kernels["k"] = (("handle",), lambda grid, block, a: None)
    kernel = cuda(0).runtime.load(DeviceCode("cuda", (K,), SOURCE))["k"]
    assert compiles.archs == ["--gpu-architecture=sm_80"]
    assert binding.images == [b"\x7fELF" + bytes([number])]
    kernel.launch((1, 1, 1), (1, 1, 1), (0,), cuda(0).runtime.stream)


def test_a_compiler_newer_than_the_driver_is_refused_with_what_to_install(major) -> None:
    number, binding, compiles = major
    binding.version = 1000 * number - 200  # a driver of the major version before: 11.8, 12.8
    with pytest.raises(CompileError) as found:
        cuda(0).runtime.load(DeviceCode("cuda", (K,), SOURCE))
    old = number - 1
    assert f"NVRTC {number}.4 is newer than the driver, which is of CUDA {old}.8" in str(
        found.value
    )
    assert f"pip install nvidia-cuda-nvrtc-cu{old} 'cuda-bindings<{number}'" in str(found.value)
    assert ("as 'tilewright[cuda12]' does" in str(found.value)) is (old == 12)
    assert not compiles.archs
    binding.kernels["k"] = (("handle",), lambda grid, block, a: None)
    cuda(0).runtime.load(DeviceCode("cuda", (K,), SOURCE, binary=b"made elsewhere"))


def test_a_driver_of_a_later_version_loads_it(major) -> None:
    number, binding, _ = major
    binding.version = (number + 1) * 1000
    binding.kernels["k"] = (("handle",), lambda grid, block, a: None)
    cuda(0).runtime.load(DeviceCode("cuda", (K,), SOURCE))


def test_ptx_that_a_driver_does_not_know_is_explained(major) -> None:
    number, binding, _ = major
    name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
    binding.fail["cuModuleLoadData"] = types.SimpleNamespace(name=name)
    package = "nvidia-cuda-nvrtc-cu12" if number == 12 else "nvidia-cuda-nvrtc"
    with pytest.raises(CompileError, match=rf"pip install '{package}=={number}\.4\.\*'"):
        cuda(0).runtime.load(DeviceCode("cuda", (K,), binary=b".version 99"))


def test_a_device_that_another_process_has_for_itself_is_explained() -> None:
    binding: Any = Binding("cuda.bindings.driver", 13000)
    name = "CUDA_ERROR_DEVICE_UNAVAILABLE"
    binding.fail["cuDevicePrimaryCtxRetain"] = types.SimpleNamespace(name=name)
    with pytest.raises(TilewrightError, match=r"its compute mode is exclusive.*nvidia-smi -c DEF"):
        CudaDriver(binding).open(0)


def test_a_function_that_an_older_driver_lacks_is_explained(monkeypatch) -> None:
    binding = Binding("cuda.bindings.driver", 13000)
    binding.version = 12040

    def lacks(flags):
        raise RuntimeError('Function "cuEventCreate" not found')

    driver = CudaDriver(binding)
    runtime = driver.open(0)
    monkeypatch.setattr(binding, "cuEventCreate", lacks, raising=False)
    with pytest.raises(
        TilewrightError, match="pip install nvidia-cuda-nvrtc-cu12 'cuda-bindings<13'"
    ):
        runtime.stream.record()


def test_keys_of_the_cache_name_the_compilers_version(monkeypatch, tmp_path) -> None:
    made = []

    def compile_cuda(source, arch, kind):
        made.append(nvrtc.compiler_version())
        return b"cubin", ""

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    code = DeviceCode("cuda", (K,), SOURCE)
    for version in ((12, 4), (12, 9), (13, 0), (12, 4)):
        monkeypatch.setattr(nvrtc, "_nvrtc", lambda v=version: Nvrtc("nvrtc", v))
        nvrtc.compiler_version.cache_clear()
        nvrtc.compiler_name.cache_clear()
        cuda_code.compile_cached(code, "sm_80")
    assert made == [(12, 4), (12, 9), (13, 0)]
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: None)
    monkeypatch.setattr(nvrtc, "_nvcc", lambda: "nvcc")
    said = "Cuda compilation tools, release 12.6, V12.6.20\nBuild cuda_12.6.r12.6/compiler.345\n"
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)
    forget_versions()
    assert nvrtc.compiler_version() == (12, 6)
    assert nvrtc.compiler_name() == "nvcc Build cuda_12.6.r12.6/compiler.345"
    assert nvrtc.why_unfit(12000) == "" and "use nvcc of CUDA 11" in nvrtc.why_unfit(11080)
    forget_versions()


def forget_versions() -> None:
    nvrtc.compiler_version.cache_clear()
    nvrtc.compiler_name.cache_clear()
    nvrtc._nvcc_says.cache_clear()


def test_packages_of_later_versions() -> None:
    assert nvrtc.packages(13) == (
        "'nvidia-cuda-nvrtc<14' 'cuda-bindings<14' (as 'tilewright[cuda13]' does)"
    )
    assert nvrtc.packages(14) == "'nvidia-cuda-nvrtc<15' 'cuda-bindings<15'"


def test_the_extras_name_packages_of_one_version() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    found = {m[1]: m[2] for m in re.finditer(r"^(cuda\w*) = \[(.*)\]", text, re.M)}
    assert found["cuda12"] == '"cuda-bindings>=12.6,<13", "nvidia-cuda-nvrtc-cu12"'
    assert found["cuda13"] == '"cuda-bindings>=13,<14", "nvidia-cuda-nvrtc>=13,<14"'
    assert found["cuda"] == '"cuda-bindings", "nvidia-cuda-nvrtc"'


def test_code_is_compiled_ahead_for_the_architecture_that_it_names(monkeypatch) -> None:
    made = []

    def compile_cuda(source, arch, kind):
        made.append(arch)
        return f"made for {arch}".encode(), ""

    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    monkeypatch.setattr(nvrtc, "why_missing", lambda: "")
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    kernels = KernelCode(DeviceCode("cuda", (K,), SOURCE, arch="sm_75"))
    kernels.compile_ahead()
    kernels.compile_ahead()
    assert made == ["sm_75"]
    code = kernels.code
    assert (code.binary, code.binary_arch) == (b"made for sm_75", "sm_75")
    assert DeviceCode.from_json(code.to_json(), SOURCE, code.binary).binary_arch == "sm_75"
    binding = FakeCuda()  # an sm_80
    binding.kernels["k"] = (("handle",), lambda grid, block, a: None)
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: None)
    monkeypatch.setattr(nvrtc, "_nvcc", lambda: "")
    forget_versions()
    runtime = CudaDriver(binding).open(0)
    runtime.load(code)  # the cubin is for another device: the source is compiled for this one
    assert made == ["sm_75", "sm_80"] and binding.images == [b"made for sm_80\0"]
    same = KernelCode(DeviceCode("cuda", (K,), SOURCE, arch="sm_80"))
    same.compile_ahead()
    runtime.load(same.code)
    assert made == ["sm_75", "sm_80", "sm_80"] and len(binding.images) == 2
    for other in (
        DeviceCode("opencl", (K,), SOURCE, arch="sm_80"),
        DeviceCode("cuda", (K,), SOURCE),
        DeviceCode("cuda", (K,), SOURCE, arch="sm_80", binary=b"given"),
    ):
        assert cuda_code.compile_ahead(other) is other
    forget_versions()
