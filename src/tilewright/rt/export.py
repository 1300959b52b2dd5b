"""Modules as files: an archive of object code and metadata, or a shared library.

The archive is a zip file. The shared library (suffix .so) can be called from C: each function is
`int32_t NAME(int64_t *slots)` (see `signature`). Our own linker (`link`) makes it, of code for
x86-64 and AArch64 on ELF systems, and the system's of other code, or where one is asked for. It
carries a pool of threads, and exports a table `tilewright_runtime` of five pointers. The host may
set the int32 that the third points to, the number of threads of a parallel loop, which is 1 at
first; may replace the first two, tw_parallel (see `pool`) and tw_call_packed, which fails at first;
is to call the fourth, a void function of nothing, in a child that it forked; the fifth tells the
state of the pool. Loading into Python does so, and lets all libraries share the process's pool.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import read_file
from . import cpu, elf, link, native, pool, seal, threads, workspace
from .files import replacing, write_atomically
from .network_code import TABLE as _TABLE

FORMAT = "tilewright-module"
MAGIC = b"PK\x03\x04"
VERSION = 2
RUNTIME = "runtime.o"
"""The member of an archive with which its code runs where there is no LLVM."""

_DATE = (1980, 1, 1, 0, 0, 0)
SEALED = b'"sealed": true'
"""Stands in the metadata of a shared library that ends in a checksum; one that a user's own linker
made does not."""
BROKEN_ZIP = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, struct.error, RuntimeError,
    NotImplementedError, OverflowError, MemoryError,
)  # fmt: skip
_MACHINES = {elf.X86_64: "x86_64", elf.AARCH64: "aarch64", 40: "arm"}
"""ELF's numbers."""
_LINKERS = ("cc", "gcc", "clang", "ld", "ld.lld")

_RUNTIME_IR = """
target triple = "{triple}"
@tw_num_threads = hidden global i32 1
@tw_table = hidden global [5 x ptr] [ptr @tw_own_parallel, ptr @tw_refuse, ptr @tw_num_threads,
                                     ptr @tw_own_reset, ptr @tw_own_pool_state]
@tw_own_workspace = internal global ptr null
@tilewright_workspace = global ptr @tw_own_workspace
@tw_workspace = hidden alias ptr, ptr @tilewright_workspace
@tilewright_runtime = alias [5 x ptr], ptr @tw_table
@tilewright_metadata = constant [{size} x i8] c"{text}"
@tilewright_metadata_size = constant i64 {size}
define internal i32 @tw_refuse(ptr %name, ptr %args, i32 %n) {{
  ret i32 -1
}}
define hidden i32 @tw_parallel(ptr %f, ptr %data, i64 %n, i32 %threads, i32 %homes, ptr %site) {{
  %g = load ptr, ptr @tw_table
  %r = call i32 %g(ptr %f, ptr %data, i64 %n, i32 %threads, i32 %homes, ptr %site)
  ret i32 %r
}}
define hidden i32 @tw_call_packed(ptr %name, ptr %args, i32 %n) {{
  %p = getelementptr ptr, ptr @tw_table, i64 1
  %g = load ptr, ptr %p
  %r = call i32 %g(ptr %name, ptr %args, i32 %n)
  ret i32 %r
}}
"""


def write_archive(path: str | os.PathLike[str], members: Mapping[str, bytes]) -> None:
    """Write the members of a module's archive; the same members give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED)
        archive.comment = seal.BLANK
    write_atomically(path, seal.seal(buffer.getvalue()))


def read_archive(path: Path) -> dict[str, bytes]:
    """The members of an archive that is as it was written."""
    data = read_file(path)
    why = "it does not end in its checksum" if seal.is_sealed(data) else "it has no checksum"
    if seal.is_whole(data):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {name: archive.read(name) for name in archive.namelist()}
        except BROKEN_ZIP as error:
            why = str(error)
    raise TilewrightError(
        f"{path} is not a module of tilewright, or older than checksums (then export it again), "
        f"or was cut short or damaged: {why}"
    )


def add_runtime(path: Path) -> None:
    """Give an archive of one module's code what it needs to run where there is no LLVM; one for
    machines that our linker does not know stays as it is."""
    members = read_archive(path)
    if elf.is_linkable(members.get("code.o", b"")):
        target = json.loads(members["metadata.json"])["target"]
        members[RUNTIME] = _runtime_of(target["mtriple"])
        write_archive(path, members)


@functools.lru_cache(8)  # compiling it takes 0.2 s
def _runtime_of(triple: str) -> bytes:
    return runtime_object(b"", triple)


def read_metadata(path: Path, data: bytes) -> dict[str, Any]:
    """Metadata from its JSON text, format and version checked."""
    try:
        found = json.loads(data)
        name, version = found["format"], found["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        name, version = "", 0
    if name != FORMAT:
        raise TilewrightError(f"{path} holds no metadata of tilewright")
    if version != VERSION:
        raise TilewrightError(
            f"{path} has format version {version}, this tilewright reads {VERSION}: export it again"
        )
    metadata: dict[str, Any] = found
    return metadata


def link_shared(
    path: str | os.PathLike[str], obj: bytes, metadata: bytes, triple: str, cc: str | None
) -> None:
    """Link an object and its metadata into a shared library: by the program `cc`, else by our own
    linker, else, for machines that this does not know, by the system's."""
    parts = {"the module": obj, "the runtime": runtime_object(metadata, triple)}
    if cc is None and elf.is_linkable(obj):
        data = b"".join(link.link_shared(parts))
        write_atomically(path, seal.seal(data + seal.BLANK))  # loaders look no further
        return
    linker = cc or next((found for name in _LINKERS if (found := shutil.which(name))), None)
    if linker is None:
        raise TilewrightError(
            f"cannot write {os.fspath(path)}: no linker found (looked for {', '.join(_LINKERS)}); "
            "export to a path that ends in .two, which needs none"
        )
    with replacing(path) as output, tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "code.o", Path(folder) / "runtime.o"]
        for file, data in zip(files, parts.values()):
            file.write_bytes(data)
        libraries = [] if Path(linker).name.startswith("ld") else ["-lm"]
        command = [linker, "-shared", "-o", str(output), *map(str, files), *libraries]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TilewrightError(f"cannot run the linker {linker}: {error.strerror}") from None
        if done.returncode != 0:
            raise TilewrightError(f"linking {os.fspath(path)} failed:\n{done.stderr.strip()}")
        output.write_bytes(seal.seal(output.read_bytes() + seal.BLANK))


def runtime_object(metadata: bytes, triple: str) -> bytes:
    """Object code of what a shared library has besides the module's own: metadata and runtime."""
    text = "".join(map("\\{:02x}".format, metadata))
    machine = triple.partition("-")[0]
    own = pool.pool_ir(machine, "Linux", own=True)
    return native.compile_ir(
        _RUNTIME_IR.format(triple=triple, size=len(metadata), text=text) + own, triple
    )


class SharedLibrary:
    """A shared library that `link_shared` wrote; `join_runtime` ties it to this process's."""

    __slots__ = ("_library", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        _require_whole(path)
        try:
            self._library = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise TilewrightError(f"cannot load {path}: {error}") from None

    def join_runtime(self, parallel: bool) -> None:
        """Let the code call Python functions and, where it is `parallel`, the process's pool."""
        table = self._variable(ctypes.c_void_p * 4, "tilewright_runtime")
        symbols = native.runtime_symbols(parallel)
        for index, name in enumerate(_TABLE[:2]):
            table[index] = symbols.get(name, table[index])
        threads.follow(table[2])
        with contextlib.suppress(ValueError):  # older ones have none
            cell = ctypes.c_void_p.in_dll(self._library, "tilewright_workspace")
            cell.value = workspace.cell()

    def _variable(self, kind: Any, name: str) -> Any:
        try:
            return kind.in_dll(self._library, name)
        except ValueError:
            raise TilewrightError(
                f"{self._path} is not a module of tilewright: it has no symbol {name}"
            ) from None

    def metadata(self) -> bytes:
        size = self._variable(ctypes.c_int64, "tilewright_metadata_size").value
        return bytes(self._variable(ctypes.c_char * size, "tilewright_metadata").raw)

    def address(self, name: str) -> int:
        """Address of a function; TilewrightError where the library has none of that name."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise TilewrightError(f"{self._path} has no function {name!r}") from None
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _require_whole(path: Path) -> None:
    """The loader would map a file that was cut short, and the process die when it touches it."""
    try:
        data = read_file(path)
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror}") from None
    whole = len(data) >= 64 and data[:5] == b"\x7fELF\x02"
    if whole:
        offset, entry, count = struct.unpack_from("<40xQ10xHH", data)
        whole = offset + entry * count <= len(data)
        whole = whole and (seal.is_whole(data) or SEALED not in data)
    if not whole:
        raise TilewrightError(f"{path} is not a shared library, or was cut short or damaged")
    (number,) = struct.unpack_from("<18xH", data)
    here, built_for = cpu.machine(), _MACHINES.get(number, "")
    if built_for and here in _MACHINES.values() and built_for != here:
        raise TilewrightError(  # the loader says that there is no such file
            f"{path} cannot run on this machine: it is for {built_for}, this machine is {here}"
        )
