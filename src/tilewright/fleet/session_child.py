"""The process that a session's arrays and libraries live in: user code runs here alone.

    python -m tilewright.fleet.session_child

answers messages as `measure.worker` does, by "op"; their "data" are bytes:

    set       memory: bytes that it may use                 -> {}
    begin     folder: where files of the session lie        -> {}
    put       name, offset, data: of a file                 -> {}
    get       name, offset, count: of a file                -> {data, size}
    remove    name                                          -> {}
    list                                                    -> {names}
    device    kind, index                                   -> {exists, why, limits}
    alloc     kind, index, bytes                            -> {kept}
    write     kept, offset, data                            -> {}
    read      kept, offset, count                           -> {data}
    copy      to, to_offset, kept, offset, count            -> {}
    sync      kind, index                                   -> {}
    load      name                                          -> {kept, functions, entry, target}
    link      name, to: a shared library of it              -> {}
    find      name: of a registered function                -> {}
    call      function, args                                -> {value}
    time      function, args, how: as `time_evaluator`      -> {results}

`kept` is a number that stands for memory or a library here; each message's "free" lists those that
nobody needs any more. A function is {kept, name}, or {name} of a registered one. An argument is a
number, text or None, or {kept, offset, shape, strides, dtype}. After an error a reply has "error",
the name of its class, and "message".
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError, InternalError, TilewrightError, UsageError
from ..measure.protocol import Message
from ..measure.serve import prepare, serve
from ..rt.array import NDArray, borrow, compact_strides, empty
from ..rt.device import Device, device
from ..rt.device_array import DeviceArray
from ..rt.load import load_module
from ..rt.module import Module
from ..rt.packed import get_global_func


class Hands:
    """What the process keeps between messages."""

    def __init__(self) -> None:
        self.folder = Path()
        self.has_folder = False
        self._kept: dict[int, Any] = {}
        self._count = 0

    def answer(self, request: Message) -> Message:
        reply: Message = {"op": request.get("op"), "id": request.get("id")}
        try:
            for number in request.get("free", ()):
                self._kept.pop(number, None)
            handler = _HANDLERS.get(str(request.get("op")))
            if handler is None:
                raise UsageError(f"unknown request {request.get('op')!r}")
            reply.update(handler(self, request))
        except Exception as error:
            known = isinstance(error, TilewrightError) and not isinstance(error, InternalError)
            name = type(error).__name__
            reply.update(error=name, message=str(error) if known else f"{name}: {error}")
        return reply

    def keep(self, thing: Any) -> int:
        self._count += 1
        self._kept[self._count] = thing
        return self._count

    def memory(self, number: int) -> NDArray:
        found = self._kept.get(number)
        if not isinstance(found, NDArray):
            raise ArgumentError(f"the session has no memory {number}")
        return found

    def part(self, number: int, offset: int, count: int) -> Any:
        memory = self.memory(number)
        if offset < 0 or count < 0 or offset + count > memory.shape[0]:
            raise ArgumentError(f"bytes {offset} to {offset + count} of {memory.shape[0]}")
        return memory[offset : offset + count]

    def file(self, name: Any, there: bool = True) -> Path:
        """The place of a file; a name is no path, so that a session stays in its own folder."""
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
            raise UsageError(f"files of a session have plain names, got {name!r}")
        path = self.folder / name
        if there and not path.is_file():
            has = ", ".join(sorted(p.name for p in self.folder.iterdir())) or "none"
            raise UsageError(f"the session has no file {name!r}; it has: {has}")
        return path

    def module(self, number: Any) -> Module:
        found = self._kept.get(number)
        if not isinstance(found, Module):
            raise ArgumentError(f"the session has no library {number}")
        return found

    def function(self, which: Message) -> Callable[..., Any]:
        if "kept" in which:
            return self.module(which["kept"])[which["name"]]
        found: Callable[..., Any] = get_global_func(which["name"])
        return found

    def value(self, data: Any) -> Any:
        """An argument from its message."""
        if not isinstance(data, dict):
            return data
        memory = self.memory(data["kept"])
        shape, kind, offset = tuple(data["shape"]), parse(data["dtype"]).numpy, data["offset"]
        strides = None if data["strides"] is None else tuple(data["strides"])
        _require_inside(memory.shape[0], offset, shape, strides, kind.itemsize)
        if isinstance(memory, DeviceArray):
            return DeviceArray(memory._memory, shape, kind, memory.device, offset, strides)
        return borrow(memory._address + offset, shape, strides, data["dtype"], memory)


def _require_inside(
    size: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int
) -> None:
    if 0 in shape:
        return
    steps = [(n - 1) * s * item for n, s in zip(shape, strides or compact_strides(shape))]
    low = offset + sum(s for s in steps if s < 0)
    high = offset + sum(s for s in steps if s > 0) + item
    if low < 0 or high > size:
        raise ArgumentError(f"an array of bytes {low} to {high} is not in a memory of {size}")


def _begin(hands: Hands, request: Message) -> Message:
    hands.folder, hands.has_folder = Path(request["folder"]), True
    return {}


def _put(hands: Hands, request: Message) -> Message:
    path, offset = hands.file(request["name"], False), request["offset"]
    with open(path, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(request["data"])
    return {}


def _get(hands: Hands, request: Message) -> Message:
    with open(hands.file(request["name"]), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(request["offset"])
        return {"data": file.read(request["count"]), "size": size}


def _remove(hands: Hands, request: Message) -> Message:
    hands.file(request["name"]).unlink()
    return {}


def _list(hands: Hands, request: Message) -> Message:
    return {"names": sorted(p.name for p in hands.folder.iterdir())}


def _device(hands: Hands, request: Message) -> Message:
    where = _where(request)
    if not where.exist:
        return {"exists": False, "why": where.why_missing(), "limits": None}
    limits = where.limits
    data = None if limits is None else {**asdict(limits), "extensions": sorted(limits.extensions)}
    return {"exists": True, "why": "", "limits": data}


def _alloc(hands: Hands, request: Message) -> Message:
    return {"kept": hands.keep(empty((request["bytes"],), "uint8", _where(request)))}


def _write(hands: Hands, request: Message) -> Message:
    data = np.frombuffer(request["data"], np.uint8)
    hands.part(request["kept"], request["offset"], data.size).copyfrom(data)
    return {}


def _read(hands: Hands, request: Message) -> Message:
    part = hands.part(request["kept"], request["offset"], request["count"])
    return {"data": part.numpy().tobytes()}


def _copy(hands: Hands, request: Message) -> Message:
    count = request["count"]
    source = hands.part(request["kept"], request["offset"], count)
    hands.part(request["to"], request["to_offset"], count).copyfrom(source)
    return {}


def _sync(hands: Hands, request: Message) -> Message:
    _where(request).sync()
    return {}


def _load(hands: Hands, request: Message) -> Message:
    module = load_module(hands.file(request["name"]))
    functions = [module[name].info.to_json() for name in module.function_names]
    facts = {"functions": functions, "entry": module.entry_name, "target": module.target.export()}
    return {"kept": hands.keep(module), **facts}


def _link(hands: Hands, request: Message) -> Message:
    module = load_module(hands.file(request["name"]))
    module.export_library(hands.file(request["to"], False))
    return {}


def _find(hands: Hands, request: Message) -> Message:
    get_global_func(request["name"])
    return {}


def _call(hands: Hands, request: Message) -> Message:
    value = hands.function(request["function"])(*map(hands.value, request["args"]))
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, (int, float, str)):
        raise UsageError(f"a function of a session gives numbers and text, not {value!r:.100}")
    return {"value": value}


def _time(hands: Hands, request: Message) -> Message:
    module, how = hands.module(request["function"]["kept"]), dict(request["how"])
    setup = how.pop("f_preproc") or None
    timer = module.time_evaluator(
        request["function"]["name"], f_preproc=setup and get_global_func(setup), **how
    )
    return {"results": list(timer(*map(hands.value, request["args"])).results)}


def _where(request: Message) -> Device:
    return device(request["kind"], request["index"])


_HANDLERS: dict[str, Callable[[Hands, Message], Message]] = {
    "set": lambda hands, request: prepare(request),
    "begin": _begin, "put": _put, "get": _get, "remove": _remove, "list": _list,
    "device": _device, "alloc": _alloc, "write": _write, "read": _read, "copy": _copy,
    "sync": _sync, "load": _load, "link": _link, "find": _find, "call": _call, "time": _time,
}  # fmt: skip


if __name__ == "__main__":
    hands = Hands()
    status = serve(hands.answer)
    if hands.has_folder:  # whoever made it has died, or would have ended this process himself
        shutil.rmtree(hands.folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(status)  # drivers may have left threads that an ordinary exit would wait for
