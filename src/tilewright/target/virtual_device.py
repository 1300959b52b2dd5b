"""`VirtualDevice`: where a value of a program is meant to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .target import Target


@dataclass(frozen=True, init=False)
class VirtualDevice:
    """A device by its type and number, the target of its code, and a scope of memory; each may be
    open: -1, None, ""."""

    device_type_int: int
    virtual_device_id: int
    target: Target | None
    memory_scope: str

    def __init__(
        self, device: Any = None, target: Target | None = None, memory_scope: str = ""
    ) -> None:
        kind = -1 if device is None else int(device.device_type)
        number = -1 if device is None else int(device.device_id)
        if kind < 0 and target is not None:
            kind, number = target.kind.device_type, 0
        object.__setattr__(self, "device_type_int", kind)
        object.__setattr__(self, "virtual_device_id", number)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "memory_scope", memory_scope)

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind of device."""
        return self.device_type_int
