"""The one place where the pieces meet: build, and what it needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "build": "build_module",
    "schedule_to_module": "build_module",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "build_module":
        return import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
