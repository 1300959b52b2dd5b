"""What a case of the operators' benchmark is, and how its sizes are drawn.

A case is one node: its inputs are described, and become arrays only when it is its turn.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright.graph.onnx.single import single_node

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

OPSET = 21
SIZES = {"small": 40, "medium": 100_000, "large": 4_000_000}
"""Elements of the largest tensor, about."""
EXTENTS = (1, 2, 3, 4, 7, 8, 12, 16, 17, 32, 49, 56, 64, 80, 97, 128, 197, 224, 256, 384, 768, 1000)


@dataclass(frozen=True)
class Values:
    """An input: normal numbers, or whole or real ones of low to high. `known`: a constant of the
    model. `given`: these numbers."""

    shape: Shape = ()
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None
    known: bool = False
    given: tuple[Any, ...] | None = None

    def array(self, rng: np.random.Generator) -> Array:
        if self.given is not None:
            return np.array(self.given, self.dtype).reshape(self.shape)
        if self.dtype == "bool":
            return np.asarray(rng.random(self.shape) < 0.5)
        if self.dtype.startswith("float"):
            if self.low is None or self.high is None:
                return np.asarray(rng.standard_normal(self.shape, np.float32), self.dtype)
            return np.asarray(rng.uniform(self.low, self.high, self.shape), self.dtype)
        info = np.iinfo(self.dtype)
        low = max(info.min, -100) if self.low is None else int(self.low)
        high = min(info.max, 100) if self.high is None else int(self.high)
        return np.asarray(rng.integers(low, high, self.shape, endpoint=True), self.dtype)


@dataclass(frozen=True)
class Case:
    """One node on drawn sizes. `inputs`: None is one left out. `off`: whole numbers may differ by
    so much, where a rounding is a matter of the last bit of a sum."""

    family: str
    op: str
    what: str
    inputs: Sequence[Values | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    opset: int = OPSET
    off: int = 0

    @property
    def name(self) -> str:
        return f"{self.op} {self.what}"

    def model(self) -> tuple[bytes, dict[str, Array]]:
        """The model as a file, and its inputs."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        names: list[str] = []
        feeds: dict[str, Array] = {}
        known: dict[str, Array] = {}
        for k, v in enumerate(self.inputs):
            names.append("" if v is None else f"x{k}")
            if v is not None:
                (known if v.known else feeds)[f"x{k}"] = v.array(rng)
        data = single_node(
            self.op, names, feeds, known, self.attrs, self.outputs, self.domain, self.opset
        )
        return data, feeds


class Draws:
    """Random choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def of(self, *options: Any) -> Any:
        """One of some options."""
        return options[int(self.rng.integers(len(options)))]

    def some(self, options: Sequence[Any], count: int) -> list[Any]:
        """Different ones of some options."""
        order = self.rng.permutation(len(options))[:count]
        return [options[int(k)] for k in order]

    def permutation(self, rank: int) -> list[int]:
        return [int(k) for k in self.rng.permutation(rank)]

    def size(self) -> str:
        """Mostly sizes at which time is spent."""
        return str(self.of("small", "medium", "medium", "large", "large"))

    def total(self, size: str) -> int:
        return int(SIZES[size] * self.rng.uniform(0.7, 1.3))

    def shape(self, rank: int, size: str, least: int = 1) -> Shape:
        """Extents of about so many elements together: usual ones, and primes."""
        total = self.total(size)
        extents: list[int] = []
        for _ in range(rank - 1):
            room = total / max(1, prod(extents))
            fit = [e for e in EXTENTS if least <= e <= max(least, room / least)]
            extents.append(self.of(*fit))
        last = max(least, round(total / max(1, prod(extents))))
        extents.append(last if rank == 1 or last < 16 or self.of(0, 1) else last // 8 * 8)
        return tuple(extents[k] for k in self.permutation(rank))

    def image(self, size: str, channels: Sequence[int], dims: int = 2) -> Shape:
        """(batch, channels, extents ...) of pictures."""
        total = self.total(size)
        c = self.of(*channels)
        batch = self.of(1, 1, 1, 2, 4)
        side = max(3, round((total / c / batch) ** (1 / dims)))
        sides = [side + self.of(-1, 0, 0, 1) if side > 4 else side for _ in range(dims)]
        return (batch, c, *sides)


def text(*shapes: Sequence[int]) -> str:
    """Shapes as they stand in names."""
    return " ".join("x".join(map(str, s)) if len(s) else "scalar" for s in shapes)
