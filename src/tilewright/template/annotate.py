"""define_annotate: unrolling, vectors, threads, and where cached stages are attached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

from ..base.errors import TilewrightError
from ..tensor.axes import thread_axis
from .transform import TransformSpace

_CHOICES: dict[str, tuple[str, ...]] = {
    "none": ("none",),
    "unroll": ("unroll",),
    "vec": ("vec",),
    "unroll_vec": ("unroll", "vec"),
    "try_unroll": ("none", "unroll"),
    "try_vec": ("none", "vec"),
    "try_unroll_vec": ("none", "unroll", "vec"),
    "vec_unroll": ("vec", "unroll"),
    "try_vec_unroll": ("none", "vec", "unroll"),
}
_BLOCKS = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
_THREADS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
ANNOTATIONS = (
    "none", "vec", "unroll", *_BLOCKS[::-1], *_THREADS[::-1], "vthread", "fuse",
)  # fmt: skip
"""What may be said of an axis, in the order in which features have it."""
_POLICIES = (*_CHOICES, "bind_gpu", "bind_gpu_virtual", "locate_cache", "candidate")


class AnnotateEntity:
    """`anns`: what happens to each axis; for cached stages the places of their anchors."""

    __slots__ = ("anns",)

    def __init__(self, anns: Sequence[Any]) -> None:
        self.anns = list(anns)

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Iterable[int] | None = None,
        cfg: Any = None,
        source: Sequence[Any] | None = None,
    ) -> Sequence[Any]:
        """Annotate `axes` of the stage of `op`; with `source`, lists of tensors, one for each
        anchor, attach their stages to it.

        With `axis_lens`, axes longer than `max_unroll` that would be unrolled, and vectors of a
        length not in `vec_size`, make the configuration an error of `cfg`. Raises TilewrightError
        where an annotation is unknown.
        """
        if source is not None:
            for given, place in zip(source, self.anns):
                for tensor in given if isinstance(given, (list, tuple)) else [given]:
                    sch[tensor].compute_at(sch[op], axes[place])
            return axes
        axes = list(axes)
        for i, ann in enumerate(self.anns):
            stage, axis = sch[op], axes[i]
            if ann == "unroll":
                if axis_lens and max_unroll and axis_lens[i] > max_unroll:
                    _refuse(cfg, f"a loop of {axis_lens[i]} steps is too long to be unrolled")
                stage.unroll(axis)
            elif ann == "vec":
                if axis_lens and vec_size and axis_lens[i] not in list(vec_size):
                    _refuse(cfg, f"vectors of {axis_lens[i]} lanes are not allowed here")
                stage.vectorize(axis)
            elif ann in (*_BLOCKS, *_THREADS, "vthread"):
                stage.bind(axis, thread_axis(ann))
            elif ann == "fuse":
                axes[i + 1] = stage.fuse(axis, axes[i + 1])
            elif ann not in ("none", ""):
                raise TilewrightError(f"define_annotate: no annotation is called {ann!r}")
        return axes

    def encode(self) -> list[Any]:
        return ["an", list(self.anns)]

    def __repr__(self) -> str:
        return str(self.anns)


class AnnotateSpace(TransformSpace):
    """Annotations of `axes`, outermost first.

    policy: "none", "unroll", "vec" for all of them; "try_unroll", "try_vec", "try_unroll_vec",
    "unroll_vec" every mixture in which at most one is a vector; "bind_gpu" the block and thread
    indices, "bind_gpu_virtual" with virtual threads between, what is left over being fused;
    "locate_cache" the places of `num_anchor` stages among the axes, from the outside inwards;
    "candidate" the lists in `candidate`. Raises TilewrightError where policy is unknown, where no
    choice is left.
    """

    __slots__ = ("policy",)

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        make = _SPACES.get(policy)
        if make is None:
            raise TilewrightError(
                f"define_annotate has no policy {policy!r}; it has {', '.join(_POLICIES)}"
            )
        self.policy = policy
        self.num_output = len(axes)
        self.entities = [AnnotateEntity(a) for a in make(len(axes), policy, kwargs)]
        self.require_choices("define_annotate")

    @staticmethod
    def get_num_output(axes: Sequence[Any], policy: str, **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Annotate(policy={self.policy}) len={len(self)}"


def _mixtures(count: int, policy: str, kwargs: dict[str, Any]) -> list[Any]:
    if policy == "vec" and count > 1:
        raise TilewrightError("define_annotate: policy 'vec' takes one axis, the innermost")
    choices = _CHOICES[policy]
    return [a for a in product(choices, repeat=count) if a.count("vec") <= 1]


def _bound(count: int, policy: str, kwargs: dict[str, Any]) -> list[Any]:
    virtual = policy == "bind_gpu_virtual"
    parts = 3 if virtual else 2
    if count < parts:
        raise TilewrightError(f"define_annotate: {policy} needs at least {parts} axes, got {count}")
    n = min(count // parts, 3)
    names = [*_BLOCKS[3 - n :], *(["vthread"] * n if virtual else []), *_THREADS[3 - n :]]
    return [[*["fuse"] * (count - len(names)), *names]]


def _anchors(count: int, policy: str, kwargs: dict[str, Any]) -> list[Any]:
    anchors = kwargs.get("num_anchor")
    if anchors is None:
        raise TilewrightError("define_annotate with policy 'locate_cache' needs num_anchor=")
    return list(combinations(range(count), int(anchors)))


def _given(count: int, policy: str, kwargs: dict[str, Any]) -> list[Any]:
    found = [list(c) for c in kwargs.get("candidate", ())]
    for candidate in found:
        if len(candidate) != count:
            raise TilewrightError(
                f"define_annotate: the candidate {candidate} is not for {count} axes"
            )
    return found


_Maker = Callable[[int, str, dict[str, Any]], list[Any]]
_SPACES: dict[str, _Maker] = {
    **dict.fromkeys(_CHOICES, _mixtures),
    "bind_gpu": _bound,
    "bind_gpu_virtual": _bound,
    "locate_cache": _anchors,
    "candidate": _given,
}


def _refuse(cfg: Any, message: str) -> None:
    if cfg is None:
        raise TilewrightError(message)
    cfg.raise_error(message)
