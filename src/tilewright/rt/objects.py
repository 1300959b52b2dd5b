"""Object files that know what they hold: ELF relocatable code, and behind it a zip archive with the
module's metadata, where linkers do not look. `load_module` reads them without a linker, and
`contrib.cc.create_shared` makes a shared library that loads as a module.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import open_file, read_file
from . import export, seal
from .files import write_atomically

_METADATA = "metadata.json"
_SEALED_BY = "tilewright"  # the owner of members of tar files that end in a checksum


def write_object(path: str | os.PathLike[str], obj: bytes, metadata: dict[str, Any]) -> None:
    """Write object code with its metadata behind it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr(zipfile.ZipInfo(_METADATA, (1980, 1, 1, 0, 0, 0)), json.dumps(metadata))
        out.comment = f"{len(obj)} ".encode() + seal.BLANK
    write_atomically(path, seal.seal(obj + archive.getvalue()))


def is_relocatable(path: Path) -> bool:
    """Whether a file is ELF object code that is not linked yet."""
    with open_file(path) as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] == b"\x01\x00"


def read_object(path: Path) -> dict[str, bytes] | None:
    """Members of a module's archive (code.o, metadata.json); None for object code of others."""
    return _members(read_file(path))


def _members(data: bytes) -> dict[str, bytes] | None:
    if not seal.is_whole(data):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size, metadata = int(archive.comment.split()[0]), archive.read(_METADATA)
    except (*export.BROKEN_ZIP, KeyError, IndexError):
        return None
    return {_METADATA: metadata, "code.o": data[:size]}


def require_object(path: Path) -> dict[str, bytes]:
    """As `read_object`; TilewrightError for object code of others."""
    return _require(path, read_file(path))


def _require(path: Path, data: bytes) -> dict[str, bytes]:
    found = _members(data)
    if found is None:
        raise TilewrightError(
            f"{path} is not a module of tilewright, or was cut short or damaged: link it with what "
            "calls it, or build and save the module again"
        )
    return found


def runtime_of(paths: Iterable[str | os.PathLike[str]]) -> bytes | None:
    """The object code that must be linked with modules' objects for `load_module` to know them, as
    one module with the functions of all; None where there is no such object."""
    places = [p for p in map(Path, paths) if p.is_file() and is_relocatable(p)]
    modules = [json.loads(m[_METADATA]) for p in places if (m := read_object(p)) is not None]
    if not modules:
        return None
    whole = {
        **modules[0],
        "features": sorted({feature for m in modules for feature in m["features"]}),
        "functions": [info for m in modules for info in m["functions"]],
        "parallel": any(m["parallel"] for m in modules),
    }
    triple = str(whole["target"].get("mtriple", ""))
    return export.runtime_object(json.dumps(whole).encode(), triple)


def compile_with(
    compiler: Callable[..., Any],
    path: str | os.PathLike[str],
    obj: bytes,
    metadata: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Let a user's function (path, list of object files, ...) make a library."""
    with tempfile.TemporaryDirectory() as folder:
        part = os.path.join(folder, "lib0.o")
        write_object(part, obj, metadata)
        compiler(os.fspath(path), [part], **options)


def write_tar(path: str | os.PathLike[str], obj: bytes, metadata: dict[str, Any]) -> None:
    """Write a tar file of the object code with its metadata, `lib0.o`."""
    with tempfile.TemporaryDirectory() as folder:
        part = os.path.join(folder, "lib0.o")
        write_object(part, obj, metadata)
        whole = io.BytesIO()
        data = Path(part).read_bytes()
        with tarfile.open(fileobj=whole, mode="w") as archive:
            member = tarfile.TarInfo("lib0.o")
            member.size = len(data)
            member.uname = _SEALED_BY
            archive.addfile(member, io.BytesIO(data))
    write_atomically(path, seal.seal(whole.getvalue() + seal.BLANK))  # tar looks no further


def read_tar(path: Path) -> dict[str, bytes] | None:
    """Members of the first module's object in a tar file; None for files that are no tar."""
    opened = False
    try:
        with tarfile.open(path, "r:") as archive:
            opened = True
            for member in archive:
                if member.uname == _SEALED_BY and not seal.is_whole(read_file(path)):
                    raise ValueError("it does not end in its checksum")
                data = archive.extractfile(member) if member.name.endswith(".o") else None
                if data is not None:
                    return _require(path, data.read())
    except (tarfile.TarError, OSError, ValueError, KeyError, RecursionError) as error:
        if opened:
            raise TilewrightError(f"{path} was cut short or damaged: {error}") from None
        return None
    raise TilewrightError(f"{path} holds no object file")
