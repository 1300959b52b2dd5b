"""CUDA source as a library of this machine."""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.cuda_text.asm import without_asm

HERE = Path(__file__).parent
_KERNEL = re.compile(
    r'extern "C" __global__ void(?: __cluster_dims__\([^)]*\))?(?: __launch_bounds__\([^)]*\))?'
    r" (\w+)\((.*?)\) \{",
    re.DOTALL,
)
_DYNAMIC = re.compile(r"extern __shared__ [^\n;]*\btw_dynamic\[\];")
_numbers = itertools.count()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilewright-cuda-text-")


@cache
def compiler() -> str:
    """GNU's C++ compiler, with float16; tests that need it skip where it is missing."""
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no GNU C++ compiler")
    command = [found, "-x", "c++", "-fsyntax-only", "-"]
    if subprocess.run(command, input="_Float16 x;", capture_output=True, text=True).returncode:
        pytest.skip("this C++ compiler has no float16")
    return found


class Program:
    """The kernels of a source, for an architecture up to 890."""

    def __init__(self, source: str, arch: int = 700) -> None:
        path = Path(_folder().name, f"{next(_numbers)}.cc")
        path.write_text(self._as_cpp(source, arch))
        library = path.with_suffix(".so")
        # CUDA's integers wrap as its compiler does, and vectors are accessed through casts
        command = [compiler(), "-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv", "-w"]
        command += ["-fno-strict-aliasing", "-shared", "-fPIC", str(path), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{path} is no C++: {done.stderr[:3000]}")
        self._library = ctypes.CDLL(str(library))
        library.unlink()

    @staticmethod
    def _as_cpp(source: str, arch: int) -> str:
        text = without_asm(_DYNAMIC.sub("auto* tw_dynamic = block::memory;", source))
        head = [f"#define __CUDA_ARCH__ {arch}\n"]
        head += [(HERE / name).read_text() for name in ("language.h", "threads.h", "ptx.h")]
        entries = []
        for found in _KERNEL.finditer(text):
            name, params = found[1], [p.strip() for p in found[2].split(",") if p.strip()]
            types = [p.replace("__restrict__", "").rsplit(maxsplit=1)[0] for p in params]
            given = ", ".join(f"*({t}*)tw_given_{name}[{i}]" for i, t in enumerate(types))
            entries.append(
                f"static void** tw_given_{name};\n"
                f"static void tw_entry_{name}() {{ {name}({given}); block::end(); }}\n"
                f'extern "C" const char* run_{name}(const int* grid, const int* threads, '
                f"void** given) {{\n  tw_given_{name} = given;\n"
                f"  return block::launch(tw_entry_{name}, grid, threads);\n}}\n"
            )
        return "".join([*head, text, *entries])

    def launch(
        self, name: str, grid: Sequence[int], block: Sequence[int], args: Sequence[int]
    ) -> None:
        """Run a kernel; `args` are addresses of its arguments. AssertionError where its threads
        wait for each other for ever, stop, or read what no instruction could."""
        function = getattr(self._library, f"run_{name}")
        function.restype = ctypes.c_char_p
        sizes = [(ctypes.c_int * 3)(*x, *[1] * (3 - len(x))) for x in (grid, block)]
        wrong = function(*sizes, (ctypes.c_void_p * max(len(args), 1))(*args))
        if wrong:
            raise AssertionError(f"{name}: {wrong.decode()}")
