"""The code of a network in this process: objects that LLVM's JIT links, or a shared object that the
system loads, from a saved network.

A saved network brings the pool of threads with it (`export.runtime_object`), so that no compiler is
needed to run it. A process has one pool: that which is there already, or that of the first network.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import TilewrightError
from . import native, packed, pool, threads, workspace
from .plan import ENTRY, Kernel

if TYPE_CHECKING:
    from ..target.target import Target
    from .image import Bytes

TABLE = ("tw_parallel", "tw_call_packed", "tw_num_threads", "tw_reset", "tw_pool_state")
EXPORTS = (ENTRY, "tilewright_runtime", "tilewright_workspace")

_numbers = itertools.count()
_adopting = threading.Lock()


class ObjectCode:
    """Objects as they were compiled: one of each kernel, one of the entry function."""

    def __init__(self, kernels: Sequence[Kernel], entry: bytes, target: Target) -> None:
        self.kernels = kernels
        self.entry = entry
        self.target = target
        self._libraries: list[Any] = []

    def load(self) -> dict[str, int]:
        """Addresses of the entry function and of all kernels."""
        reason = self.target.missing_on_host()
        if reason:
            raise TilewrightError(f"cannot run code for {str(self.target)!r}: {reason}")
        found = [native.load_object(k.obj, names=[k.symbol]) for k in self.kernels]
        symbols = {k.symbol: x.address(k.symbol) for k, x in zip(self.kernels, found)}
        entry = native.load_object(self.entry, symbols, [ENTRY])
        self._libraries = [*found, entry]
        return {**symbols, ENTRY: entry.address(ENTRY)}

    @property
    def needs_threads(self) -> bool:
        """Whether a kernel has a parallel loop."""
        return any(native.needs_threads(k.obj) for k in self.kernels)

    def objects(self) -> dict[str, bytes]:
        """The objects, by the names that errors call them by."""
        numbered = {f"kernel {n} ({k.title})": k.obj for n, k in enumerate(self.kernels)}
        return {**numbered, "the entry": self.entry}

    def shared(self) -> bytes:
        """A shared object that `SharedCode` loads."""
        from . import export, link  # what only runs networks does without

        runtime = export.runtime_object(b"", self.target.triple)
        exports = [*EXPORTS, *(k.symbol for k in self.kernels)]
        parts = link.link_shared({**self.objects(), "the runtime": runtime}, exports)
        return b"".join(parts)


class SharedCode:
    """The shared object of a saved network; it leaves the process with this."""

    def __init__(self, data: Bytes, kernels: Sequence[Kernel], needs_threads: bool) -> None:
        self.data = data
        self.kernels = kernels
        self.needs_threads = needs_threads

    def load(self) -> dict[str, int]:
        """Addresses of the entry function and of all kernels."""
        names = (ENTRY, *(k.symbol for k in self.kernels))
        return enter(self, self.data, self.needs_threads, names)

    def shared(self) -> bytes:
        """The shared object."""
        return bytes(self.data)


def enter(owner: Any, data: Bytes, needs_threads: bool, names: Iterable[str]) -> dict[str, int]:
    """Addresses of the named functions of a shared object, which joins this process's runtime and
    leaves the process with its `owner`."""
    library = _open_bytes(data)
    table = (ctypes.c_void_p * len(TABLE)).in_dll(library, "tilewright_runtime")
    keep = needs_threads and _share_pool(table)
    table[1] = packed.call_packed_address()
    count = int(table[2] or 0)
    threads.follow(count)
    ctypes.c_void_p.in_dll(library, "tilewright_workspace").value = workspace.cell()
    if not keep:  # threads of the pool run its code
        close = weakref.finalize(owner, _close, library._handle, count)
        close.atexit = False  # other threads may be in it
    return {n: int(ctypes.cast(library[n], ctypes.c_void_p).value or 0) for n in names}


def _share_pool(table: Any) -> bool:
    """Let a library use the process's pool. Where there is none, its own becomes that: True."""
    with _adopting:
        own = dict(zip(pool.SYMBOLS, (int(table[0]), int(table[3]), int(table[4]))))
        symbols = native.adopt_pool(own)
        table[0] = symbols["tw_parallel"]
        return symbols == own


def _close(handle: int, count: int) -> None:
    """Take a library out of the process."""
    threads.unfollow(count)
    close: Callable[..., Any] = ctypes.CDLL(None).dlclose
    close(ctypes.c_void_p(handle))


def _open_bytes(data: Bytes) -> Any:
    """A shared object in memory as a library; nobody else sees a file of it."""
    try:
        if hasattr(os, "memfd_create"):
            return _open_in_memory(data)
    except OSError:  # where memory may not be run, files may
        pass
    with tempfile.TemporaryDirectory(prefix="tilewright") as folder:
        path = Path(folder) / "network.so"
        path.write_bytes(data)
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise TilewrightError(f"cannot load the code: {error}") from None


def _open_in_memory(data: Bytes) -> Any:
    handle = os.memfd_create("tilewright_network", os.MFD_CLOEXEC)
    try:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(handle, view) :]
        # The loader takes a path that it has seen for the same file: none is ever the same.
        turns = "".join("/" if bit == "0" else "/./" for bit in f"{next(_numbers):b}")
        return ctypes.CDLL(f"/proc/self{turns}/fd/{handle}")
    finally:
        os.close(handle)
