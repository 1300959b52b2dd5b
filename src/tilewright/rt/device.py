"""Devices: where arrays live and code runs."""

from __future__ import annotations

from typing import Any

from ..base.errors import TilewrightError

_NAMES = {1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}
_TYPES = {
    **{name: number for number, name in _NAMES.items()},
    "llvm": 1,
    "c": 1,
    "gpu": 2,
    "nvptx": 2,
    "cl": 4,
}


class Device:
    """A device: its type by DLPack's number (1 is the CPU) and its index. Compares by value."""

    __slots__ = ("device_id", "device_type")

    def __init__(self, device_type: int | str, device_id: int = 0) -> None:
        if isinstance(device_type, str):
            name = device_type.split()[0] if device_type.split() else ""
            if name not in _TYPES:
                raise TilewrightError(
                    f"unknown device {device_type!r}; known: {', '.join(sorted(_TYPES))}"
                )
            device_type = _TYPES[name]
        if device_id < 0:
            raise TilewrightError(f"the index of a device cannot be {device_id}")
        self.device_type = int(device_type)
        self.device_id = int(device_id)

    @property
    def kind(self) -> str:
        return _NAMES.get(self.device_type, f"device_type_{self.device_type}")

    @property
    def exist(self) -> bool:
        """Whether the device is there and tilewright has a driver for it."""
        return self.device_type == 1

    def sync(self, stream: Any = None) -> None:
        """Wait for everything that was started on the device; on the CPU, nothing is ever open."""
        self.require()

    def require(self) -> None:
        """Raise TilewrightError where the device cannot be used."""
        if not self.exist:
            raise TilewrightError(f"device {self} does not exist here: there is no driver for it")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Device)
            and other.device_type == self.device_type
            and other.device_id == self.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.kind}({self.device_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.device_type, self.device_id)


def device(dev: str | int | Device, dev_id: int = 0) -> Device:
    """The device of a kind ("cpu", "llvm", "cuda", ..., or the text of a target) and index."""
    if isinstance(dev, Device):
        return dev
    return Device(dev if isinstance(dev, int) else str(dev), dev_id)


def enabled(target: str) -> bool:
    """Whether code for a kind of target ("llvm", "cuda", ...) can run here."""
    name = target.split()[0] if target.split() else ""
    return name in _TYPES and Device(name).exist


def cpu(dev_id: int = 0) -> Device:
    """A CPU device."""
    return Device(1, dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A CUDA device."""
    return Device(2, dev_id)


def opencl(dev_id: int = 0) -> Device:
    """An OpenCL device."""
    return Device(4, dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A Vulkan device; there is no driver for it."""
    return Device(7, dev_id)


def metal(dev_id: int = 0) -> Device:
    """A Metal device; there is no driver for it."""
    return Device(8, dev_id)


def rocm(dev_id: int = 0) -> Device:
    """A ROCm device; there is no driver for it."""
    return Device(10, dev_id)
