"""Arrays and devices, under the name that users know: `tilewright.nd`."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = {
    "tilewright.rt.array": ("NDArray", "array", "empty", "from_dlpack", "pinned_empty"),
    "tilewright.rt.device": (
        "Device",
        "cpu",
        "cuda",
        "device",
        "metal",
        "opencl",
        "rocm",
        "simt",
        "vulkan",
    ),
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
