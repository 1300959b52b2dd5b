"""Convolutions: direct, with tiles in shared memory, by blocks of channels, depthwise."""

from __future__ import annotations

from typing import Any

from tests.exec.gpu.kit import Case, axis, bind_flat
from tilewright import te, tir


def padded(x: Any, by: int) -> Any:
    """The last two axes of `x` with `by` zeros at each end."""
    *outer, h, w = x.shape

    def value(*at: Any) -> Any:
        *rest, i, j = at
        inside = tir.all(i >= by, i < h + by, j >= by, j < w + by)
        return tir.if_then_else(inside, x[(*rest, i - by, j - by)], tir.const(0, x.dtype))

    return te.compute((*outer, h + 2 * by, w + 2 * by), value, name="P")


def plain(n: int, ci: int, h: int, w: int, co: int, size: int, stride: int, pad: int) -> Any:
    """NCHW: (schedule, arguments, padded input, convolution), nothing scheduled yet."""
    x = te.placeholder((n, ci, h, w), name="X")
    f = te.placeholder((co, ci, size, size), name="F")
    p = padded(x, pad)
    oh, ow = (h + 2 * pad - size) // stride + 1, (w + 2 * pad - size) // stride + 1
    c, y, z = (
        te.reduce_axis((0, ci), "c"),
        te.reduce_axis((0, size), "y"),
        te.reduce_axis((0, size), "z"),
    )
    out = te.compute(
        (n, co, oh, ow),
        lambda b, o, i, j: te.sum(
            p[b, c, i * stride + y, j * stride + z] * f[o, c, y, z], axis=[c, y, z]
        ),
        name="O",
    )
    return te.create_schedule(out.op), [x, f, out], p, out


def direct(*sizes: int) -> tuple[Any, list[Any]]:
    s, args, p, out = plain(*sizes)
    s[p].compute_inline()
    bind_flat(s, out, 64)
    return s, args


def shared(*sizes: int, double: bool = False) -> tuple[Any, list[Any]]:
    """A tile of pixels and some channels a block; input and filters go through shared memory."""
    s, args, p, out = plain(*sizes)
    s[p].compute_inline()
    local = s.cache_write(out, "local")
    tiles = [s.cache_read(t, "shared", [local]) for t in (p, args[1])]
    b, o, i, j = s[out].op.axis
    ob, oi = s[out].split(o, factor=4)
    ib, ii = s[out].split(i, factor=4)
    jb, ji = s[out].split(j, factor=4)
    s[out].reorder(b, ob, ib, jb, oi, ii, ji)
    block = s[out].fuse(ib, jb)
    threads = [axis("threadIdx.z", 4), axis("threadIdx.y", 4), axis("threadIdx.x", 4)]
    for x, t in zip((b, ob, block), ("blockIdx.z", "blockIdx.y", "blockIdx.x")):
        s[out].bind(x, axis(t))
    for x, t in zip((oi, ii, ji), threads):
        s[out].bind(x, t)
    s[local].compute_at(s[out], ji)
    c, y, z = s[local].op.reduce_axis
    co, ci = s[local].split(c, factor=2)
    s[local].reorder(co, ci, y, z, *s[local].op.axis)
    for t in tiles:
        s[t].compute_at(s[local], co)
        flat = s[t].fuse(*s[t].op.axis)
        for thread in reversed(threads):
            flat, x = s[t].split(flat, factor=4)
            s[t].bind(x, thread)
        if double:
            s[t].double_buffer()
    return s, args


def packed() -> tuple[Any, list[Any]]:
    """NCHWc: vectors of four channels; each thread keeps sums of a row of pixels."""
    x = te.placeholder((1, 2, 9, 10, 4), name="X")
    f = te.placeholder((3, 2, 3, 3, 4, 4), name="F")
    c, v = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, 4), "v")
    y, z = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "z")
    out = te.compute(
        (1, 3, 7, 8, 4),
        lambda n, o, i, j, l: te.sum(
            x[n, c, i + y, j + z, v] * f[o, c, y, z, v, l], axis=[c, y, z, v]
        ),
        name="O",
    )
    s = te.create_schedule(out.op)
    local = s.cache_write(out, "local")
    n, o, i, j, l = s[out].op.axis
    jo, ji = s[out].split(j, factor=2)
    s[out].reorder(n, o, i, jo, ji, l)
    s[out].vectorize(l)
    s[out].bind(s[out].fuse(n, o), axis("blockIdx.x"))
    s[out].bind(i, axis("threadIdx.y"))
    s[out].bind(jo, axis("threadIdx.x"))
    s[local].compute_at(s[out], jo)
    *_, jl, ll = s[local].op.axis
    s[local].reorder(*s[local].op.reduce_axis, jl, ll)
    s[local].unroll(jl)
    s[local].vectorize(ll)
    return s, [x, f, out]


def depthwise(stride: int, staged: bool) -> tuple[Any, list[Any]]:
    """A filter for each channel; padding in shared memory, a channel a block."""
    n, c, h, w = 1, 5, 12, 11
    x, f = te.placeholder((n, c, h, w), name="X"), te.placeholder((c, 3, 3), name="F")
    p = padded(x, 1)
    y, z = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "z")
    shape = (n, c, (h - 1) // stride + 1, (w - 1) // stride + 1)
    out = te.compute(
        shape,
        lambda b, k, i, j: te.sum(
            p[b, k, i * stride + y, j * stride + z] * f[k, y, z], axis=[y, z]
        ),
        name="O",
    )
    s = te.create_schedule(out.op)
    if not staged:
        s[p].compute_inline()
        bind_flat(s, out, 32)
        return s, [x, f, out]
    b, k, i, j = out.op.axis
    block = s[out].fuse(b, k)
    ty, tx = axis("threadIdx.y", 4), axis("threadIdx.x", 8)
    s[out].bind(block, axis("blockIdx.x"))
    io, ii = s[out].split(i, factor=4)
    jo, ji = s[out].split(j, factor=8)
    s[out].reorder(block, io, jo, ii, ji)
    s[out].bind(ii, ty)
    s[out].bind(ji, tx)
    s[p].set_scope("shared")
    s[p].compute_at(s[out], block)
    rest, px = s[p].split(s[p].fuse(*s[p].op.axis), factor=8)
    s[p].bind(px, tx)
    s[p].bind(s[p].split(rest, factor=4)[1], ty)
    return s, [x, f, out]


def line() -> tuple[Any, list[Any]]:
    """One dimension, seven points with a dilation of two; weights in shared memory."""
    x, f = te.placeholder((100,), name="X"), te.placeholder((7,), name="F")
    k = te.reduce_axis((0, 7), "k")
    out = te.compute((88,), lambda i: te.sum(x[i + 2 * k] * f[k], axis=k), name="O")
    s = te.create_schedule(out.op)
    xs, fs = s.cache_read(x, "shared", [out]), s.cache_read(f, "shared", [out])
    block, t = s[out].split(out.op.axis[0], factor=32)
    tx = axis("threadIdx.x", 32)
    s[out].bind(block, axis("blockIdx.x"))
    s[out].bind(t, tx)
    for stage in (xs, fs):
        s[stage].compute_at(s[out], block)
        s[stage].bind(s[stage].split(stage.op.axis[0], factor=32)[1], tx)
    return s, [x, f, out]


CASES = [
    Case("conv_direct", lambda: direct(1, 3, 8, 9, 4, 3, 1, 1)),
    Case("conv_direct_strided", lambda: direct(2, 3, 9, 9, 4, 3, 2, 1)),
    Case("conv_shared", lambda: shared(1, 4, 8, 8, 8, 3, 1, 1)),
    Case("conv_shared_odd", lambda: shared(2, 3, 7, 9, 6, 3, 1, 1)),
    Case("conv_shared_strided", lambda: shared(1, 4, 9, 9, 8, 3, 2, 1)),
    Case("conv_shared_double", lambda: shared(1, 8, 8, 8, 4, 3, 1, 1, double=True)),
    Case("conv_1x1", lambda: shared(1, 8, 8, 8, 8, 1, 1, 0)),
    Case("conv_packed", packed),
    Case("depthwise", lambda: depthwise(1, False)),
    Case("depthwise_shared", lambda: depthwise(1, True)),
    Case("depthwise_shared_strided", lambda: depthwise(2, True)),
    Case("conv_line", line),
]
