"""Running compiled code, under the name that users know: `tilewright.runtime`."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = {
    "tilewright.loopir.containers": ("convert",),
    "tilewright.loopir.expr": ("const",),
    "tilewright.base.dtype": ("DataType",),
    "tilewright.loopir.node": ("Object",),
    "tilewright.rt.array": ("NDArray",),
    "tilewright.rt.device": (
        "Device",
        "cpu",
        "cuda",
        "device",
        "enabled",
        "metal",
        "opencl",
        "rocm",
        "simt",
        "stream",
        "vulkan",
    ),
    "tilewright.rt.device_array": ("DeviceArray",),
    "tilewright.rt.drivers.base": ("Event", "Stream"),
    "tilewright.rt.function": ("Function",),
    "tilewright.rt.module": ("Module", "load_module", "PackedFunc"),
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
    if name in ("module", "ndarray"):
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
