"""How much memory a network may take, so that a small file cannot ask for all of the machine's.

A few bytes of a model can name a constant of gigabytes. Constants that importing and compiling
compute may take `model_growth` times what the model brings, its file and the tensors that it
declares, and 256 MiB in any case; no array and no workspace may be larger than `network_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ..base import config
from ..base.dtype import parse
from ..base.errors import ImportModelError, TilewrightError
from ..base.machine import memory_bytes
from .ir import Value
from .shapes import is_open

_MIB = 1 << 20
LEAST = 256 * _MIB


def machine_limit() -> int:
    """Bytes that an array, or the workspace of a network, may have."""
    given: int = config.get("network_memory")
    return given * _MIB if given else memory_bytes()


def require(nbytes: int, what: str, error: type[TilewrightError] = TilewrightError) -> None:
    """`error` where one thing is larger than the machine's memory."""
    limit = machine_limit()
    if nbytes > limit:
        raise error(
            f"{what} takes {nbytes} bytes, more than the {limit} that the option network_memory "
            "allows (by default, the memory of the machine)"
        )


def span(v: Value) -> int:
    """Bytes of an array, extents of 0 taken as 1: NumPy refuses shapes whose others are absurd.
    0 where they are not known: what does not fit is refused when the network runs."""
    if is_open(v.shape):
        return 0
    return int(parse(v.dtype).nbytes * prod(max(d, 1) for d in v.shape))


class Budget:
    """What is left for constants, of a network that brings `given` bytes."""

    def __init__(self, given: int) -> None:
        self.growth: int = config.get("model_growth")
        self.limit = min(max(self.growth * given, LEAST), machine_limit())
        self.spent = 0

    def declare(self, values: Iterable[Value]) -> None:
        """Count tensors that the model declares as brought."""
        for v in values:
            require(span(v), f"input {v!r}", ImportModelError)
            if not is_open(v.shape):
                self.limit = min(self.limit + self.growth * v.nbytes, machine_limit())

    def spend(self, nbytes: int, what: str, error: type[TilewrightError] = TilewrightError) -> None:
        """`error` where `what` does not fit any more."""
        self.spent += nbytes
        if self.spent > self.limit:
            raise error(
                f"{what} takes {nbytes} bytes; with it, what is computed ahead takes {self.spent}, "
                f"more than the {self.limit} that {self.growth} times the model's size and its "
                "declared tensors allow (options model_growth and network_memory)"
            )
