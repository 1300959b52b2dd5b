"""`tvm.contrib.cc`: link with the system's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import TilewrightError
from ..rt.objects import runtime_of

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def get_cc() -> str | None:
    """The C++ compiler: $CXX, $CC, or one that is on the path; None without one."""
    for name in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return shutil.which("c++") or shutil.which("cc")


def create_shared(
    output: str | os.PathLike[str],
    objects: Paths,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    **_: object,
) -> None:
    """Link object files into a shared library; TilewrightError where there is no compiler."""
    _link(output, objects, ["-shared", "-fPIC", *(options or ())], cc)


def create_executable(
    output: str | os.PathLike[str],
    objects: Paths,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    **_: object,
) -> None:
    """Link object files into a program; TilewrightError where there is no compiler."""
    _link(output, objects, list(options or ()), cc)


def _link(
    output: str | os.PathLike[str], objects: Paths, options: Sequence[str], cc: str | None
) -> None:
    compiler = cc or get_cc()
    if compiler is None:
        raise TilewrightError(f"cannot link {os.fspath(output)}: no C compiler was found")
    parts = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    command = [compiler, "-o", os.fspath(output), *(os.fspath(p) for p in parts), *options]
    with tempfile.TemporaryDirectory() as folder:
        runtime = next(filter(None, map(runtime_of, parts)), None) if "-shared" in options else None
        if runtime is not None:
            place = Path(folder) / "runtime.o"
            place.write_bytes(runtime)
            command += [str(place), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TilewrightError(f"cannot run the compiler {compiler}: {error.strerror}") from None
    if done.returncode != 0:
        raise TilewrightError(f"Compilation error:\n{done.stderr}\n{' '.join(command)}")
