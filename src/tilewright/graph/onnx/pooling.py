"""Pooling: by windows, over whole images, over regions; and maxima put back."""

from __future__ import annotations

from math import prod

from ..ir import Value
from ..sizes import Size
from .compose import Compose
from .convert import Builder, Converter, OnnxNode
from .window import Window, cropped, plane, unplane, window_of


def _window(c: Compose, node: OnnxNode) -> tuple[Value, Window]:
    """The data and its window, no padding being as wide as one."""
    data = node.input(0)
    w = window_of(node, data, node.get("kernel_shape"), "pooling")
    data, w = cropped(c, data, w)
    if any(p >= r for p, r in zip(w.padding, w.reach * 2)):
        raise node.error(
            f"pads {list(w.padding)} must be less than the extent of a window, {list(w.reach)}: "
            "some windows would lie in the padding, and have no elements"
        )
    if node.get("ceil_mode", 0):
        for k, d in enumerate(data.shape[2:]):
            s, reach = w.strides[k], w.reach[k]
            last = (d + w.before[k] + w.after[k] + s - 1 - reach) // s * s
            if isinstance(d, Size) and last >= d + w.before[k]:
                raise node.error(f"a last window over {d} elements would begin behind them")
    return data, w


def pooled(c: Compose, node: OnnxNode, kind: str) -> Value:
    data, w = _window(c, node)
    how = {name: bool(node.get(name, 0)) for name in ("ceil_mode", "count_include_pad")}
    if w.rank > 2 or kind == "lp":
        p = float(node.get("p", 2))
        return c("pool_nd", data, kernel=w.kernel, **w.steps, type=kind, **how, p=p)
    wide, data = w.on_plane, plane(c, data, w.rank)
    out = c("pool2d", data, kernel=wide.kernel, **wide.steps, type=kind, **how)
    return unplane(c, out, w.rank)


def _pool(kind: str) -> Converter:
    return lambda b, node: pooled(Compose(b, node), node, kind)


def max_pool(b: Builder, node: OnnxNode) -> list[Value | None]:
    """The maxima, and where they were in the data."""
    c = Compose(b, node)
    found: list[Value | None] = [pooled(c, node, "max")]
    if len(node.outputs) > 1 and node.outputs[1]:
        whole = node.input(0)
        data, w = _window(c, node)
        if data.shape != whole.shape:
            raise node.error("negative padding together with indices is not supported")
        index = c(
            "max_pool_index",
            data,
            kernel=w.kernel,
            **w.steps,
            ceil_mode=bool(node.get("ceil_mode", 0)),
            column_major=bool(node.get("storage_order", 0)),
        )
        found.append(index)
    return found


def _image(c: Compose, node: OnnxNode, x: Value) -> Value:
    """Two spatial dimensions instead of as many as there are."""
    if len(x.shape) < 2:
        raise node.error(f"pooling of {x!r}, which has no channels")
    n, channels, *size = x.shape
    shape = (n, channels, prod(size[:-1]), size[-1]) if size else (n, channels, 1, 1)
    return c.reshape(x, shape)


def _global_pool(kind: str) -> Converter:
    def convert(b: Builder, node: OnnxNode) -> Value:
        x = node.input(0)
        c = Compose(b, node)
        out = c("global_pool", _image(c, node, x), type=kind)
        return c.reshape(out, (*x.shape[:2], *[1] * (len(x.shape) - 2)))

    return convert


def global_lp_pool(b: Builder, node: OnnxNode) -> Value:
    x = node.input(0)
    c = Compose(b, node)
    p = float(node.get("p", 2))
    whole = _image(c, node, x)
    rows = c.reshape(whole, (*x.shape[:2], 1, prod(whole.shape[2:])))
    size = rows.shape[3]
    out = c(
        "pool_nd",
        rows,
        kernel=(1, size),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        type="lp",
        ceil_mode=False,
        count_include_pad=False,
        p=p,
    )
    return c.reshape(out, (*x.shape[:2], *[1] * (len(x.shape) - 2)))


def max_unpool(b: Builder, node: OnnxNode) -> Value:
    """Maxima at the places they came from, zeros elsewhere. Indices count the elements of what the
    windows cover; `output_shape` may be larger."""
    x, indices = node.input(0), node.input(1)
    if indices.shape != x.shape:
        raise node.error(f"the indices {indices!r} do not fit {x!r}")
    rank = len(x.shape) - 2
    kernel = node.numbers("kernel_shape", rank) or []
    strides = node.numbers("strides", rank) or [1] * rank
    pads = node.numbers("pads", 2 * rank) or [0] * (2 * rank)
    given = zip(x.shape[2:], strides, kernel, pads, pads[rank:])
    covered = [(n - 1) * s + k - p - q for n, s, k, p, q in given]
    shape = (*x.shape[:2], *covered)
    c = Compose(b, node)
    zeros = c.full((prod(shape),), 0, x.dtype)
    flat = [c.reshape(v, (prod(v.shape),)) for v in (indices, x)]
    out = c.reshape(c("scatter_elements", zeros, *flat, axis=0, reduction="update"), shape)
    wanted = node.numbers(2, len(shape))
    if wanted is None or tuple(wanted) == shape:
        return out
    more = [n - m for n, m in zip(wanted, shape)]
    if min(more) < 0:
        raise node.error(f"output_shape {wanted} is less than {list(shape)}, which windows cover")
    return c("pad", out, before=[0] * len(more), after=more, value=0)


def max_roi_pool(b: Builder, node: OnnxNode) -> Value:
    x, rois = node.input(0), node.input(1)
    size = node.numbers("pooled_shape", 2) or []
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5:
        raise node.error(f"regions {rois!r} of {x!r}")
    how = {"size": tuple(size), "scale": float(node.get("spatial_scale", 1.0))}
    rows = b.add("roi_pool_rows", [x, rois], node.name, **how)
    return b.add("roi_pool_columns", [rows, rois], node.name, **how)


def roi_align(b: Builder, node: OnnxNode) -> Value:
    x, rois, images = node.input(0), node.input(1), node.input(2)
    if len(x.shape) != 4 or rois.shape != (*images.shape, 4):
        raise node.error(f"regions {rois!r} of images {images!r} of {x!r}")
    mode = str(node.get("mode", "avg")).lower()
    moved = node.get("coordinate_transformation_mode", "half_pixel")
    if mode not in ("avg", "max") or moved not in ("half_pixel", "output_half_pixel"):
        raise node.error(f"mode {mode!r} or coordinate_transformation_mode {moved!r} is unknown")
    return b.add(
        "roi_align",
        [x, rois, images],
        node.name,
        size=(node.get("output_height", 1), node.get("output_width", 1)),
        scale=float(node.get("spatial_scale", 1.0)),
        mode=mode,
        samples=int(node.get("sampling_ratio", 0)),
        half_pixel=b.opset >= 16 and moved == "half_pixel",
    )


CONVERTERS: dict[str, Converter] = {
    "MaxPool": max_pool,
    "AveragePool": _pool("avg"),
    "LpPool": _pool("lp"),
    "GlobalAveragePool": _global_pool("avg"),
    "GlobalMaxPool": _global_pool("max"),
    "GlobalLpPool": global_lp_pool,
    "MaxUnpool": max_unpool,
    "MaxRoiPool": max_roi_pool,
    "RoiAlign": roi_align,
}
