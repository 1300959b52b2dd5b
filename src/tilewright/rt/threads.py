"""Threads of parallel loops: one OpenMP runtime for the process, and how many threads it uses.

Compiled code calls `GOMP_parallel(fn, data, num_threads, flags)`, which libgomp, libomp and
libiomp5 all export; num_threads comes from the int32 `tw_num_threads`, and fn asks
`omp_get_thread_num()` and `omp_get_num_threads()`. The runtime is chosen at the first use: one that
is loaded already (two of them in one process fight for the cores), else the system's, else the
one in the wheel of xgboost, else none: parallel loops then run serially and a warning says so.

OpenMP threads do not survive a fork: a child that starts a parallel region with more than one
thread may hang. A forked child therefore gets one thread; start worker processes with `subprocess`
or multiprocessing's "spawn" instead.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..base import config
from ..base.errors import TilewrightError

_LOADED = re.compile(r"/lib(gomp|iomp5|omp)([-.][^/]*)?\.(so|dylib)[^/]*$")
_SYSTEM = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", "libomp.dylib")
_NAMES = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")

SPIN_COUNT = "20000"

_PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
_COUNT = ctypes.CFUNCTYPE(ctypes.c_int)
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_count = ctypes.c_int32(0)
_followers: list[ctypes.c_int32] = []
_lock = threading.Lock()
_runtime: Runtime | None = None


class Runtime:
    """An OpenMP runtime in this process: `path`, and `symbols`, name to address."""

    __slots__ = ("_kept", "path", "symbols")

    def __init__(self, path: str, symbols: dict[str, int], kept: Any) -> None:
        self.path = path
        self.symbols = symbols
        self._kept = kept

    @property
    def is_serial(self) -> bool:
        return not self.path


def runtime() -> Runtime:
    """The OpenMP runtime of this process, chosen at the first call."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                _runtime = _choose(str(config.get("openmp")))
    return _runtime


def num_threads() -> int:
    """Threads that a parallel loop uses."""
    if _count.value == 0:
        _set(int(config.get("num_threads")) or _cores())
    return _count.value


def set_num_threads(count: int) -> None:
    """Let parallel loops use `count` threads; 0 goes back to the default."""
    if not isinstance(count, int) or not 0 <= count <= config.MAX_THREADS:
        raise TilewrightError(
            f"the number of threads cannot be {count!r}: it is an integer up to "
            f"{config.MAX_THREADS}, or 0 for the default"
        )
    _set(count)
    num_threads()


def _set(count: int) -> None:
    _count.value = count
    for follower in _followers:
        follower.value = count


def follow(address: int) -> None:
    """Keep the int32 at `address`, which has to stay, equal to the number of threads."""
    follower = ctypes.c_int32.from_address(address)
    follower.value = num_threads()
    _followers.append(follower)


def num_threads_address() -> int:
    """Address of the int32 from which compiled code reads the number of threads."""
    num_threads()
    return ctypes.addressof(_count)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _choose(wanted: str) -> Runtime:
    if wanted == "serial":
        return _serial()
    if wanted:
        found = _open(wanted)
        if found is None:
            raise TilewrightError(
                f"TILEWRIGHT_OPENMP={wanted}: not a library that exports {', '.join(_NAMES)}"
            )
        return found
    for path in (*_loaded_paths(), *_SYSTEM, *_wheel_paths()):
        found = _open(path)
        if found is not None:
            return found
    warnings.warn(
        "no OpenMP runtime found (libgomp, libomp or libiomp5): parallel loops run serially; "
        "install libgomp1, or the Python package xgboost-cpu, which carries one",
        RuntimeWarning,
        stacklevel=3,
    )
    return _serial()


def _loaded_paths() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.rstrip("\n")[73:] for line in maps if "omp" in line}
    except OSError:
        return []
    return sorted(p for p in paths if _LOADED.search(p))


def _wheel_paths() -> list[str]:
    spec = importlib.util.find_spec("xgboost")
    if spec is None or spec.origin is None:
        return []
    package = Path(spec.origin).parent
    folders = (
        package.parent / "xgboost.libs",
        package.parent / "xgboost_cpu.libs",
        package / "lib",
    )
    return [str(p) for f in folders for p in sorted(f.glob("lib*omp*")) if _LOADED.search(str(p))]


@contextmanager
def _short_spin() -> Iterator[None]:
    """Let a libgomp that is loaded now wait actively for some ten microseconds only.

    Its default is milliseconds, which on busy cores takes the time slice from the very thread that
    is waited for: measured, a network of 59 regions took 200 to 600 ms instead of 40. The user's
    own OMP_WAIT_POLICY or GOMP_SPINCOUNT stands.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _open(path: str) -> Runtime | None:
    try:
        with _short_spin():
            library = ctypes.CDLL(path)
        symbols = {name: _address(getattr(library, name)) for name in _NAMES}
    except (OSError, AttributeError):
        return None
    return Runtime(path, symbols, library)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _run_serially(fn: int, data: int, count: int, flags: int) -> None:
    _BODY(fn)(data)


def _serial() -> Runtime:
    kept = (_PARALLEL(_run_serially), _COUNT(lambda: 0), _COUNT(lambda: 1))
    return Runtime("", dict(zip(_NAMES, map(_address, kept))), kept)


def _after_fork() -> None:
    if _runtime is not None and not _runtime.is_serial:
        _set(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
