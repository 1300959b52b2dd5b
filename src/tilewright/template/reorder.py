"""define_reorder: the order of loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from ..base.errors import TilewrightError
from .transform import TransformSpace

_POLICIES = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")


class ReorderEntity:
    """`perm`: the place of each loop's axis among those given, outermost first."""

    __slots__ = ("perm",)

    def __init__(self, perm: Sequence[int]) -> None:
        self.perm = [int(p) for p in perm]

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder `axes` of the stage of `op`; they come back in their new order."""
        if len(axes) != len(self.perm):
            raise TilewrightError(
                f"reorder: {len(self.perm)} axes were defined, {len(axes)} are given"
            )
        ordered = [axes[i] for i in self.perm]
        if self.perm != sorted(self.perm):
            sch[op].reorder(*ordered)
        return ordered

    def encode(self) -> list[Any]:
        return ["re", list(self.perm)]

    def __repr__(self) -> str:
        return str(self.perm)


class ReorderSpace(TransformSpace):
    """Orders of `axes`.

    policy: "identity" the given one, "all" every permutation, "interval_all" permutes those of
    `interval` = (begin, end), "candidate" takes the lists of axes in `candidate`; "interleave"
    merges chains, each of whose axes stay in order: `spatial` and `reduce` are lists of split axes,
    whose inner levels alternate.
    """

    __slots__ = ("policy",)

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        if policy not in _POLICIES:
            raise TilewrightError(
                f"define_reorder has no policy {policy!r}; it has {', '.join(_POLICIES)}"
            )
        self.policy = policy
        self.num_output = count = len(axes)
        whole = list(range(count))
        if policy == "identity":
            orders = [whole]
        elif policy == "all":
            orders = [list(p) for p in permutations(whole)]
        elif policy == "interval_all":
            begin, end = _required(kwargs, "interval", policy)
            middle = permutations(whole[begin:end])
            orders = [whole[:begin] + list(p) + whole[end:] for p in middle]
        elif policy == "candidate":
            orders = [_places(axes, c) for c in _required(kwargs, "candidate", policy)]
        else:
            spatial, reduce = (_required(kwargs, k, policy) for k in ("spatial", "reduce"))
            orders = [_places(axes, o) for o in _interleave(spatial, reduce, policy)]
        self.entities = [ReorderEntity(o) for o in orders]
        self.require_choices("define_reorder")

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Reorder(policy={self.policy}) len={len(self)}"


def _required(kwargs: dict[str, Any], name: str, policy: str) -> Any:
    if name not in kwargs:
        raise TilewrightError(f"define_reorder with policy {policy!r} needs {name}=")
    return kwargs[name]


def _places(axes: Sequence[Any], order: Sequence[Any]) -> list[int]:
    """Where the axes of an order stand among those given."""
    places = []
    for axis in order:
        found = [i for i, a in enumerate(axes) if a is axis or _same_axis(a, axis)]
        if len(found) != 1:
            raise TilewrightError(f"define_reorder: {axis!r} is not one of the axes given")
        places += found
    if sorted(places) != list(range(len(axes))):
        raise TilewrightError("define_reorder: an order has to name each of the axes once")
    return places


def _same_axis(a: Any, b: Any) -> bool:
    """Axes of knobs are made anew at each use, as places of a space."""
    space = getattr(a, "space", None)
    return space is not None and space is getattr(b, "space", None) and a.index == b.index


def _interleave(
    spatial: Sequence[Sequence[Any]], reduce: Sequence[Sequence[Any]], policy: str
) -> list[list[Any]]:
    """Outermost spatial axes, then the inner levels of both kinds alternating in every way that
    keeps each kind's levels in order; "interleave_cuda" keeps the last spatial level innermost."""
    outer = [chain[0] for chain in spatial]
    inner_space = _levels([chain[1:] for chain in spatial])
    tail = [inner_space.pop()] if policy == "interleave_cuda" and inner_space else []
    merged = _merge(inner_space, _levels(reduce))
    return [outer + [a for level in (*m, *tail) for a in level] for m in merged]


def _levels(chains: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Level by level from the innermost: chains may differ in length."""
    depth = max((len(c) for c in chains), default=0)
    return [
        [c[len(c) - depth + k] for c in chains if len(c) - depth + k >= 0] for k in range(depth)
    ]


def _merge(a: list[list[Any]], b: list[list[Any]]) -> list[list[list[Any]]]:
    if not a or not b:
        return [a + b]
    return [[a[0], *rest] for rest in _merge(a[1:], b)] + [
        [b[0], *rest] for rest in _merge(a, b[1:])
    ]
