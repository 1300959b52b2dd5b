"""`tvm.contrib.thrust`: Thrust is not called; topi.sort and cumsum have kernels of their own."""

from __future__ import annotations

from typing import Any


def can_use_thrust(target: Any, func_name: str) -> bool:
    """Whether a function of Thrust can be called: none can."""
    return False


def can_use_rocthrust(target: Any, func_name: str) -> bool:
    """Whether a function of rocThrust can be called: none can."""
    return False


def maybe_warn(target: Any, func_name: str) -> None:
    """Nothing to warn of: sorting and scanning on devices needs no library."""
