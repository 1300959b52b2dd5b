"""Facts about this machine that systems say in different ways."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

_UNKNOWN = 1 << 34


def memory_bytes() -> int:
    """Bytes of the machine's memory; 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _windows_memory() if sys.platform == "win32" else _UNKNOWN


def _windows_memory() -> int:
    """What GlobalMemoryStatusEx says: the second of seven 64-bit numbers, after two of 32 bits."""
    status = (ctypes.c_uint64 * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    return int(status[1]) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else _UNKNOWN
