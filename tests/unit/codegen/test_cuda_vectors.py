"""Vectors of bfloat16 in CUDA: floats in registers, read and written as wide as memory is."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.cuda_preamble import preamble
from tilewright.rt.drivers import nvrtc

TARGET = tw.Target("cuda -arch=sm_80")
WHY = nvrtc.why_missing() or ("" if nvrtc.find_disassembler() else "no disassembler is installed")
COMPILER = shutil.which("g++") or shutil.which("clang++")

HOST = """\
#include <string.h>
#define __device__
#define __forceinline__ inline
#define __align__(n) alignas(n)
struct uint4 { unsigned int x, y, z, w; };
struct uint2 { unsigned int x, y; };
static float __uint_as_float(unsigned int x) { float f; memcpy(&f, &x, 4); return f; }
static unsigned int __float_as_uint(float f) { unsigned int x; memcpy(&x, &f, 4); return x; }
static unsigned int __byte_perm(unsigned int a, unsigned int b, unsigned int s) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned int r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned int)(both >> (s >> 4 * i & 7) * 8 & 255) << 8 * i;
  return r;
}
"""


def source(shape: tuple[int, ...]) -> str:
    x = te.placeholder(shape, "bfloat16", "x")
    y = topi.nn.relu(x)
    f = tw.build(topi.default_schedule(y, TARGET), [x, y], TARGET, name="f")
    text: str = f.imported_modules[0].get_source()
    return text


@pytest.mark.parametrize(("shape", "lanes"), [((64, 256), 8), ((63, 33), 0)])
def test_sixteen_bytes_at_a_time(shape: tuple[int, ...], lanes: int) -> None:
    text = source(shape)
    assert ("tw_load_bits_bfloat16x8(x" in text) == (lanes == 8)
    assert ("tw_store_bits_bfloat16x8(T_relu" in text) == (lanes == 8)


@pytest.mark.skipif(bool(WHY), reason=WHY or "a disassembler is here")
def test_instructions() -> None:
    image, _ = nvrtc.compile_cuda(source((64, 256)), "sm_80", "cubin")
    sass = nvrtc.disassemble(image)
    assert sass.count("LDG.E") == sass.count("LDG.E.128") == 1
    assert sass.count("STG.E") == sass.count("STG.E.128") == 1


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")
@pytest.mark.parametrize("lanes", [2, 4, 6, 8, 16])
def test_every_bit_comes_and_goes(lanes: int, tmp_path: Path) -> None:
    """The helpers on the host, with every pattern of 16 bits."""
    kind = f"bfloat16x{lanes}"
    text = HOST + preamble([f"bits {kind} "])
    text += f"""
extern "C" void copy(const void* from, void* to, float* read, long n) {{
  for (long i = 0; i < n; i += {lanes}) {{
    const unsigned short* p = (const unsigned short*)from + i;
    tw_{kind} x = tw_floats_of(tw_load_bits_{kind}(p, i % 3 != 5));
    for (int k = 0; k < {lanes}; ++k) read[i + k] = x.s[k];
    tw_store_bits_{kind}((unsigned short*)to + i, tw_bits_of(x));
  }}
}}
"""
    (tmp_path / "copy.cpp").write_text(text, encoding="utf-8")
    library = tmp_path / "copy.so"
    subprocess.run(
        [str(COMPILER), "-O0", "-fno-strict-aliasing", "-shared", "-fPIC", "-Wno-unknown-pragmas",
         "-o", str(library), str(tmp_path / "copy.cpp")], check=True,
    )  # fmt: skip
    count = (1 << 16) // lanes * lanes
    room = np.zeros(count + 64, np.uint16)
    start = (-room.ctypes.data % 64) // 2
    given = room[start : start + count]
    given[:] = np.arange(count)
    got, read = np.zeros(count, np.uint16), np.zeros(count, np.float32)
    pointers = (ctypes.c_void_p(a.ctypes.data) for a in (given, got, read))
    ctypes.CDLL(str(library)).copy(*pointers, ctypes.c_long(count))
    np.testing.assert_array_equal(got, given)
    np.testing.assert_array_equal(read.view(np.uint32), given.astype(np.uint32) << 16)
