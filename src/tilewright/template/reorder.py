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
        """Reorder `axes` of the stage of `op`; they come back in their new order. Raises
        TilewrightError where axes are not as many as were defined."""
        ordered = [axes[i] for i in self.perm if i < len(axes)]
        if len(ordered) != len(axes):
            raise TilewrightError(
                f"reorder: {len(self.perm)} axes were defined, {len(axes)} are given"
            )
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
    and "interleave_cuda" merge chains, each of whose axes stay in order: `spatial` and `reduce` are
    lists of split axes (see `_interleave`). Raises TilewrightError where policy is unknown, where
    the policy needs an argument that is not given, where an order does not name each of the axes
    once, where no choice is left.
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
    """Chains merged level by level: the spatial ones without their innermost axes, then these with
    the reductions; "interleave_cuda" keeps the innermost spatial axes innermost."""
    outer = _merge([chain[:-1] for chain in spatial])
    if policy == "interleave_cuda":
        return [[*outer, *_merge(reduce), *(chain[-1] for chain in spatial)]]
    return [[*outer, *_merge([*(chain[-1:] for chain in spatial), *reduce])]]


def _merge(chains: Sequence[Sequence[Any]]) -> list[Any]:
    """All axes, each chain's in order: the next is of the first chain that has most axes left."""
    left = [list(chain) for chain in chains]
    merged = []
    while any(left):
        merged.append(max(left, key=len).pop(0))
    return merged
