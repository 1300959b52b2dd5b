"""Whether weights that were compiled in are still what they were."""

from __future__ import annotations

from typing import Any

from .importer import array_of

_SAMPLED = 8
"""Elements of each weight that are looked at before each call."""


class Mark:
    """A weight as it was compiled in, `at` being which argument it is. What tells another: its
    address, PyTorch's count of writes, and, for writes that are not counted (through `.data`, NumPy
    or in inference mode), a few elements."""

    __slots__ = ("address", "at", "kept", "sample", "seen", "version")

    def __init__(self, at: int, tensor: Any) -> None:
        self.at = at
        self.kept = tensor.detach()  # so that no other gets its memory
        self.address = tensor.data_ptr()
        self.version = _version(tensor)
        extent = 1 + sum((d - 1) * s for d, s in zip(tensor.shape, tensor.stride()))
        step = max((extent - 1) // (_SAMPLED - 1), 1)
        count = 0 if tensor.numel() == 0 else (extent - 1) // step + 1
        self.sample = array_of(self.kept.as_strided((count,), (step,)))
        self.seen = self.sample.tobytes()

    def fits(self, tensor: Any) -> bool:
        return (
            tensor.data_ptr() == self.address
            and _version(tensor) == self.version
            and self.sample.tobytes() == self.seen
        )


def _version(tensor: Any) -> int:
    """Tensors of inference mode do not count writes."""
    return 0 if tensor.is_inference() else tensor._version
