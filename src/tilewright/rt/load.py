"""Modules from files: what `export_library` wrote, as a library, an object or an archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import open_file
from ..target import Target
from ..target.host import has_llvm
from . import export, objects
from .drivers.base import DeviceCode
from .files import as_path
from .function import make_function
from .linked import LinkedCode
from .module import JOINED, Module
from .signature import FunctionInfo


def load_module(path: str | os.PathLike[str]) -> Module:
    """The module in a file that `export_library` wrote.

    TilewrightError where the file is missing, cut short, of another format version, or for
    another CPU than this machine's.
    """
    place = as_path(path)
    try:
        with open_file(place) as file:
            magic = file.read(4)
    except OSError as error:
        raise TilewrightError(f"cannot read {place}: {error.strerror}") from None
    if magic == b"\x7fELF" and objects.is_relocatable(place):
        return _load_members(place, objects.require_object(place), "", _require_target)
    if magic == b"\x7fELF" or (place.suffix == ".so" and magic != export.MAGIC):
        return _load_shared(place)
    packed = objects.read_tar(place)
    if packed is not None:
        return _load_members(place, packed, "", _require_target)
    return _load_members(place, export.read_archive(place), "", _require_target)


def load_to_link(path: str | os.PathLike[str]) -> Module:
    """The module in an archive, which may be for another CPU than this machine's: to be exported in
    another form, not to be run."""
    place = as_path(path)
    return _load_members(place, export.read_archive(place), "", _target)


def _load_shared(path: Path) -> Module:
    library = export.SharedLibrary(path)
    metadata = export.read_metadata(path, library.metadata())
    target = _require_target(path, metadata)
    library.join_runtime(bool(metadata["parallel"]))

    def load(name: str) -> tuple[int, Any]:
        return library.address(name), library

    infos = map(FunctionInfo.from_json, metadata["functions"])
    functions = {i.name: make_function(i, partial(load, i.name)) for i in infos}
    return Module(functions, target, {}, metadata["entry"], (), metadata["type_key"])


def _load_members(
    path: Path,
    members: Mapping[str, bytes],
    prefix: str,
    target_of: Callable[[Path, Mapping[str, Any]], Target],
) -> Module:
    metadata = export.read_metadata(path, members.get(f"{prefix}metadata.json", b""))
    target = target_of(path, metadata)
    start = f"{prefix}source."
    sources = {n[len(start) :]: d.decode() for n, d in members.items() if n.startswith(start)}
    imports = [
        _load_members(path, members, f"{prefix}imports/{i}/", target_of)
        for i in range(metadata["imports"])
    ]
    infos = [FunctionInfo.from_json(f) for f in metadata["functions"]]
    obj = members.get(f"{prefix}code.o")
    if metadata["type_key"] == JOINED:
        return Module.joined(imports)
    if "device_code" in metadata:
        kind = str(metadata["device_code"]["kind"])
        source, binary = sources.pop(kind, ""), members.get(f"{prefix}code.bin")
        code = DeviceCode.from_json(metadata["device_code"], source, binary)
        return Module.of_kernels(code, target, sources)
    if "host_code" in metadata:
        texts = metadata["host_code"]
        pairs = [(i, str(texts[i.name])) for i in infos]
        return Module.of_device(pairs, target, imports[0], sources, metadata["entry"])
    if obj is None:
        return Module({}, target, sources, metadata["entry"], imports, metadata["type_key"])
    runtime = members.get(f"{prefix}{export.RUNTIME}")
    if runtime is not None and not has_llvm():
        linked = LinkedCode(obj, runtime, [i.name for i in infos])
        functions = {i.name: make_function(i, partial(linked.load, i.name)) for i in infos}
        return Module(functions, target, sources, metadata["entry"], imports, metadata["type_key"])
    return Module.from_object(obj, infos, target, sources, metadata["entry"], None, imports)


def _target(path: Path, metadata: Mapping[str, Any]) -> Target:
    return Target(dict(metadata["target"]))


def _require_target(path: Path, metadata: Mapping[str, Any]) -> Target:
    """The target of a file's code; TilewrightError where this machine cannot run it."""
    from_file = dict(metadata["target"])
    reason = native_gap(from_file, metadata["features"])
    if reason:
        raise TilewrightError(
            f"{path} cannot run on this machine: {reason}; build it again for this machine, or "
            "for a CPU that both have, such as -mcpu=x86-64-v3"
        )
    return _target(path, metadata)


def native_gap(target: Mapping[str, Any], features: Iterable[str]) -> str:
    """Why code for a target with these features cannot run here; empty where it can."""
    if target["kind"] not in ("llvm", "c"):
        return ""
    return Target.gap_to_host(str(target["mtriple"]), frozenset(features))
