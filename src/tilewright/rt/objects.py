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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import open_file, read_file
from . import export, seal
from .files import write_atomically

_METADATA = "metadata.json"


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


def runtime_of(path: str | os.PathLike[str]) -> bytes | None:
    """The object code that must be linked with a module's object for `load_module` to know it."""
    place = Path(path)
    found = read_object(place) if place.is_file() and is_relocatable(place) else None
    if found is None:
        return None
    triple = str(json.loads(found[_METADATA])["target"].get("mtriple", ""))
    return export.runtime_object(found[_METADATA], triple)


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


def read_tar(path: Path) -> dict[str, bytes] | None:
    """Members of the first module's object in a tar file; None for files that are no tar."""
    opened = False
    try:
        with tarfile.open(path, "r:") as archive:
            opened = True
            for member in archive:
                data = archive.extractfile(member) if member.name.endswith(".o") else None
                if data is not None:
                    return _require(path, data.read())
    except (tarfile.TarError, OSError, ValueError, KeyError, RecursionError) as error:
        if opened:
            raise TilewrightError(f"{path} was cut short or damaged: {error}") from None
        return None
    raise TilewrightError(f"{path} holds no object file")
