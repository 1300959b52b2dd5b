"""What is said of Thrust, a library of NVIDIA's: it is not linked, so that operators have kernels
of their own on every GPU."""

from __future__ import annotations

from typing import Any


def is_thrust_available() -> bool:
    """Whether operators may call Thrust: no."""
    return False


def can_use_thrust(target: Any, func_name: str) -> bool:
    """Whether Thrust's function of that name is there for a target: no."""
    del target, func_name
    return False
