"""CUDA source by kernels: what is cut apart, what is compiled at once, what the disk has of it."""

from __future__ import annotations

import threading

import pytest

from tilewright.base.errors import CompileError
from tilewright.rt.drivers import cuda_code, nvrtc
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda_parts import Part, at_once, compile_parts, parts

FRONT = "struct half8 { int s; };\nstatic __device__ int twice(int x) {\n  return x + x;\n}\n\n"


def kernel(name: str, value: int = 1, threads: str = " __launch_bounds__(32, 2)") -> str:
    head = f'extern "C" __global__ void{threads} {name}(int* __restrict__ out) {{\n'
    return f"{head}  if (out) {{\n    out[0] = twice({value});\n  }}\n}}\n"


def code(*names: str, source: str = "") -> DeviceCode:
    infos = tuple(KernelInfo(n, ("handle",), ("w",), (32, 1, 1), 0) for n in names)
    return DeviceCode("cuda", infos, source or FRONT + "\n".join(map(kernel, names)))


def test_each_kernel_stands_behind_what_all_need() -> None:
    found = parts(FRONT + kernel("a") + "\n" + kernel("b", 2, ""))
    assert found == [
        Part("a", FRONT + kernel("a")),
        Part("b", FRONT + kernel("b", 2, "")),
    ]


@pytest.mark.parametrize(
    "source",
    [
        FRONT + kernel("a"),
        FRONT + kernel("a") + "static __device__ int more(int x) {\n  return x;\n}\n" + kernel("b"),
        FRONT + kernel("a") + kernel("b") + "// of the user\n",
        'extern "C" __global__ void a();\n' + kernel("a") + kernel("b"),
        "",
    ],
    ids=["one", "between", "behind", "declared", "none"],
)
def test_what_is_written_otherwise_stays_whole(source) -> None:
    assert parts(source) == [Part("", source)]


def test_parts_are_compiled_at_once(monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMPILE_PROCESSES", "3")
    both = threading.Barrier(3, timeout=20)

    def work(part: Part) -> str:
        both.wait()
        return part.kernel

    given = [Part(name, "x" * size) for name, size in (("a", 1), ("b", 30), ("c", 2))]
    assert at_once(work, given) == ["a", "b", "c"]


def test_the_first_error_is_raised(monkeypatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_COMPILE_PROCESSES", "2")

    def work(part: Part) -> None:
        if part.kernel != "a":
            raise CompileError(f"{part.kernel} is wrong")

    with pytest.raises(CompileError, match="b is wrong"):
        at_once(work, [Part(name, "") for name in "abcd"])


def test_the_disk_has_each_kernel(monkeypatch, tmp_path) -> None:
    made = []

    def compile_cuda(source, arch, kind):
        made.append(source)
        return b"\x7fELF" + source.encode(), ""

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    first = cuda_code.compile_cached(code("a", "b"), "sm_80")
    assert sorted(made) == sorted(p.source for p in parts(code("a", "b").source))
    again = cuda_code.compile_cached(code("b", "a", "c"), "sm_80")
    assert len(made) == 3 and again[:2] == first[::-1]


def test_source_with_other_kernels_than_said_is_one_part(monkeypatch) -> None:
    made = []

    def compile_cuda(source, arch, kind):
        made.append(source)
        return b"cubin", ""

    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    monkeypatch.setattr(nvrtc, "compile_cuda", compile_cuda)
    source = FRONT + kernel("a") + kernel("more")
    assert cuda_code.compile_cached(code("a", source=source), "sm_80") == [b"cubin"]
    assert made == [source]


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC")
def test_images_are_those_of_the_kernels() -> None:
    made = compile_parts(FRONT + kernel("a") + "\n" + kernel("b", 2), "sm_80")
    assert [list(nvrtc.resource_usage(image)) for image, _ in made] == [["a"], ["b"]]
    with pytest.raises(CompileError, match="nonsense"):
        compile_parts(FRONT + kernel("a") + kernel("b").replace("twice", "nonsense"), "sm_80")
