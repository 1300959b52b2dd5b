"""Compiling CUDA source without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.base.errors import CompileError, TargetError
from tilewright.rt.drivers import nvrtc, ptxas

SOURCE = """\
extern "C" __global__ void __launch_bounds__(64) first(float* a, int n) {
  __shared__ float s[128];
  s[threadIdx.x] = a[n];
  __syncthreads();
  a[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void second(float* a, int n) {
  float x[64];
  for (int i = 0; i < 64; ++i) x[i] = a[i];
  for (int i = 0; i < n; ++i) x[a[i] > 0 ? i & 63 : 0] += x[(i * 7) & 63];
  a[n] = x[n & 63];
}
"""
WRONG = 'extern "C" __global__ void f(int* a) {\n  *a = nothing;\n}\n'

needs_nvrtc = pytest.mark.skipif(nvrtc._nvrtc() is None, reason="NVRTC is not installed")
needs_nvcc = pytest.mark.skipif(not nvrtc._nvcc(), reason="nvcc is not installed")
compilers = [
    pytest.param("nvrtc", marks=needs_nvrtc),
    pytest.param("nvcc", marks=needs_nvcc),
]


@pytest.mark.parametrize("compiler", compilers)
def test_ptx_and_cubins(compiler: str) -> None:
    ptx, log = nvrtc.compile_cuda(SOURCE, "sm_80", "ptx", compiler)
    assert b".entry first(" in ptx and b".target sm_80" in ptx and log == ""
    cubin, log = nvrtc.compile_cuda(SOURCE, "sm_90", "cubin", compiler)
    usage = nvrtc.resource_usage(cubin, log)
    assert set(usage) == {"first", "second"}
    assert usage["first"].shared == 512 and usage["first"].stack == 0
    assert 4 <= usage["first"].registers <= 64
    assert usage["second"].stack >= 256, "an array that a variable indexes is in local memory"
    assert usage["second"].shared == 0


@pytest.mark.parametrize("compiler", compilers)
def test_errors_show_the_line(compiler: str) -> None:
    with pytest.raises(CompileError, match=r'"nothing" is undefined') as found:
        nvrtc.compile_cuda(WRONG, "sm_80", compiler=compiler)
    assert "    2 |   *a = nothing;" in str(found.value)
    assert "for sm_80" in str(found.value)


def test_spills_come_from_the_compilers_report() -> None:
    log = (
        "ptxas info    : Compiling entry function 'f' for 'sm_80'\n"
        "ptxas info    : Function properties for f\n"
        "    96 bytes stack frame, 88 bytes spill stores, 84 bytes spill loads\n"
        "ptxas info    : Compiling entry function 'g' for 'sm_80'\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    )
    found = {m[1]: m.groups()[1:4] for m in ptxas.REPORT.finditer(log)}
    assert found == {"f": ("96", "88", "84"), "g": ("0", "0", "0")}


_SERIAL = r"""
extern "C" __global__ void k(float* o, unsigned long long a, unsigned long long b, int n) {
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < n; i++) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                 "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a + i), "l"(b + i));
    d[0] += 1.f;
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 4; i++) o[threadIdx.x * 4 + i] = d[i];
}
"""


@needs_nvrtc
def test_products_that_wait_for_each_other_are_told() -> None:
    _, log = nvrtc.compile_cuda(_SERIAL, "sm_90a", "cubin")
    ((kernel, words),) = nvrtc.performance_losses(log)
    assert kernel == "k" and words.startswith("C75") and "are serialized due to" in words
    assert nvrtc.commented("SASS", log) == f"// k: {words}\nSASS"
    assert nvrtc.performance_losses(nvrtc.compile_cuda(SOURCE, "sm_90a", "cubin")[1]) == []


def test_losses_are_those_of_each_kernel() -> None:
    log = (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to non wgmma instructions defining accumulator registers of a wgmma "
        "between start and end of the pipeline stage in the function 'f'\n"
        "ptxas info    : (C7517) wgmma.wait_group is injected in around line 6 in function 'g'\n"
    )
    ((kernel, words),) = nvrtc.performance_losses(log)
    assert kernel == "f" and words.startswith("C7510: wgmma.mma_async") and "stage" in words


def test_what_cannot_be_compiled_for() -> None:
    with pytest.raises(TargetError, match="named such as sm_80"):
        nvrtc.compile_cuda(SOURCE, "volta")
    with pytest.raises(ValueError, match="'ptx' or 'cubin'"):
        nvrtc.compile_cuda(SOURCE, "sm_80", "sass")
    with pytest.raises(ValueError, match="64-bit ELF"):
        nvrtc.resource_usage(b"nothing of the kind")


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: None)
    monkeypatch.setattr(nvrtc, "_nvcc", lambda: "")
    assert nvrtc.find_compiler() == "" and "pip install nvidia-cuda-nvrtc" in nvrtc.why_missing()
    with pytest.raises(TargetError, match="no CUDA compiler here"):
        nvrtc.compile_cuda(SOURCE, "sm_80")


@needs_nvrtc
def test_headers_of_the_toolkit_are_found() -> None:
    if not nvrtc.include_folders():
        pytest.skip("no CUDA headers here")
    text = '#include <cuda_fp16.h>\nextern "C" __global__ void f(half* a) { *a = hsin(*a); }\n'
    ptx, log = nvrtc.compile_cuda(text, "sm_80")
    assert b".entry f(" in ptx and log == ""


@needs_nvrtc
@pytest.mark.parametrize("helps", [True, False])
def test_kernels_that_spill_are_compiled_for_fewer_blocks(
    helps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other kernels nothing changes, and what does not help is not taken."""
    told: list[tuple[str, bytes]] = []
    made = nvrtc._with_nvrtc

    def spilling(source: str, *rest: Any) -> tuple[bytes, str]:
        image, log = made(source, *rest)
        told.append((source, image))
        if len(told) == 1 or not helps:
            log += "\nCompiling entry function 'second' for 'sm_80'\n"
            log += f"8 bytes stack frame, {4 * len(told)} bytes spill stores, 4 bytes spill loads\n"
            log += "ptxas info    : Used 32 registers"
        return image, log

    monkeypatch.setattr(nvrtc, "_with_nvrtc", spilling)
    source = "".join(
        f'extern "C" __global__ void __launch_bounds__(128) {name}(float* x) {{ x[0] = 1; }}\n'
        for name in ("first", "second")
    )
    image, _ = nvrtc.compile_cuda(source, "sm_80", "cubin", "nvrtc")
    (before, one), (after, other) = told
    assert before == source and "__launch_bounds__(128) first(" in after
    blocks = re.search(r"__launch_bounds__\(128, (\d+)\) second\(", after)
    assert blocks is not None and int(blocks[1]) > 0
    assert image == (other if helps else one)


@needs_nvrtc
def test_kernels_that_miss_nothing_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    made = nvrtc._with_nvrtc

    def counted(source: str, *rest: Any) -> tuple[bytes, str]:
        told.append(source)
        return made(source, *rest)

    monkeypatch.setattr(nvrtc, "_with_nvrtc", counted)
    nvrtc.compile_cuda(SOURCE, "sm_80", "cubin", "nvrtc")
    assert told == [SOURCE]


@needs_nvrtc
def test_kernels_that_lack_a_register_of_another_block_get_it() -> None:
    """The product in registers of 4096 x 4096 in float32, of which ptxas made 129."""
    target = tw.Target("cuda -arch=sm_80")
    a, b = (te.placeholder((4096, 4096), "float32", name) for name in "ab")
    c = topi.matmul(a, b)
    f = tw.build(topi.default_schedule(c, target), [a, b, c], target, name="f")
    source = f.imported_modules[0].get_source()
    (used,) = nvrtc.resource_usage(*nvrtc.compile_cuda(source, "sm_80", "cubin")).values()
    assert used.registers <= 128 and not used.spill_stores
    assert "__launch_bounds__(256) " in source
