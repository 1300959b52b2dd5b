"""`tvm.contrib.clang`: LLVM IR of C++ code, where clang is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import TilewrightError


def find_clang(required: bool = True) -> list[str]:
    """Compilers on the path, best first; TilewrightError (a RuntimeError) without one, if
    `required`."""
    names = ("clang", *(f"clang-{version}" for version in range(22, 9, -1)))
    found = [path for path in map(shutil.which, names) if path]
    if not found and required:
        raise TilewrightError("cannot find clang; it compiles C code to LLVM IR")
    return found


def create_llvm(
    inputs: str | Sequence[str],
    output: str | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str:
    """The LLVM IR of sources: paths, or C++ code as text. `output`: where to keep it too. Raises
    TilewrightError where clang fails."""
    compiler = cc or find_clang()[0]
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for index, item in enumerate([inputs] if isinstance(inputs, str) else inputs):
            if not _is_path(item):
                path = Path(folder) / f"input{index}.cc"
                path.write_text(item, encoding="utf-8")
                item = str(path)
            parts.append(item)
        place = Path(output) if output else Path(folder) / "output.ll"
        emit = "-c" if place.suffix == ".bc" else "-S"
        command = [compiler, "-O3", "-emit-llvm", emit, *(options or ()), "-o", str(place), *parts]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise TilewrightError(f"Compilation error:\n{done.stderr}")
        return str(output) if place.suffix == ".bc" else place.read_text(encoding="utf-8")


def _is_path(item: str) -> bool:
    return "\n" not in item and "{" not in item and Path(item).is_file()
