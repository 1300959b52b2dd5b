"""Windows that slide over the dimensions behind the first two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir import Value
from .compose import Compose
from .convert import OnnxNode


@dataclass(frozen=True)
class Window:
    """Its extents and steps, and the padding in front of each dimension and behind each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def padding(self) -> tuple[int, ...]:
        return (*self.before, *self.after)

    @property
    def steps(self) -> dict[str, tuple[int, ...]]:
        """As attributes of operations."""
        return {"strides": self.strides, "padding": self.padding, "dilation": self.dilation}

    @property
    def on_plane(self) -> Window:
        """Of one dimension, the window over a plane of one row; others as they are."""
        if self.rank > 1:
            return self
        row = {"kernel": 1, "strides": 1, "before": 0, "after": 0, "dilation": 1}
        return Window(**{name: (n, *getattr(self, name)) for name, n in row.items()})

    @property
    def reach(self) -> tuple[int, ...]:
        """From the first element of a window to the one behind its last."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation))


def steps_of(node: OnnxNode, data: Value, kernel: Any, what: str) -> tuple[list[int], list[int]]:
    """Strides and dilations of a window of extents `kernel`, checked."""
    rank = len(data.shape) - 2
    if rank < 1 or kernel is None or len(kernel) != rank:
        raise node.error(f"{what} of {data!r} with a window of extents {kernel and [*kernel]}")
    strides = node.numbers("strides", rank) or [1] * rank
    dilation = node.numbers("dilations", rank) or [1] * rank
    if min(*kernel, *strides, *dilation) < 1:
        raise node.error(
            f"kernel {list(kernel)}, strides {strides} and dilations {dilation} must be 1 or more"
        )
    return strides, dilation


def window_of(node: OnnxNode, data: Value, kernel: Any, what: str) -> Window:
    strides, dilation = steps_of(node, data, kernel, what)
    rank = len(strides)
    pads = _pads(node, data.shape[2:], kernel, strides, dilation)
    before, after = tuple(pads[:rank]), tuple(pads[rank:])
    w = Window(tuple(kernel), tuple(strides), before, after, tuple(dilation))
    if what == "convolution":
        for k, (size, reach) in enumerate(zip(data.shape[2:], w.reach)):
            if size > 0 and size + before[k] + after[k] < reach:
                raise node.error(
                    f"a window reaches over {reach} elements, and dimension {k + 2} of {data!r} "
                    f"has {size}, with {before[k] + after[k]} beside it"
                )
    return w


def auto_pad_of(node: OnnxNode) -> str:
    auto = node.get("auto_pad", "NOTSET") or "NOTSET"
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"auto_pad {auto!r} is unknown")
    return str(auto)


def _pads(node: OnnxNode, spatial: Any, kernel: Any, strides: Any, dilation: Any) -> list[int]:
    """What is added before each dimension, then behind each."""
    auto = auto_pad_of(node)
    rank = len(spatial)
    if auto == "NOTSET":
        return node.numbers("pads", 2 * rank) or [0] * (2 * rank)
    if auto == "VALID":
        return [0] * (2 * rank)
    before, after = [], []
    for size, k, s, d in zip(spatial, kernel, strides, dilation):
        total = max(0, ((size + s - 1) // s - 1) * s + d * (k - 1) + 1 - size)
        low = total // 2 if auto == "SAME_UPPER" else total - total // 2
        before.append(low)
        after.append(total - low)
    return [*before, *after]


def cropped(c: Compose, data: Value, w: Window) -> tuple[Value, Window]:
    """Negative padding takes elements away; the data without them, and a window without it."""
    if min(w.padding) >= 0:
        return data, w
    for k, (low, high) in enumerate(zip(w.before, w.after), 2):
        begin, end = max(-low, 0), data.shape[k] - max(-high, 0)
        if end < begin:
            raise c.node.error(f"pads {list(w.padding)} take more away than there is in {data!r}")
        data = c.part(data, k, begin, end)
    before, after = (tuple(max(p, 0) for p in pads) for pads in (w.before, w.after))
    return data, Window(w.kernel, w.strides, before, after, w.dilation)


def plane(c: Compose, v: Value, rank: int) -> Value:
    """(N, C, W) as (N, C, 1, W); others as they are."""
    return c.reshape(v, (*v.shape[:2], 1, v.shape[2])) if rank == 1 else v


def unplane(c: Compose, v: Value, rank: int) -> Value:
    """What `plane` did, undone for a result."""
    return c.reshape(v, (*v.shape[:2], v.shape[3])) if rank == 1 else v
