"""What tests need: `@tvm.testing.requires_cuda` skips a test where it is missing and says so.

pytest is imported by the functions that need it only.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..rt.device import device, enabled

Check = Callable[[], bool | str]


class Marks(list[Any]):
    """Marks of pytest, as parameters take them; and a decorator that gives them to a test."""

    def __call__(self, func: Any) -> Any:
        for mark in self:
            func = mark(func)
        return func


class Feature:
    """Something that a test may need. As a decorator, bare or called, it skips the test where that
    is missing.

    name, long_name: what it is called. run_time_check: says whether it is there; or the reason, as
    text, why not. parent_features: names of what it needs in turn. The other arguments, which say
    of TVM's builds what they hold, are taken for its sake: here what is installed decides.
    """

    _all_features: dict[str, Feature] = {}

    def __init__(
        self,
        name: str,
        long_name: str | None = None,
        cmake_flag: str | None = None,
        target_kind_enabled: str | None = None,
        compile_time_check: Check | None = None,
        target_kind_hardware: str | None = None,
        parent_features: str | list[str] | None = None,
        run_time_check: Check | None = None,
    ) -> None:
        del cmake_flag
        self.name = name
        self.long_name = long_name or name
        self.target_kind_enabled = target_kind_enabled
        self.target_kind_hardware = target_kind_hardware
        self._checks = [c for c in (compile_time_check, run_time_check) if c is not None]
        parents = [parent_features] if isinstance(parent_features, str) else parent_features or []
        self.parent_features = list(parents)
        self._all_features[name] = self

    def missing(self, compile_only: bool = False) -> str:
        """Why the feature is not here; empty where it is."""
        for parent in self.parent_features:
            reason = self._all_features[parent].missing(compile_only)
            if reason:
                return reason
        kind = self.target_kind_hardware or self.target_kind_enabled
        if kind is not None and not compile_only and not enabled(kind):
            return f"{self.long_name}: no device of kind {kind} is here"
        for check in self._checks:
            found = check()
            if found is not True:
                return found if isinstance(found, str) else f"{self.long_name} is not here"
        return ""

    def marks(self, support_required: str = "compile-and-run") -> list[Any]:
        """pytest's marks: skip, with the reason, where the feature is missing.

        support_required: "compile-and-run"; "compile-only" where a test runs nothing on the device;
        "optional" for a test that runs anyway.
        """
        if support_required == "optional":
            return []
        reason = self.missing(support_required == "compile-only")
        mark = import_module("pytest").mark.skipif
        return [mark(bool(reason), reason=reason or f"needs {self.long_name}")]

    def __call__(self, func: Any = None, *, support_required: str = "compile-and-run") -> Any:
        marks = Marks(self.marks(support_required))
        return marks if func is None else marks(func)

    def support_required(self, support_required: str) -> Callable[[Any], Any]:
        """A decorator as the feature itself, with what `marks` is told."""
        return lambda func: self(func, support_required=support_required)


def _never(what: str) -> Check:
    return lambda: what


def _features() -> dict[str, bool]:
    from ..target import host

    return dict.fromkeys(host.host_features(), True)


def _x86(*names: str) -> Check:
    def check() -> bool | str:
        lacking = [n for n in names if n not in _features()]
        return f"this CPU lacks {', '.join(lacking)}" if lacking else True

    return check


def _machine(*names: str) -> Check:
    return lambda: platform.machine() in names or f"this machine is {platform.machine()}"


def _capability(major: int, minor: int = 0) -> Check:
    def check() -> bool | str:
        found = device("cuda").compute_version if device("cuda").exist else None
        if found is None:
            return "no CUDA device is here"
        have = tuple(int(part) for part in str(found).split(".")[:2])
        wanted = (major, minor)
        return have >= wanted or f"needs compute capability {major}.{minor}, this is {found}"

    return check


def _llvm(major: int) -> Check:
    def check() -> bool | str:
        from ..target.codegen import llvm_version_major

        found = llvm_version_major() or 0
        return found >= major or f"needs LLVM {major}, this is {found}"

    return check


def _absent(name: str, long_name: str) -> Feature:
    return Feature(
        name, long_name, run_time_check=lambda: f"{long_name} is not used by this project"
    )


uses_gpu = Feature("uses_gpu", run_time_check=lambda: True)
requires_gpu = Feature(
    "gpu",
    "a GPU",
    run_time_check=lambda: any(enabled(k) for k in ("cuda", "opencl")) or "no GPU is here",
)
requires_llvm = Feature("llvm", "LLVM", target_kind_enabled="llvm")
requires_cuda = Feature("cuda", "CUDA", target_kind_enabled="cuda", parent_features="gpu")
requires_nvptx = Feature("nvptx", "NVPTX", run_time_check=_never("kernels are CUDA source here"))
requires_opencl = Feature("opencl", "OpenCL", target_kind_enabled="opencl")
requires_x86 = Feature("x86", "an x86-64 processor", run_time_check=_machine("x86_64", "AMD64"))
requires_aarch64 = Feature("aarch64", "an AArch64 processor", run_time_check=_machine("aarch64"))
requires_tensorcore = Feature(
    "tensorcore", "tensor cores", run_time_check=_capability(7), parent_features="cuda"
)
requires_x86_vnni = Feature("x86_vnni", "VNNI", run_time_check=_x86("avx512vnni"))
requires_x86_avx512 = Feature(
    "x86_avx512", "AVX-512", run_time_check=_x86("avx512f", "avx512bw", "avx512vl")
)
requires_x86_amx = Feature("x86_amx", "AMX", run_time_check=_x86("amx-int8"))
requires_arm_dot = Feature(
    "arm_dot", "dot products", run_time_check=_x86("dotprod"), parent_features="aarch64"
)
requires_arm_fp16 = Feature(
    "arm_fp16", "float16", run_time_check=_x86("fullfp16"), parent_features="aarch64"
)
requires_aarch64_sve = Feature(
    "aarch64_sve", "SVE", run_time_check=_x86("sve"), parent_features="aarch64"
)
requires_aarch64_sme = Feature(
    "aarch64_sme", "SME", run_time_check=_x86("sme"), parent_features="aarch64"
)
requires_adreno_opencl = _absent("adreno_opencl", "Adreno")
requires_adreno_vulkan = _absent("adreno_vulkan", "Adreno's Vulkan")
requires_cmsisnn = _absent("cmsisnn", "CMSIS-NN")
requires_corstone300 = _absent("corstone300", "Corstone-300")
requires_cublas = _absent("cublas", "cuBLAS")
requires_cudagraph = _absent("cudagraph", "CUDA graphs")
requires_cudnn = _absent("cudnn", "cuDNN")
requires_cutlass = _absent("cutlass", "CUTLASS")
requires_ethosn = _absent("ethosn", "Ethos-N")
requires_ethosu = _absent("ethosu", "Ethos-U")
requires_hexagon = _absent("hexagon", "Hexagon")
requires_hexagon_toolchain = _absent("hexagon_toolchain", "Hexagon's toolchain")
requires_libtorch = _absent("libtorch", "libtorch")
requires_matrixcore = _absent("matrixcore", "AMD's matrix cores")
requires_metal = _absent("metal", "Metal")
requires_micro = _absent("micro", "microTVM")
requires_miopen = _absent("miopen", "MIOpen")
requires_mps = _absent("mps", "Metal Performance Shaders")
requires_mrvl = _absent("mrvl", "Marvell's compiler")
requires_nnapi = _absent("nnapi", "NNAPI")
requires_opengl = _absent("opengl", "OpenGL")
requires_openclml = _absent("openclml", "OpenCL ML")
requires_rocblas = _absent("rocblas", "rocBLAS")
requires_rocm = _absent("rocm", "ROCm")
requires_rpc = Feature(
    "rpc",
    "dask.distributed",
    run_time_check=lambda: find_spec("distributed") is not None or "it is not installed",
)
requires_vitis_ai = _absent("vitis_ai", "Vitis AI")
requires_vulkan = _absent("vulkan", "Vulkan")
requires_webgpu = _absent("webgpu", "WebGPU")


def requires_nvcc_version(
    major_version: int, minor_version: int = 0, release_version: int = 0
) -> Callable[[Any], Any]:
    """Skips a test where the CUDA toolkit is missing or older."""
    from ..base.errors import TargetError
    from ..contrib.nvcc import get_cuda_version

    try:
        found: tuple[int, ...] = get_cuda_version()
    except TargetError:
        found = (0, 0)
    wanted = (major_version, minor_version)
    return lambda func: condition(found[:2] >= wanted, f"needs nvcc {wanted}", func)


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0
) -> Callable[[Any], Any]:
    """Skips a test where there is no CUDA device of that compute capability."""
    found = _capability(major_version, minor_version)()
    return lambda func: condition(found is True, str(found), func)


def requires_llvm_minimum_version(major_version: int) -> Callable[[Any], Any]:
    """Skips a test where LLVM is older."""
    found = _llvm(major_version)()
    return lambda func: condition(found is True, str(found), func)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skips a test where a Python package is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    return lambda func: condition(not missing, f"needs {', '.join(missing)}", func)


def skip_if_32bit(reason: str) -> Callable[[Any], Any]:
    """Skips a test where addresses have 32 bits."""
    return lambda func: condition(struct.calcsize("P") > 4, f"32-bit: {reason}", func)


def skip_if_no_reference_system(func: Any) -> Any:
    """Skips a test that needs the simulator of Corstone-300, which is not here."""
    return condition(False, "the reference system is not here", func)


def skip_if_wheel_test(func: Any) -> Any:
    """Leaves a test as it is: tests are not run from a wheel that lacks what they need."""
    return func


def condition(holds: bool, reason: str, func: Any) -> Any:
    """A test that is skipped unless `holds`."""
    return import_module("pytest").mark.skipif(not holds, reason=reason)(func)
