"""define_split: the lengths of the loops that an axis is split into."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..base.errors import TilewrightError
from .transform import TransformSpace, length_of

_POLICIES = ("factors", "power2", "verbose", "candidate")


class SplitEntity:
    """`size`: lengths from the outermost loop inwards; the first is -1: what remains."""

    __slots__ = ("size",)

    def __init__(self, size: Sequence[int]) -> None:
        self.size = [int(s) for s in size]

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split `axis` of the stage of `op`; the new axes, outermost first."""
        axes = []
        for i in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, factor=math.prod(self.size[i:]))
            axes.append(outer)
        return [*axes, axis]

    def encode(self) -> list[Any]:
        return ["sp", list(self.size)]

    def __repr__(self) -> str:
        return str(self.size)


class SplitSpace(TransformSpace):
    """All splits of an axis into `num_outputs` loops.

    policy: "factors" takes divisors of the length, "power2" powers of two up to it,
    "verbose" both, "candidate" the sizes in `candidate`. `max_factor` bounds each length but the
    outermost; `no_tail` keeps those that divide the length evenly (always so for "factors");
    `filter` is called with each entity and says whether to keep it. Raises TilewrightError where
    policy is unknown, or num_outputs is below 1, where a candidate has not num_outputs lengths,
    where no choice is left.
    """

    __slots__ = ("factors", "policy", "product")

    def __init__(
        self,
        axis: Any,
        policy: str = "factors",
        num_outputs: int = 2,
        max_factor: int = 1 << 31,
        filter: Callable[[SplitEntity], bool] | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()
        policy = {"all": "factors"}.get(policy, policy)
        if policy not in _POLICIES:
            raise TilewrightError(
                f"define_split has no policy {policy!r}; it has {', '.join(_POLICIES)}"
            )
        if num_outputs < 1:
            raise TilewrightError(f"define_split: num_outputs has to be at least 1: {num_outputs}")
        self.product = length_of(axis[0] if isinstance(axis, (list, tuple)) else axis)
        self.policy = policy
        self.num_output = num_outputs
        self.factors: list[int] = []
        if policy == "candidate":
            self.entities = [self._candidate(size) for size in candidate]
        else:
            self.factors = _factors(self.product, policy, max_factor)
            self._enumerate(policy == "factors" if no_tail is None else no_tail)
        if filter is not None:
            self.entities = [e for e in self.entities if filter(e)]
        self.require_choices("define_split")

    def _candidate(self, size: Sequence[int]) -> SplitEntity:
        if len(size) != self.num_output:
            raise TilewrightError(
                f"define_split: the candidate {list(size)} has {len(size)} lengths, "
                f"num_outputs is {self.num_output}"
            )
        return SplitEntity(size)

    def _enumerate(self, no_tail: bool) -> None:
        """Every choice of inner lengths, in TVM's order: the innermost varies slowest."""
        product, count = self.product, self.num_output - 1
        stack: list[tuple[tuple[int, ...], int]] = [((), 1)]
        while stack:
            inner, size = stack.pop()
            if len(inner) == count:
                if not (no_tail and product % size):
                    self.entities.append(SplitEntity([-1, *inner[::-1]]))
                continue
            for factor in reversed(self.factors):
                if size * factor <= product:
                    stack.append(((*inner, factor), size * factor))

    @staticmethod
    def get_num_output(axis: Any, policy: str = "factors", **kwargs: Any) -> int:
        return int(kwargs.get("num_outputs", 2))

    def __repr__(self) -> str:
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )


def _factors(product: int, policy: str, max_factor: int) -> list[int]:
    found: set[int] = set()
    if policy in ("factors", "verbose"):
        found.update(divisors(product))
    if policy in ("power2", "verbose"):
        found.update(get_pow2s(product))
    return sorted(f for f in found if f <= max_factor) or [1]


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to n, ascending."""
    return [1 << k for k in range(int(n).bit_length())]


def get_factors(n: int) -> list[int]:
    """The divisors of n, ascending."""
    return list(divisors(int(n)))


@cache
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n, ascending."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*low, *(n // d for d in low)}))
