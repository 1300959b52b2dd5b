"""Arrays have to start where the widest access of a kernel can, and calls are held to it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import bind_flat, problem
from tests.narrow import some
from tilewright import te, tir
from tilewright.base.errors import ArgumentError
from tilewright.interp.simt import SimtError, run_kernel
from tilewright.interp.simt_report import MISALIGNED
from tilewright.rt.drivers import nvrtc
from tilewright.rt.drivers.base import KernelInfo

SIMT = tw.simt(0)


def twice(dtype: str, vector: int, n: int = 1024, binds: Any = None, **how: Any) -> Any:
    a = te.placeholder((n,), dtype, "A")
    b = te.compute((n,), lambda i: a[i] + a[i], name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 32, vector)
    given = {t: tir.decl_buffer((n,), dtype, t.op.name, **how) for t in (a, b)} if how else None
    return tw.build(s, [a, b], "cuda -arch=sm_80", name="twice", binds=given)


def needs(function: Any) -> list[int]:
    return [a.alignment for a in function["twice"].info.args]


def shifted(dtype: str, n: int = 1024, by: int = 1) -> Any:
    return tw.nd.array(np.arange(n + by).astype(dtype), SIMT)[by:]


@pytest.mark.parametrize(
    ("dtype", "vector", "need"),
    [
        ("float32", 1, 4),
        ("float32", 2, 8),
        ("float32", 4, 16),
        ("float32", 8, 16),
        ("float16", 2, 4),
        ("float16", 8, 16),
        ("int8", 4, 4),
        ("float64", 2, 16),
    ],
)
def test_the_widest_access_says_what_an_argument_needs(dtype: str, vector: int, need: int) -> None:
    f = twice(dtype, vector)
    assert needs(f) == [need, need]
    x, out = shifted(dtype), tw.nd.empty((1024,), dtype, SIMT)
    size = np.dtype(dtype).itemsize
    if need > size:
        with pytest.raises(
            ArgumentError,
            match=rf"argument 0 \(A\): expected data aligned to {need} bytes \(kernels access "
            rf"{need // size} elements at once\), got an address that is {size} bytes off; "
            r"x.copyto\(x.device\) makes an aligned copy",
        ):
            f(x, out)
        with pytest.raises(ArgumentError, match=r"argument 1 \(B\): expected data aligned"):
            f(out, x)
        x = x.copyto(SIMT)
    f(x, out)
    assert np.array_equal(out.numpy(), x.numpy() + x.numpy())


def test_a_view_that_starts_at_a_multiple_passes() -> None:
    f = twice("float32", 4)
    x, out = shifted("float32", by=4), tw.nd.empty((1024,), "float32", SIMT)
    f(x, out)
    assert np.array_equal(out.numpy(), 2 * x.numpy())


def test_a_buffer_that_promises_less_is_accessed_by_elements() -> None:
    f = twice("float32", 4, data_alignment=4)
    assert needs(f) == [4, 4]
    out = tw.nd.empty((1024,), "float32", SIMT)
    f(shifted("float32"), out)
    assert out.numpy()[3] == 8


def test_the_kernel_that_needs_most_counts() -> None:
    a = te.placeholder((1024,), "float32", "A")
    b = te.compute((1024,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((1024,), lambda i: a[i] * b[i], name="C")
    s = te.create_schedule(c.op)
    bind_flat(s, b, 32, 2)
    bind_flat(s, c, 32, 4)
    f = tw.build(s, [a, c], "cuda", name="twice")
    assert needs(f) == [16, 16]
    kernels = some(f.imported_modules[0].device_code).kernels
    assert [k.align for k in kernels] == [(8, 8), (16, 16, 16)]


@pytest.mark.parametrize(("name", "need"), [("wmma_half", 32), ("matmul_async", 16)])
def test_matrices_and_asynchronous_copies_count(name: str, need: int) -> None:
    f = problem(name).build(CASES[name].target)
    assert max(a.alignment for a in f[name].info.args) == need


def test_old_files_say_nothing_of_alignment() -> None:
    info = KernelInfo("k", ("handle", "int32"), ("r", "scalar"), align=(16, 0))
    data = info.to_json()
    assert KernelInfo.from_json(data) == info
    del data["align"]
    assert KernelInfo.from_json(data).align == ()


def test_simt_names_the_access() -> None:
    kernels = some(twice("float32", 4).imported_modules[0].device_code)
    (func,) = kernels.payload.values()
    (info,) = kernels.kernels
    raw = np.zeros(2048, np.float32)
    start = -raw.ctypes.data % 64 // 4
    for off in (0, 4):
        x, out = raw[start + off : start + off + 1024], np.zeros(1040, np.float32)
        first = -out.ctypes.data % 64 // 4
        run_kernel(func, None, [x, out[first : first + 1024]], align=info.align)
    x, out = raw[start + 1 : start + 1025], raw[start + 1026 : start + 1026 + 1021]
    out = np.zeros(1040, np.float32)
    first = -out.ctypes.data % 64 // 4
    place = out[first : first + 1024]
    with pytest.raises(SimtError, match=r"reads 16 bytes at once at A\[0\], but A starts 4") as bad:
        run_kernel(func, None, [x, place], align=info.align)
    assert {f.kind for f in bad.value.findings} == {MISALIGNED}
    with pytest.raises(SimtError, match=r"writes 16 bytes at once at B\[0\], but B starts 4"):
        run_kernel(func, None, [place, x], align=info.align)
    run_kernel(func, None, [x, place], align=(4, 4))  # code that accesses elements


VECTORS = (
    "add_float4", "add_half8", "add_int8x16", "add_double", "transpose_vectors", "matmul_vectors",
    "matmul_async", "wmma_half", "half_matmul_vectors", "bfloat_add_vectors", "dot_of_bytes",
)  # fmt: skip
WIDE = re.compile(r"\b(?:ld|st)\.global(?:\.\w+)*?(?:\.v(\d))?\.[bsuf](\d+)\b")


@pytest.mark.skipif(nvrtc._nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("name", VECTORS)
def test_no_kernel_reads_wider_than_it_says(name: str) -> None:
    """PTX has the accesses as the compiler took them from the source."""
    case = CASES[name]
    module = problem(name).build(case.target).imported_modules[0]
    said = {k.name: max([1, *k.align]) for k in some(module.device_code).kernels}
    ptx = module.get_source("ptx")
    for part in re.split(r"\.entry ", ptx)[1:]:
        widths = [int(v or 1) * int(bits) // 8 for v, bits in WIDE.findall(part)]
        assert max(widths, default=1) <= said[part[: part.index("(")]], name
