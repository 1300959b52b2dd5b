"""What bound and residue queries answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from .forms import INF


class ProofStrength(enum.IntEnum):
    """How hard a proof is tried; all strengths are the same here."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(enum.Flag):
    """Parts of TVM's simplifier that are off unless asked for."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1 << 0
    ConvertBooleanToAndOfOrs = 1 << 1
    ApplyConstraintsToBooleanBranches = 1 << 2
    ComparisonOfProductAndSum = 1 << 3


class CompareResult(enum.IntFlag):
    """What is known of the order of two values: any of EQ, LT, GT may be, and no other."""

    INCONSISTENT = 0
    EQ = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5
    NE = 6
    UNKNOWN = 7


@dataclass
class RewriteStats:
    """What `rewrite_simplify` did: nodes looked at, rules tried and applied, and applied to what
    others gave."""

    nodes_visited: int = 0
    constraints_entered: int = 0
    rewrites_attempted: int = 0
    rewrites_performed: int = 0
    max_recursive_depth: int = 0
    num_recursive_rewrites: int = 0


class ConstIntBound:
    """min_value <= x <= max_value; the sentinels NEG_INF and POS_INF say that there is no limit."""

    __slots__ = ("max_value", "min_value")
    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -((1 << 63) - 1)

    def __init__(self, min_value: float, max_value: float) -> None:
        self.min_value = _finite(min(min_value, self.POS_INF - 1))
        self.max_value = _finite(max(max_value, self.NEG_INF + 1))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConstIntBound)
            and self.min_value == other.min_value
            and self.max_value == other.max_value
        )

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        return f"ConstIntBound[{_text(self.min_value)},{_text(self.max_value)}]"


def _finite(value: float) -> int:
    if value == INF:
        return ConstIntBound.POS_INF
    if value == -INF:
        return ConstIntBound.NEG_INF
    return max(ConstIntBound.NEG_INF, min(ConstIntBound.POS_INF, int(value)))


def _text(value: int) -> str:
    named = {ConstIntBound.POS_INF: "pos_inf", ConstIntBound.NEG_INF: "neg_inf"}
    return named.get(value, str(value))


def unlimited(value: int) -> float:
    """A limit of a ConstIntBound with its sentinels as infinities."""
    if value >= ConstIntBound.POS_INF:
        return INF
    return -INF if value <= ConstIntBound.NEG_INF else value


class ModularSet:
    """x = base modulo coeff; coeff 0: x is base, coeff 1: nothing is known."""

    __slots__ = ("base", "coeff")

    def __init__(self, coeff: int, base: int) -> None:
        self.coeff = coeff
        self.base = base

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ModularSet) and self.coeff == other.coeff and self.base == other.base
        )

    def __hash__(self) -> int:
        return hash((self.coeff, self.base))

    def __repr__(self) -> str:
        return f"ModularSet(coeff={self.coeff}, base={self.base})"
