"""bfloat16 in CUDA: rounding and arithmetic on bits."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.unit.codegen.test_cuda_vectors import HOST
from tilewright import te, tir
from tilewright.codegen import cuda_bfloat
from tilewright.codegen.cuda_preamble import preamble
from tilewright.rt.drivers import nvrtc

WHY = nvrtc.why_missing() or ("" if nvrtc.find_disassembler() else "no disassembler is installed")
COMPILER = shutil.which("g++") or shutil.which("clang++")
B = ml_dtypes.bfloat16
RNG = np.random.default_rng(7)


def special_floats() -> Any:
    """Floats of all kinds: any bits, ties between two bfloat16, the largest, NaN, denormals."""
    some = RNG.integers(0, 1 << 32, 4096, dtype=np.uint32)
    upper = RNG.integers(0, 1 << 16, 2048, dtype=np.uint32) << 16
    ties = np.concatenate([upper | 0x8000, upper | 0x7FFF, upper | 0x8001, upper])
    edges = np.array([0x7F7FFFFF, 0x7F7F8000, 0x7F800001, 0x80000001, 0x00008000], np.uint32)
    return np.concatenate([some, ties, np.resize(edges, 64)]).view(np.float32)


def same(got: Any, wanted: Any) -> None:
    """The same bits, but for those of NaN."""
    nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~nan], wanted.view(np.uint16)[~nan])


def on_host(tmp_path: Path, parts: list[str], text: str) -> Any:
    source = HOST + preamble(parts) + text
    (tmp_path / "f.cpp").write_text(source, encoding="utf-8")
    subprocess.run(
        [str(COMPILER), "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC",
         "-Wno-unknown-pragmas", "-o", str(tmp_path / "f.so"), str(tmp_path / "f.cpp")], check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(tmp_path / "f.so"))


def pointer(a: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")
def test_stores_round_before_sm_80(tmp_path: Path) -> None:
    library = on_host(
        tmp_path,
        ["bits bfloat16x8 "],
        """
extern "C" void f(const float* from, unsigned short* to, long n) {
  for (long i = 0; i < n; i += 8) {
    tw_bfloat16x8 x;
    for (int k = 0; k < 8; ++k) x.s[k] = from[i + k];
    tw_store_bits_bfloat16x8(to + i, tw_rounded_bits_of(x));
  }
}
""",
    )
    given = special_floats()
    room = np.zeros(given.size + 64, np.uint16)
    got = room[(-room.ctypes.data % 64) // 2 :][: given.size]
    library.f(pointer(given), pointer(got), ctypes.c_long(given.size))
    with np.errstate(all="ignore"):
        same(got.view(B), given.astype(B))


def operands(count: int) -> Any:
    """Bits of bfloat16 of every kind, and many of neighbouring exponents."""
    any_bits = RNG.integers(0, 1 << 16, count // 2).astype(np.uint16)
    near = RNG.integers(0x3D00, 0x4300, count // 2).astype(np.uint16)
    near |= (RNG.integers(0, 2, count // 2) << 15).astype(np.uint16)
    zeros = RNG.choice(np.array([0, 0x8000], np.uint16), 64)
    return np.concatenate([any_bits, near, zeros]).view(B)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")
@pytest.mark.parametrize("lanes", [2, 4, 6, 8, 16])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_vectors_are_their_lanes(name: str, lanes: int, tmp_path: Path) -> None:
    kind, scalar = f"bfloat16x{lanes}", f"tw_{name}_bfloat16"
    a, c = ("load(a + i), load(b + i)", ", load(c + i)" if name == "fma" else "")
    library = on_host(
        tmp_path,
        [f"{scalar} {kind} "],
        f"""
typedef unsigned short word;
#define load tw_load_bits_{kind}
extern "C" void f(const word* a, const word* b, const word* c, word* to, word* one, long n) {{
  for (long i = 0; i < n; i += {lanes}) tw_store_bits_{kind}(to + i, {scalar}x{lanes}({a}{c}));
  for (long i = 0; i < n; ++i) one[i] = {scalar}(a[i], b[i]{", c[i]" if c else ""});
}}
""",
    )
    count = 960 * lanes

    def aligned() -> Any:
        room = np.zeros(count + 32, np.uint16)
        return room[(-room.ctypes.data % 64) // 2 :][:count]

    arrays = [aligned() for _ in range(5)]
    for x in arrays[:3]:
        x[:] = operands(2 * count)[:count].view(np.uint16)
    library.f(*(pointer(x) for x in arrays), ctypes.c_long(count))
    np.testing.assert_array_equal(arrays[3], arrays[4])
    assert arrays[3].any()


OPERATORS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")
@pytest.mark.parametrize("name", [*OPERATORS, "fma"])
def test_operations_before_sm_80(name: str, tmp_path: Path) -> None:
    key, more = f"tw_{name}_bfloat16", ", c[i]" if name == "fma" else ""
    library = on_host(
        tmp_path,
        [key],
        f"""
typedef unsigned short word;
extern "C" void f(const word* a, const word* b, const word* c, word* to, long n) {{
  for (long i = 0; i < n; ++i) to[i] = {key}(a[i], b[i]{more});
}}
""",
    )
    a, b, c = (operands(20000) for _ in range(3))
    got = np.zeros(a.size, np.uint16)
    library.f(*(pointer(x) for x in (a, b, c, got)), ctypes.c_long(a.size))
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float32) for x in (a, b, c)]
        if name == "fma":
            wanted = ((wide[0] * wide[1]).astype(B).astype(np.float32) + wide[2]).astype(B)
        else:
            wanted = OPERATORS[name](*wide[:2]).astype(B)
        same(got.view(B), wanted)


@pytest.mark.parametrize("kind", [tir.Add, tir.Sub, tir.Mul])
def test_one_fused_operation_is_the_same(kind: Any) -> None:
    """fma.rn.bf16 on the operands that stand in the text, computed exactly and rounded once."""
    name, _, given = cuda_bfloat._OPERATIONS[kind]
    a, b = operands(20000), operands(20000)
    with np.errstate(all="ignore"):
        wanted = OPERATORS[name.split("_")[1]](a.astype(np.float32), b.astype(np.float32)).astype(B)
        known = {"a": a, "b": b}
        x, y, z = (
            (known[t] if t in known else np.full(a.size, int(t, 16), np.uint16).view(B))
            for t in given
        )
        # 53 bits hold every product, and every sum whose addends do not lie 45 powers apart
        exact = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
        got = exact.astype(np.float32).astype(B)
    # where float32 has no such small numbers it rounds before bfloat16 does
    fine = ~(np.abs(wanted.astype(np.float32)) < 2.0**-125)
    assert fine.sum() > a.size / 2
    same(got[fine], wanted[fine])
    zeros = wanted.astype(np.float32) == 0
    assert zeros.any()
    same(got[zeros & (exact == 0)], wanted[zeros & (exact == 0)])


def depthwise(dtype: str) -> str:
    """A sum of nine products for each thread, kept in registers."""
    x, w = te.placeholder((34, 34), dtype, "x"), te.placeholder((3, 3), dtype, "w")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    y = te.compute((32, 32), lambda r, c: te.sum(x[r + i, c + j] * w[i, j], [i, j]), "y")
    s = te.create_schedule(y.op)
    part = s.cache_write(y, "local")
    block, thread = s[y].op.axis
    s[y].bind(block, te.thread_axis("blockIdx.x"))
    s[y].bind(thread, te.thread_axis("threadIdx.x"))
    s[part].compute_at(s[y], thread)
    s[part].unroll(part.op.reduce_axis[0])
    s[part].unroll(part.op.reduce_axis[1])
    f = tw.build(s, [x, w, y], "cuda -arch=sm_80")
    return str(f.imported_modules[0].get_source())


def test_a_product_is_added_on_bits() -> None:
    text = depthwise("bfloat16")
    assert "= tw_fma_bfloat16(x[" in text
    kernel = text[text.index("__global__") :]
    assert "tw_round_bfloat16" not in kernel and "tw_from_bfloat16" not in kernel


def test_what_is_chosen_and_moved_stays_bits() -> None:
    x = te.placeholder((64,), "bfloat16", "x")
    zero = tir.const(0, "bfloat16")
    y = te.compute((66,), lambda i: te.if_then_else(te.all(i > 0, i < 65), x[i - 1], zero), "y")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    f = tw.build(s, [x, y], "cuda -arch=sm_80")
    text = str(f.imported_modules[0].get_source())
    assert "? x[" in text and "tw_from_bfloat16" not in text[text.index("__global__") :]
    a = np.arange(1, 65).astype(B)
    got = np.zeros(66, B)
    f.run_simt(a, got)
    np.testing.assert_array_equal(got, np.pad(a, 1))


@pytest.mark.skipif(bool(WHY), reason=WHY or "a disassembler is here")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_instructions(arch: str) -> None:
    image, _ = nvrtc.compile_cuda(depthwise("bfloat16"), arch, "cubin")
    sass = nvrtc.disassemble(image)
    products = sum("FMA2" in line and ".BF16" in line for line in sass.splitlines())
    assert products == (0 if arch == "sm_75" else 9)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: a * b + a,
        lambda a, b: a - b * b,
        lambda a, b: (a + b) * (a + b),
        lambda a, b: te.max(a * b, b) + a,
        lambda a, b: (a.astype("float32") * b.astype("float32")).astype("bfloat16") + a,
        lambda a, b: te.if_then_else(a > b, a * b, b + tir.const(0.3, "bfloat16")),
        lambda a, b: te.exp(a) * b,
        lambda a, b: a / b - a,
    ],
)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_compiles(make: Any, arch: str) -> None:
    a, b = (te.placeholder((64,), "bfloat16", n) for n in "ab")
    y = te.compute((64,), lambda i: make(a[i], b[i]), "y")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    f = tw.build(s, [a, b, y], f"cuda -arch={arch}")
    text = str(f.imported_modules[0].get_source())
    assert "y[(int)threadIdx.x] = " in text
    if not nvrtc.why_missing():
        assert nvrtc.compile_cuda(text, arch, "ptx")[0]
