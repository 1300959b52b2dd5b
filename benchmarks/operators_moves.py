"""Cases of the operators' benchmark that move elements: transposes, gathers, slices, pictures."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from benchmarks.operators_draw import Case, Draws, Shape, Values, text


def _whole(*numbers: int) -> Values:
    return Values((len(numbers),), "int64", known=True, given=numbers)


def transposes(d: Draws) -> Iterator[Case]:
    fixed: list[tuple[Shape, list[int], str]] = [
        ((1, 64, 56, 56), [0, 2, 3, 1], "float32"),
        ((1, 224, 224, 3), [0, 3, 1, 2], "float32"),
        ((1, 197, 12, 64), [0, 2, 1, 3], "float32"),
        ((1000, 1000), [1, 0], "float32"),
    ]
    for dtype in ("float32",) * 8 + ("float16", "uint8", "int64", "int8"):
        rank = d.of(2, 3, 3, 4, 4, 5)
        fixed.append((d.shape(rank, d.size()), d.permutation(rank), dtype))
    for shape, axes, dtype in fixed:
        what = f"{dtype} {text(shape)} to {axes}"
        yield Case("transpose", "Transpose", what, [Values(shape, dtype)], {"perm": axes})


def gathers(d: Draws) -> Iterator[Case]:
    for known in (False, False, False, True, False, True):
        rank = d.of(1, 2, 2, 3)
        shape, axis = d.shape(rank, d.size()), d.of(*range(rank))
        count = d.of(1, 3, 17, 128, 512)
        index = d.of((count,), (2, count))
        dtype = d.of("float32", "float32", "int64", "float16")
        high = shape[axis] - 1
        places = Values(index, d.of("int64", "int32"), 0, high, known)
        what = f"{dtype} {text(shape, index)} along {axis}{' constant' if known else ''}"
        yield Case("gather", "Gather", what, [Values(shape, dtype), places], {"axis": axis})
    for _ in range(4):
        rank = d.of(2, 3)
        shape, axis = d.shape(rank, d.size()), d.of(*range(rank))
        index = tuple(d.of(e, max(1, e // 2)) for e in shape)
        places = Values(index, "int64", 0, shape[axis] - 1)
        what = f"{text(shape, index)} along {axis}"
        yield Case("gather", "GatherElements", what, [Values(shape), places], {"axis": axis})
        rank = d.of(2, 3, 4)
        shape, count, deep = d.shape(rank, d.size()), d.of(3, 100, 5000), d.of(1, 2)
        places = Values((count, deep), "int64", 0, min(shape[:deep]) - 1)
        while prod(shape[deep:]) * count > 10_000_000:
            count //= 10
            places = Values((count, deep), "int64", 0, min(shape[:deep]) - 1)
        what = text(shape, places.shape)
        yield Case("gather", "GatherND", what, [Values(shape), places])


def scatters(d: Draws) -> Iterator[Case]:
    for how in ("none", "none", "add", "max"):
        rank = d.of(2, 3)
        shape, axis = d.shape(rank, d.size()), d.of(*range(rank))
        index = list(shape)
        index[axis] = max(1, shape[axis] // d.of(1, 2, 10))
        place = np.arange(index[axis]).reshape([-1 if k == axis else 1 for k in range(rank)])
        given = tuple(np.broadcast_to(place, index).ravel().tolist())
        places = Values(tuple(index), "int64", given=given)
        what = f"{how} {text(shape, index)} along {axis}"
        values = [Values(shape), places, Values(tuple(index))]
        attrs = {"axis": axis, "reduction": how}
        yield Case("scatter", "ScatterElements", what, values, attrs)
    for how in ("none", "none", "add"):
        rank = d.of(2, 3)
        shape = d.shape(rank, d.size())
        count = max(1, shape[0] // d.of(1, 2, 10))
        given = tuple(d.permutation(shape[0])[:count])
        places = Values((count, 1), "int64", given=given)
        what = f"{how} {text(shape)} {count}"
        values = [Values(shape), places, Values((count, *shape[1:]))]
        yield Case("scatter", "ScatterND", what, values, {"reduction": how})


def joins(d: Draws) -> Iterator[Case]:
    for _ in range(6):
        rank, dtype = d.of(2, 3, 4), d.of("float32", "float32", "float32", "float16", "int64")
        whole, axis = d.shape(rank, d.size()), d.of(*range(rank))
        values = []
        for _ in range(d.of(2, 2, 3, 5)):
            part = list(whole)
            part[axis] = max(1, whole[axis] // d.of(2, 3, 4, 16))
            values.append(Values(tuple(part), dtype))
        what = f"{dtype} {text(*(v.shape for v in values))} along {axis}"
        yield Case("concat", "Concat", what, values, {"axis": axis})
    for _ in range(4):
        rank = d.of(2, 3, 4)
        shape, axis, parts = d.shape(rank, d.size(), 3), d.of(*range(rank)), d.of(2, 3)
        cut = list(shape)
        cut[axis] = max(1, cut[axis] // parts) * parts
        attrs = {"axis": axis, "num_outputs": parts}
        what = f"{text(cut)} along {axis} in {parts}"
        yield Case("split", "Split", what, [Values(tuple(cut))], attrs, parts)


def slices(d: Draws) -> Iterator[Case]:
    for _ in range(8):
        rank = d.of(2, 3, 4)
        shape = d.shape(rank, d.size(), 2)
        axes = sorted(d.some(range(rank), d.of(1, 1, 2)))
        starts, ends, steps = [], [], []
        for a in axes:
            step = d.of(1, 1, 2, 3, -1)
            low, high = shape[a] // 5, shape[a] - shape[a] // 7
            starts.append(high - 1 if step < 0 else low)
            ends.append(-shape[a] - 1 if step < 0 and low == 0 else low if step < 0 else high)
            steps.append(step)
        dtype = d.of("float32", "float32", "float16", "int64")
        inputs = [Values(shape, dtype), *(_whole(*n) for n in (starts, ends, axes, steps))]
        what = f"{dtype} {text(shape)} of {axes} {starts}:{ends}:{steps}"
        yield Case("slice", "Slice", what, inputs)


def pads(d: Draws) -> Iterator[Case]:
    for mode in ("constant", "constant", "reflect", "reflect", "edge", "edge", "wrap"):
        rank = d.of(2, 3, 4)
        shape = d.shape(rank, d.size(), 3)
        before, after = ([d.of(0, 0, 1, 2) for _ in shape] for _ in range(2))
        what = f"{mode} {text(shape)} {before} {after}"
        inputs = [Values(shape), _whole(*before, *after)]
        yield Case("pad", "Pad", what, inputs, {"mode": mode})


def repeats(d: Draws) -> Iterator[Case]:
    for _ in range(3):
        rank = d.of(2, 3)
        counts = [d.of(1, 2, 3) for _ in range(rank)]
        shape = d.shape(rank, d.of("small", "medium"))
        what = f"{text(shape)} by {counts}"
        yield Case("tile", "Tile", what, [Values(shape), _whole(*counts)])
        shape = d.shape(d.of(2, 3, 4), d.size())
        small = tuple(e if d.of(0, 1) else 1 for e in shape)
        what = f"{text(small)} to {text(shape)}"
        yield Case("tile", "Expand", what, [Values(small), _whole(*shape)])
    for op in ("DepthToSpace", "DepthToSpace", "SpaceToDepth"):
        block = d.of(2, 3)
        n, c, h, w = d.image(d.of("medium", "large"), (4, 16, 64))
        attrs: dict[str, Any] = {"blocksize": block}
        if op == "DepthToSpace":
            attrs["mode"] = d.of("DCR", "CRD")
            c *= block * block
            h, w = h // block + 1, w // block + 1
        else:
            h, w = h // block * block, w // block * block
        shape = (n, c, h, w)
        what = f"{text(shape)} by {block} {attrs.get('mode', '')}"
        yield Case("depth", op, what, [Values(shape)], attrs)
    for op in ("Flatten", "Identity"):
        shape = d.shape(3, d.size())
        yield Case("copy", op, text(shape), [Values(shape)])
    for _ in range(2):
        shape, upper = d.shape(3, d.size()), d.of(0, 1)
        yield Case("triangle", "Trilu", f"{text(shape)} {upper}", [Values(shape)], {"upper": upper})
    steps, batch = d.of(7, 97, 128), d.of(3, 16)
    shape = (steps, batch, d.of(64, 256))
    lengths = Values((batch,), "int64", 1, steps)
    yield Case("copy", "ReverseSequence", text(shape), [Values(shape), lengths])


def found(d: Draws) -> Iterator[Case]:
    for axis in (-1, -1, 0):
        shape, depth = d.of((128,), (17, 64), (1000,)), d.of(3, 97, 1000)
        values = Values((2,), "float32", given=(0, 1), known=True)
        size = Values((), "int64", known=True, given=(depth,))
        what = f"{text(shape)} of {depth} {axis}"
        inputs = [Values(shape, "int64", 0, depth - 1), size, values]
        yield Case("onehot", "OneHot", what, inputs, {"axis": axis})
    for dtype in ("float32", "bool", "int64"):
        shape = d.shape(d.of(1, 2, 3), d.of("medium", "medium", "large"))
        yield Case("nonzero", "NonZero", f"{dtype} {text(shape)}", [Values(shape, dtype, 0, 1)])
    for dtype, rows in (("int64", False), ("float32", False), ("int64", True)):
        shape = (d.of(100, 1000), d.of(3, 8)) if rows else d.shape(1, "medium")
        attrs = {"axis": 0} if rows else {}
        what = f"{dtype} {text(shape)}{' rows' * rows}"
        yield Case("unique", "Unique", what, [Values(shape, dtype, 0, 99)], attrs, 4)
    shape = d.shape(2, d.of("medium", "large"))
    mask = Values((shape[0],), "bool")
    yield Case("compress", "Compress", text(shape), [Values(shape), mask], {"axis": 0})
    for boxes, classes in ((200, 1), (1000, d.of(2, 8)), (3000, 1)):
        most = d.of(20, 100)
        inputs = [
            Values((1, boxes, 4), low=0, high=100),
            Values((1, classes, boxes), low=0, high=1),
        ]
        inputs.append(_whole(most))
        inputs += [Values((1,), given=(n,), known=True) for n in (0.5, 0.1)]
        what = f"{boxes} boxes {classes} classes {most}"
        yield Case("nms", "NonMaxSuppression", what, inputs, {"center_point_box": 1})


def _scales(d: Draws, dims: int) -> list[float]:
    factor = d.of(0.5, 2.0, 2.0, 1.7, 0.37, 3.0)
    return [1.0, 1.0, *[factor] * dims]


def pictures(d: Draws) -> Iterator[Case]:
    modes = ("nearest", "nearest", "nearest", "linear", "linear", "linear", "cubic", "cubic")
    for mode in modes:
        dims = 2 if mode == "cubic" else d.of(1, 2, 2, 2, 3 if mode == "nearest" else 2)
        shape, scales = (
            d.image(d.of("medium", "medium", "large"), (1, 3, 17, 64), dims),
            _scales(d, dims),
        )
        if prod(shape) * prod(scales) > 8e6:
            scales = [1.0, 1.0, *[0.5] * dims]
        align = d.of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": align}
        if mode == "nearest":
            attrs["nearest_mode"] = d.of("floor", "round_prefer_floor")
        elif d.of(0, 0, 0, 1) and scales[-1] < 1 and mode == "linear" and dims == 2:
            attrs["antialias"] = 1
        factors = Values((len(scales),), "float32", given=tuple(scales), known=True)
        what = (
            f"{mode} {align} {text(shape)} by {scales[-1]}{' antialias' * ('antialias' in attrs)}"
        )
        yield Case("resize", "Resize", what, [Values(shape), None, factors], attrs)
    shape = d.image("medium", (3, 16))
    factors = Values((4,), "float32", given=(1, 1, 2, 2), known=True)
    attrs = {"mode": "nearest"}
    inputs = [Values(shape, "uint8"), None, factors]
    yield Case("resize", "Resize", f"uint8 nearest {text(shape)} by 2", inputs, attrs)
    for mode in ("linear", "linear", "nearest", "cubic"):
        n, _, h, w = shape = d.image("medium", (3, 16, 64))
        grid = (n, h // 2 + 1, w + 3, 2)
        attrs = {"mode": mode, "padding_mode": d.of("zeros", "border", "reflection")}
        inputs = [Values(shape), Values(grid, low=-1.1, high=1.1)]
        what = f"{mode} {attrs['padding_mode']} {text(shape, grid)}"
        yield Case("gridsample", "GridSample", what, inputs, attrs)
    for mode in ("avg", "avg", "max"):
        boxes, side = d.of(3, 50, 200), d.of(7, 14)
        shape = (1, d.of(16, 64, 256), 38, 50)
        corners = np.sort(np.random.default_rng(boxes).uniform(0, 500, (boxes, 2, 2)), axis=1)
        inputs = [Values(shape), Values((boxes, 4), given=tuple(corners.ravel().tolist()))]
        inputs.append(Values((boxes,), "int64", 0, 0))
        attrs = {"output_height": side, "output_width": side, "spatial_scale": 0.0625}
        attrs |= {"mode": mode, "sampling_ratio": d.of(0, 2)}
        what = f"{mode} {text(shape)} {boxes} of {side} ratio {attrs['sampling_ratio']}"
        yield Case("roialign", "RoiAlign", what, inputs, attrs)


FAMILIES = (transposes, gathers, scatters, joins, slices, pads, repeats, found, pictures)
