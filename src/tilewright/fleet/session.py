"""Sessions: files, libraries and arrays in a process on a device, or on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..base.closing import Closing
from ..base.errors import UsageError
from ..base.files import read_file
from ..rt.device import Device
from ..rt.function import Function
from ..rt.signature import FunctionInfo
from .link import Link, LocalLink
from .remote import CHUNK, RemoteDevice, RemoteFunction, RemoteModule, numbers


class RPCSession(Closing):
    """A device that is held, and what is done there; made by `rpc.connect`, a tracker's `request`,
    or `rpc.LocalSession()`.

    Code runs in a process of its own on the device: one that crashes ends the session with an
    RPCError. The session ends, and gives the device back, when it is closed (it is a context
    manager), or when it and all of its arrays, libraries and functions are gone.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._number = next(numbers)

    def __repr__(self) -> str:
        state = f"ended: {self._link.ended}" if self._link.ended else "open"
        return f"<tilewright session on {self._link.name}, {state}>"

    def close(self) -> None:
        """Give the device back; arrays, libraries and files of the session are gone."""
        self._link.end("it was closed")

    # -- files

    def upload(self, data: Any, target: str | None = None) -> None:
        """Copy a file of this machine, or bytes, to the session, under the name `target` (default:
        that of the file). Raises UsageError where bytes are sent without target."""
        if isinstance(data, (bytes, bytearray, memoryview)):
            if not target:
                raise UsageError("upload of bytes needs target=, the name of the file there")
            content = bytes(data)
        else:
            content = bytes(read_file(Path(data)))
            target = target or os.path.basename(os.fspath(data))
        for start in range(0, max(len(content), 1), CHUNK):
            part = content[start : start + CHUNK]
            self._link.ask("put", name=target, offset=start, data=part)

    def download(self, path: str) -> bytearray:
        """The content of a file of the session."""
        found = bytearray()
        while True:
            answer = self._link.ask("get", name=path, offset=len(found), count=CHUNK)
            found += answer["data"]
            if len(found) >= answer["size"]:
                return found

    def remove(self, path: str) -> None:
        """Delete a file of the session."""
        self._link.ask("remove", name=path)

    def listdir(self, path: str = "") -> list[str]:
        """The names of the session's files, which are all in one folder. Raises UsageError where
        path is not the session's folder."""
        if path not in ("", ".", "./", "/"):
            raise UsageError(f"a session has one folder, and none named {path!r}")
        names: list[str] = self._link.ask("list")["names"]
        return names

    # -- code

    def load_module(self, path: str) -> RemoteModule:
        """The library in an uploaded file: what `export_library` wrote, with any suffix."""
        return RemoteModule(self._link, self._link.ask("load", name=path))

    def download_linked_module(self, path: str) -> bytearray:
        """An uploaded library as a shared library, linked there."""
        name = f"{path}.so"
        self._link.ask("link", name=path, to=name)
        found = self.download(name)
        self.remove(name)
        return found

    def get_function(self, name: str) -> Function:
        """A function that is registered on the other side by name, as `get_global_func` gives."""
        self._link.ask("find", name=name)
        return RemoteFunction(FunctionInfo(name, ()), self._link, None)

    # -- devices

    def device(self, dev_type: Any, dev_id: int = 0) -> RemoteDevice:
        """A device of the other side by its kind ("cpu", "opencl", "cuda", ...) and index. Raises
        TilewrightError where `dev_type` is no kind of device, or `dev_id` no whole number of 0 or
        more."""
        return RemoteDevice(self._link, self._number, Device(dev_type, dev_id))

    context = device

    def cpu(self, dev_id: int = 0) -> RemoteDevice:
        """The CPU of the other side. Raises TilewrightError where `dev_id` is no whole number of 0
        or more."""
        return self.device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> RemoteDevice:
        """A CUDA device of the other side. Raises TilewrightError where `dev_id` is no whole number
        of 0 or more."""
        return self.device("cuda", dev_id)

    gpu = cuda

    def cl(self, dev_id: int = 0) -> RemoteDevice:
        """An OpenCL device of the other side. Raises TilewrightError where `dev_id` is no whole
        number of 0 or more."""
        return self.device("opencl", dev_id)

    def vulkan(self, dev_id: int = 0) -> RemoteDevice:
        """A Vulkan device of the other side; there is no driver for it. Raises TilewrightError
        where `dev_id` is no whole number of 0 or more."""
        return self.device("vulkan", dev_id)

    def metal(self, dev_id: int = 0) -> RemoteDevice:
        """A Metal device of the other side; there is no driver for it. Raises TilewrightError where
        `dev_id` is no whole number of 0 or more."""
        return self.device("metal", dev_id)

    def rocm(self, dev_id: int = 0) -> RemoteDevice:
        """A ROCm device of the other side; there is no driver for it. Raises TilewrightError where
        `dev_id` is no whole number of 0 or more."""
        return self.device("rocm", dev_id)

    def ext_dev(self, dev_id: int = 0) -> RemoteDevice:
        """A device of TVM's extensions; there is no driver for it. Raises TilewrightError where
        `dev_id` is no whole number of 0 or more."""
        return self.device("ext_dev", dev_id)

    def hexagon(self, dev_id: int = 0) -> RemoteDevice:
        """A Hexagon device of the other side; there is no driver for it. Raises TilewrightError
        where `dev_id` is no whole number of 0 or more."""
        return self.device("hexagon", dev_id)

    def webgpu(self, dev_id: int = 0) -> RemoteDevice:
        """A WebGPU device of the other side; there is no driver for it. Raises TilewrightError
        where `dev_id` is no whole number of 0 or more."""
        return self.device("webgpu", dev_id)


class LocalSession(RPCSession):
    """A session with a process of this machine: no fleet, no network, the same steps."""

    def __init__(self) -> None:
        super().__init__(LocalLink())
