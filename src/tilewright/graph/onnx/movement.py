"""Operators that divide, repeat, pad or reorder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Value
from .compose import Compose
from .convert import Builder, Converter, OnHostError, OnnxNode


def split(b: Builder, node: OnnxNode) -> list[Value | None]:
    """One slice for each output that is asked for."""
    x = node.input(0)
    axis = node.axis(node.get("axis", 0), len(x.shape))
    extent, count = x.shape[axis], len(node.outputs)
    sizes = node.numbers("split") if "split" in node.attrs else node.numbers(1)
    if sizes is None:
        parts = node.get("num_outputs", count)
        each = -(-extent // parts) if parts > 0 else 0
        if parts < 1 or (b.opset < 18 and extent % parts):
            raise node.error(f"{extent} elements do not divide into {parts} equal parts")
        sizes = [max(min(each, extent - k * each), 0) for k in range(parts)]
    if sum(sizes) != extent or any(n < 0 for n in sizes) or len(sizes) < count:
        raise node.error(
            f"parts {sizes} for {count} outputs do not make up the {extent} elements of axis {axis}"
        )
    c = Compose(b, node)
    found: list[Value | None] = []
    at = 0
    for size, name in zip(sizes, node.outputs):
        found.append(c.part(x, axis, at, at + size) if name else None)
        at += size
    return found


def tile(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    if b.opset < 6:  # along one axis
        axis = node.axis(int(np.asarray(node.array(2)).reshape(-1)[0]), rank)
        repeats = [1] * rank
        repeats[axis] = int(np.asarray(node.array(1)).reshape(-1)[0])
    else:
        repeats = node.numbers(1, rank) or []
    if min(repeats, default=1) < 0:
        raise node.error(f"repeats {repeats} must not be negative")
    if all(r == 1 for r in repeats):
        return x
    return b.add("tile", [x], node.name, repeats=tuple(repeats))


def pads_of(b: Builder, node: OnnxNode, rank: int) -> tuple[list[int], list[int]]:
    """What Pad adds before and behind each dimension."""
    if b.opset < 2:
        listed = node.numbers("paddings", 2 * rank) or [0] * (2 * rank)
        return listed[:rank], listed[rank:]
    given = node.numbers(3) if b.opset >= 18 else None
    axes = list(range(rank)) if given is None else node.axes(given, rank)
    pads = node.numbers("pads" if b.opset < 11 else 1, 2 * len(axes)) or []
    before, after = [0] * rank, [0] * rank
    for k, a in enumerate(axes):
        before[a], after[a] = pads[k], pads[k + len(axes)]
    return before, after


def crop(b: Builder, node: OnnxNode, x: Value, before: Any, after: Any) -> Value:
    """Without the elements that negative pads take away."""
    begin = [max(-p, 0) for p in before]
    end = [d - max(-p, 0) for d, p in zip(x.shape, after)]
    if any(e < s for s, e in zip(begin, end)):
        raise node.error(f"pads {[*before, *after]} take more away than there is in {x!r}")
    if not any(begin) and tuple(end) == x.shape:
        return x
    return b.add("slice", [x], node.name + ".crop", begin=begin, end=end, strides=[1] * len(end))


_MODES = {"edge": "EDGE", "reflect": "REFLECT", "wrap": "WRAP"}


def pad(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    mode = node.get("mode", "constant")
    if mode != "constant" and mode not in _MODES:
        raise node.error(f"mode {mode!r} is unknown")
    before, after = pads_of(b, node, len(x.shape))
    x = crop(b, node, x, before, after)
    before, after = [max(p, 0) for p in before], [max(p, 0) for p in after]
    if not any([*before, *after]):
        return x
    if mode != "constant":
        return b.add("mirror_pad", [x], node.name, before=before, after=after, mode=_MODES[mode])
    given = node.optional(2) if b.opset >= 11 else None
    if given is not None and given.data is None:
        if int(np.prod(given.shape)) != 1:
            raise node.error(f"the value is one number, got {given!r}")
        value = b.add("reshape", [given], node.name + ".value", shape=())
        return b.add("pad_by", [x, value], node.name, before=before, after=after)
    number: Any = node.get("value", 0.0) if given is None else given.data
    if np.size(number) != 1:
        raise node.error(f"the value is one number, got {np.size(number)}")
    number = np.asarray(number).reshape(-1)[0].item()
    return b.add("pad", [x], node.name, before=before, after=after, value=number)


def center_crop_pad(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    given = node.numbers("axes")
    axes = list(range(rank)) if given is None else node.axes(given, rank)
    wanted = node.numbers(1, len(axes)) or []
    before, after = [0] * rank, [0] * rank
    for a, size in zip(axes, wanted):
        more = size - x.shape[a]
        before[a] = more // 2 if more > 0 else -(-more // 2)
        after[a] = more - before[a]
    x = crop(b, node, x, before, after)
    before, after = [max(p, 0) for p in before], [max(p, 0) for p in after]
    if not any([*before, *after]):
        return x
    return b.add("pad", [x], node.name, before=before, after=after, value=0)


def depth_to_space(b: Builder, node: OnnxNode) -> Value:
    """Channels become blocks of pixels, numbered before the channels that are left (DCR) or behind
    them (CRD)."""
    x = node.input(0)
    block = _block(node, x)
    n, channels, h, w = x.shape
    left = channels // (block * block)
    if left * block * block != channels:
        raise node.error(f"{channels} channels are no blocks of {block} x {block} pixels")
    c = Compose(b, node)
    if node.get("mode", "DCR") == "DCR":
        apart, order = (n, block, block, left, h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, order = (n, left, block, block, h, w), (0, 1, 4, 2, 5, 3)
    moved = c.transpose(c.reshape(x, apart), order)
    return c.reshape(moved, (n, left, h * block, w * block))


def space_to_depth(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    block = _block(node, x)
    n, channels, h, w = x.shape
    if h % block or w % block:
        raise node.error(f"{x!r} has no whole blocks of {block} x {block} pixels")
    c = Compose(b, node)
    apart = c.reshape(x, (n, channels, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    shape = (n, channels * block * block, h // block, w // block)
    return c.reshape(c.transpose(apart, order), shape)


def _block(node: OnnxNode, x: Value) -> int:
    block = int(node.get("blocksize", 0))
    if block < 1 or len(x.shape) != 4:
        raise node.error(f"blocksize must be 1 or more and the data (N, C, H, W): {block}, {x!r}")
    return block


def reverse_sequence(b: Builder, node: OnnxNode) -> Value:
    x, lengths = node.input(0), node.input(1)
    rank = len(x.shape)
    batch, seq = (
        node.axis(node.get("batch_axis", 1), rank),
        node.axis(node.get("time_axis", 0), rank),
    )
    if batch == seq or lengths.shape != (x.shape[batch],):
        raise node.error(f"lengths {lengths!r} of axis {seq} do not fit axis {batch} of {x!r}")
    return b.add("reverse_sequence", [x, lengths], node.name, seq_axis=seq, batch_axis=batch)


def compress(b: Builder, node: OnnxNode) -> Value:
    """Elements that a condition picks; which, must be known."""
    x, condition = node.input(0), node.input(1)
    if condition.data is None:
        raise OnHostError(str(node.error("the shape of the result depends on the data")))
    places = np.flatnonzero(condition.data)
    c = Compose(b, node)
    axis = node.get("axis")
    if axis is None:
        x, axis = c.reshape(x, (int(np.prod(x.shape)),)), 0
    axis = node.axis(axis, len(x.shape))
    if places.size and places[-1] >= x.shape[axis]:
        raise node.error(f"the condition picks element {places[-1]} of {x.shape[axis]}")
    return c("take", x, c.constant(places), axis=axis)


CONVERTERS: dict[str, Converter] = {
    "Split": split,
    "Tile": tile,
    "Pad": pad,
    "CenterCropPad": center_crop_pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "ReverseSequence": reverse_sequence,
    "Compress": compress,
}
