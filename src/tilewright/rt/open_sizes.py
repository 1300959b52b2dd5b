"""Sizes that a network learns from its inputs at each call.

Shapes of such a network are dimensions as rt/signature.py has them: numbers, names of symbols, and
trees of those. A symbol's value is the extent of an input where it stands alone. Kernels take the
symbols that they read as integer arguments. What lies between kernels has a slot of its own, since
where it is in the workspace depends on the sizes; that plan is made once for each set of sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from threading import Lock
from typing import Any

from ..base.aligned import ALIGNMENT
from ..base.errors import ArgumentError
from .places import places_of
from .plan import Tensor, shapes_given
from .signature import MOST_NARROW, Dim, dim_source, dim_value, dims_text, read_dim

_KEPT = 256
"""Sets of sizes whose plans are kept."""
_HOLDS = {"==": lambda n: n == 0, "<": lambda n: n < 0, "<=": lambda n: n <= 0}


class OtherSizesError(ArgumentError):
    """Inputs whose sizes are none of those that the network is compiled for."""


@dataclass(frozen=True)
class Shaped:
    """A network at known sizes: its inputs and outputs, the values of its symbols, the offset of
    each value in the workspace, and how many bytes that takes."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    workspace: int
    symbols: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class OpenSizes:
    """What depends on sizes.

    `conditions`: (dimension, relation to 0, whether it holds); `counts`: of elements of arrays,
    which code counts in int32; `values`: of what lies between kernels, in the order of the slots,
    the bytes, and the first and last kernel that sees it; `align`: of which number of bytes their
    places in the workspace are multiples.
    """

    symbols: Sequence[str]
    conditions: Sequence[tuple[Dim, str, bool]]
    counts: Sequence[Dim]
    values: Sequence[tuple[Dim, int, int]]
    align: int = ALIGNMENT

    def to_json(self) -> list[Any]:
        """What `from_json` reads, of a network on a CPU."""
        return [list(self.symbols), list(self.conditions), list(self.counts), list(self.values)]

    @staticmethod
    def from_json(data: Sequence[Any]) -> OpenSizes:
        symbols, conditions, counts, values = data
        return OpenSizes(
            [str(n) for n in symbols],
            [(read_dim(d), str(r), bool(h)) for d, r, h in conditions],
            [read_dim(d) for d in counts],
            [(read_dim(d), int(born), int(last)) for d, born, last in values],
        )

    def shaped(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        sizes: Mapping[str, int],
    ) -> Shaped:
        """The network at these sizes. OtherSizesError where it is not compiled for them."""
        told = ", ".join(f"{s} = {sizes[s]}" for s in self.symbols)
        if min(sizes.values()) < 1:
            raise OtherSizesError(f"{name}: sizes must be at least 1, got {told}")
        for dim, relation, holds in self.conditions:
            if _HOLDS[relation](dim_value(dim, sizes)) != holds:
                text = f"{dim_source(dim)} {relation} 0"
                raise OtherSizesError(
                    f"{name} is compiled for sizes with {'' if holds else 'not '}{text}, got {told}"
                )
        if any(dim_value(d, sizes) > MOST_NARROW for d in self.counts):
            raise OtherSizesError(f"{name}: an array has more than {MOST_NARROW} elements: {told}")

        def known(v: Tensor) -> Tensor:
            return replace(v, shape=tuple(dim_value(d, sizes) for d in v.shape))

        nbytes = [dim_value(d, sizes) for d, _, _ in self.values]
        born, last = [v[1] for v in self.values], [v[2] for v in self.values]
        offsets, size = places_of(nbytes, born, last, self.align)
        return Shaped(
            [known(v) for v in inputs],
            [known(v) for v in outputs],
            size,
            tuple(sizes[s] for s in self.symbols),
            tuple(offsets),
        )


def bound_sizes(
    name: str, inputs: Sequence[Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """The values of the symbols of network `name` for inputs of these shapes.

    Raises ArgumentError where an input is missing, a rank or extent is another than the network's,
    or two inputs give one symbol two values.
    """
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for v in inputs:
        shape = shapes.get(v.name, None if v.default is None else v.default.shape)
        if shape is None:
            expected = ", ".join(map(repr, inputs))
            raise ArgumentError(f"{name}: input {v.name!r} is missing; inputs: {expected}")
        fits = len(shape) == len(v.shape)
        if not fits or any(isinstance(d, int) and d != n for d, n in zip(v.shape, shape)):
            raise ArgumentError(
                f"{name}: input {v.name!r} has shape {shape}, expected {dims_text(v.shape)}"
            )
        for k, (d, n) in enumerate(zip(v.shape, shape)):
            if not isinstance(d, str):
                continue
            if sizes.setdefault(d, n) != n:
                raise ArgumentError(
                    f"{name}: dimension {k} of input {v.name!r}, {d}, is {n}, but {d} is "
                    f"{sizes[d]} in input {first[d]!r}"
                )
            first.setdefault(d, v.name)
    return sizes


class Shapes:
    """The network at the sizes that it was called with."""

    def __init__(
        self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], sizes: OpenSizes
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.sizes = sizes
        self._made: OrderedDict[tuple[int, ...], Shaped] = OrderedDict()
        self._lock = Lock()

    def of(self, given: Mapping[str, Any]) -> Shaped:
        """For arrays by name; ArgumentError as `bound_sizes` and `OpenSizes.shaped`."""
        return self.at(bound_sizes(self.name, self.inputs, shapes_given(self.name, given)))

    def at(self, found: Mapping[str, int]) -> Shaped:
        """For values of the symbols; OtherSizesError as `OpenSizes.shaped`."""
        key = tuple(found[s] for s in self.sizes.symbols)
        with self._lock:
            if key not in self._made:
                made = self.sizes.shaped(self.name, self.inputs, self.outputs, found)
                self._made[key] = made
                if len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]


def element_count(shape: Sequence[Dim]) -> Dim:
    """How many elements an array has."""
    known = prod(d for d in shape if isinstance(d, int))
    total: Dim = known
    for d in shape:
        if not isinstance(d, int):
            total = d if total == 1 else ("mul", total, d)
    return total
