"""Loading compiled objects into this process, through LLVM's JIT linker.

The one module of `rt` that imports llvmlite. Each object becomes a library of its own in an LLJIT,
so that names need to be unique in an object only. Linking a kernel's object takes about 0.2 ms.

An LLJIT keeps some 9 KB of every library that it had, dropped or not, until it goes itself; so a
new one (0.8 ms) takes over after a number of libraries, and the old one goes with its last.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import struct
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ..base.errors import TilewrightError
from . import cache, packed, pool, threads, workspace

_LIBRARIES_OF_A_JIT = 32

_numbers = itertools.count()
_lock, _pool_lock = threading.Lock(), threading.Lock()
_pool: dict[str, int] = {}
_jit: Any = None


class NativeLibrary:
    """An object's code in this process; it stays there as long as this does."""

    __slots__ = ("_addresses", "_jit", "_name", "_trackers")

    def __init__(self, jit: Any, name: str, addresses: dict[str, int], tracker: Any) -> None:
        self._jit = jit
        self._name = name
        self._addresses = addresses
        self._trackers = [tracker]

    def address(self, name: str) -> int:
        """Address of a function or variable of the object; TilewrightError where it has none."""
        found = self._addresses.get(name)
        if found is None:
            try:
                tracker = self._jit.lookup(self._name, name)
            except RuntimeError as error:
                raise TilewrightError(f"the object has no symbol {name!r}: {error}") from None
            self._trackers.append(tracker)
            found = self._addresses[name] = int(tracker[name])
        return found


def needs_threads(obj: bytes) -> bool:
    """Whether an object has parallel loops: only then are the pool's threads loaded."""
    return b"tw_parallel" in obj


def runtime_symbols(parallel: bool = True) -> dict[str, int]:
    """Addresses of what the runtime offers to compiled code, by name."""
    return {
        **({"tw_parallel": _pool_symbols()["tw_parallel"]} if parallel else {}),
        "tw_num_threads": threads.num_threads_address(),
        "tw_call_packed": packed.call_packed_address(),
        "tw_workspace": workspace.address(),
    }


def _pool_symbols() -> dict[str, int]:
    """Addresses of the pool's functions, by name; it is loaded at the first call."""
    if not _pool:
        with _pool_lock:
            if not _pool:
                _pool.update(_load_pool())
    return _pool


def adopt_pool(symbols: dict[str, int]) -> dict[str, int]:
    """Make a pool, whose code stays, that of the process, unless there is one; the one there is."""
    with _pool_lock:
        if not _pool:
            threads.reset_after_fork(symbols["tw_reset"])
            _pool.update(symbols)
        return dict(_pool)


def _load_pool() -> dict[str, int]:
    llvm, jit = _binding(), _new_jit()
    text = pool.pool_ir()
    digest = hashlib.sha256(text.encode()).hexdigest()
    key = f"pool|{'.'.join(map(str, llvm.llvm_version_info))}|{digest}"
    obj = cache.get(key)
    if obj is None:
        obj = compile_ir(text)
        cache.put(key, obj)
    builder = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process()
    for name in pool.SYMBOLS:
        builder.export_symbol(name)
    tracker = builder.link(jit, "tilewright_pool")
    for kept in (tracker, jit):  # the code is there for threads that outlive the interpreter
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    threads.reset_after_fork(int(tracker["tw_reset"]))
    return {name: int(tracker[name]) for name in pool.SYMBOLS}


def pool_state() -> dict[str, float]:
    """What the pool has measured (nanoseconds), and how many workers it has."""
    values = (ctypes.c_double * len(pool.STATE))()
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_pool_symbols()["tw_pool_state"])
    function(ctypes.addressof(values))
    return dict(zip(pool.STATE, values))


def _session() -> tuple[Any, Any, str]:
    """llvmlite's binding, the LLJIT for the next library, and a name for that."""
    global _jit
    llvm = _binding()
    with _lock:
        number = next(_numbers)
        if number % _LIBRARIES_OF_A_JIT == 0:
            _jit = _new_jit()
        return llvm, _jit, f"tilewright_{number}"


def _new_jit() -> Any:
    return _binding().create_lljit_compiler(use_jit_link=True, suppress_errors=True)


@functools.cache
def _binding() -> Any:
    """llvmlite's binding, made ready for this machine."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        raise TilewrightError(
            "code is compiled, and linked into this process, by LLVM: pip install llvmlite"
        ) from None

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def load_object(
    obj: bytes, symbols: Mapping[str, int] | None = None, names: Iterable[str] = ()
) -> NativeLibrary:
    """Link the bytes of an object file into this process.

    `symbols`: addresses for names that the object leaves open, beside those of the runtime
    (`runtime_symbols`) and of every library in the process (libc, libm). `names`: what to look up
    at once; others resolve when asked for. TilewrightError names what stays open.
    """
    llvm, jit, name = _session()
    builder = llvm.JITLibraryBuilder().add_object_img(obj)
    # Into the object's own library: the JIT asks the process before any library that this one is
    # linked with, and another library may show such names to all in the process.
    for symbol, address in {**runtime_symbols(needs_threads(obj)), **(symbols or {})}.items():
        builder.import_symbol(symbol, address)
    builder.add_current_process()
    for symbol in names:
        builder.export_symbol(symbol)
    try:
        tracker = builder.link(jit, name)
    except RuntimeError as error:
        raise TilewrightError(_explain(obj, symbols or {}, str(error))) from None
    return NativeLibrary(jit, name, {n: int(tracker[n]) for n in names}, tracker)


def _explain(obj: bytes, symbols: Mapping[str, int], error: str) -> str:
    known = {*symbols, *runtime_symbols()}
    try:
        process: Any = ctypes.CDLL(None)
    except TypeError:  # Windows has no library of all that is in the process
        process = None
    missing = [
        n for n in undefined_symbols(obj) if process and n not in known and not hasattr(process, n)
    ]
    if missing:
        return (
            f"the compiled code needs symbols that are not there: {', '.join(missing)}; code comes "
            "along with the pragmas import_c and import_llvm, or lies in a library of this "
            "process: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"
        )
    return f"cannot load the object file: {error}"


def undefined_symbols(obj: bytes) -> list[str]:
    """Names that an ELF64 object leaves open; empty for what is not one, or is cut short."""
    if obj[:5] != b"\x7fELF\x02":
        return []
    try:
        start, size, count = struct.unpack_from("<40xQ10xHH", obj)
        names = []
        for i in range(count):
            kind, offset, length, link = struct.unpack_from("<4xI16xQQI", obj, start + i * size)
            if kind != 2:  # SHT_SYMTAB
                continue
            (strings,) = struct.unpack_from("<24xQ", obj, start + link * size)
            for at in range(offset + 24, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", obj, at)
                if section == 0 and name:
                    end = obj.index(b"\0", strings + name)
                    names.append(obj[strings + name : end].decode(errors="replace"))
        return names
    except (struct.error, ValueError):
        return []


def bitcode(text: str) -> bytes:
    """LLVM IR text as LLVM's bitcode."""
    llvm = _binding()
    return bytes(llvm.parse_assembly(text).as_bitcode())


def compile_ir(text: str, triple: str = "") -> bytes:
    """Object code, position independent, of LLVM IR text for the baseline CPU of a triple."""
    llvm = _binding()
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.verify()
    return bytes(machine.emit_object(module))
