"""Running compiled code, under the name that users know: `tilewright.runtime`."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = {
    "tilewright.loopir.expr": ("convert",),
    "tilewright.rt.array": ("NDArray",),
    "tilewright.rt.device": ("Device", "cpu", "cuda", "device", "enabled", "opencl"),
    "tilewright.rt.function": ("Function",),
    "tilewright.rt.module": ("Module", "load_module"),
    "tilewright.rt.packed": (
        "get_global_func",
        "list_global_func_names",
        "register_func",
        "remove_global_func",
    ),
    "tilewright.rt.signature": ("FunctionInfo",),
    "tilewright.rt.threads": ("num_threads", "set_num_threads"),
    "tilewright.rt.timing": ("BenchmarkResult",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
