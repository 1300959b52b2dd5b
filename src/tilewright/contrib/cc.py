"""`tvm.contrib.cc`: link with the system's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from ..rt.objects import runtime_of

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def get_cc() -> str | None:
    """The C++ compiler: $CXX, $CC, or one that is on the path; None without one."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    names = ("g++", "gcc", "clang++", "clang", "c++", "cc")
    return named or next(filter(None, map(shutil.which, names)), None)


def create_shared(
    output: str | os.PathLike[str],
    objects: Paths,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Link object files, or compile sources, into a shared library. What this package saved as
    objects becomes one module with the functions of all, which `load_module` reads.

    cc: the compiler, by default `get_cc()`. cwd: the folder in which it runs. ccache_env: variables
    for ccache, which is used where they are given, be it {}.

    Raises TilewrightError where there is no compiler, or no ccache, or it fails."""
    _link(output, objects, ["-shared", "-fPIC", *(options or ())], cc, cwd, ccache_env)


def create_executable(
    output: str | os.PathLike[str],
    objects: Paths,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | os.PathLike[str] | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Link object files, or compile sources, into a program; arguments and errors as of
    `create_shared`. Raises TilewrightError where there is no compiler."""
    _link(output, objects, list(options or ()), cc, cwd, ccache_env)


def create_staticlib(output: str | os.PathLike[str], inputs: Paths, ar: str | None = None) -> None:
    """Put object files (and those inside tar files) into an archive of `ar`'s, a static library.
    Raises TilewrightError where there is no ar, or it fails."""
    from .tar import normalize_file_list_by_unpacking_tars
    from .utils import tempdir

    program = ar or shutil.which("ar")
    if program is None:
        raise TilewrightError(f"cannot write {os.fspath(output)}: no ar was found")
    listed = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    folder = tempdir()
    parts = normalize_file_list_by_unpacking_tars(folder, [os.fspath(p) for p in listed])
    if os.path.exists(output):  # ar would add to it
        os.remove(output)
    command = [program, "rcs", os.fspath(output), *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TilewrightError(f"AR error:\n{done.stderr}\n{' '.join(command)}")


def get_target_by_dump_machine(compiler: str) -> Callable[[], str | None]:
    """A function of nothing that gives the triple for which a compiler makes code, as it says
    itself (`-dumpmachine`); None where it does not say."""

    def triple() -> str | None:
        try:
            done = subprocess.run(
                [compiler, "-dumpmachine"], capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() or None if done.returncode == 0 else None

    return triple


def get_global_symbol_section_map(path: str, *, nm: str | None = None) -> dict[str, str]:
    """The global symbols of a library or object, each with the letter by which `nm` names its
    section ("T" for code). Raises TilewrightError where there is no nm, or it fails."""
    program = nm or shutil.which("nm")
    if program is None:
        raise TilewrightError(f"cannot read the symbols of {path}: no nm was found")
    done = subprocess.run(
        [program, "-g", "--defined-only", path], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise TilewrightError(f"{program} failed on {path}:\n{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) == 3:
            found[parts[2]] = parts[1]
    return found


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """A function (path, object files, options) that links with another compiler: for
    `export_library(path, fcompile=...)`.

    compile_func: the compiler's path, or a function such as `create_shared` whose `options` and
    `add_files` are then given here.
    """
    base, more = list(options or ()), list(add_files or ())

    def link(outputs: Any, objects: Any, options: Sequence[str] | None = None) -> None:
        parts: list[Any] = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
        said = base + list(options or ())
        if isinstance(compile_func, str):
            create_shared(outputs, parts + more, said, cc=compile_func)
        else:
            compile_func(outputs, parts + more, options=said)

    named = compile_func if isinstance(compile_func, str) else None
    link.output_format = output_format or getattr(compile_func, "output_format", "so")  # type: ignore[attr-defined]
    triple = get_target_triple or getattr(compile_func, "get_target_triple", None)
    if triple is None and named:
        triple = get_target_by_dump_machine(named)
    link.get_target_triple = triple  # type: ignore[attr-defined]
    return link


def _link(
    output: str | os.PathLike[str],
    objects: Paths,
    options: Sequence[str],
    cc: str | None,
    cwd: str | os.PathLike[str] | None,
    ccache_env: Mapping[str, str] | None,
) -> None:
    compiler = cc or get_cc()
    if compiler is None:
        raise TilewrightError(f"cannot link {os.fspath(output)}: no C compiler was found")
    parts = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    cached = [] if ccache_env is None else ["ccache"]
    if cached and shutil.which("ccache") is None:
        raise TilewrightError(f"cannot link {os.fspath(output)}: ccache not found")
    command = [*cached, compiler, "-o", os.fspath(output), *(os.fspath(p) for p in parts), *options]
    with tempfile.TemporaryDirectory() as folder:
        inputs = [Path(cwd or ".") / p for p in parts]
        runtime = runtime_of(inputs) if "-shared" in options and "-c" not in options else None
        if runtime is not None:
            place = Path(folder) / "runtime.o"
            place.write_bytes(runtime)
            command += [str(place), "-lm"]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                cwd=cwd,
                env={**os.environ, **(ccache_env or {})},
            )
        except OSError as error:
            raise TilewrightError(f"cannot run the compiler {compiler}: {error.strerror}") from None
    if done.returncode != 0:
        raise TilewrightError(f"Compilation error:\n{done.stderr}\n{' '.join(command)}")


create_shared.output_format = "so"  # type: ignore[attr-defined]  # what export_library asks
create_shared.get_target_triple = lambda: get_target_by_dump_machine(get_cc() or "cc")()  # type: ignore[attr-defined]
