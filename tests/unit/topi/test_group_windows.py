"""Convolutions by warp groups, whose windows copies find in the images (im2col), in simt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir, topi
from tilewright.base.errors import ScheduleError
from tilewright.topi.tensor_intrin.warp_group_tile import ImageWindows, WarpGroupTile

HOPPER = "cuda -arch=sm_90a"
ONE = (1, 1)
How = tuple[Any, Any, Any]


def convolved(x: Any, w: Any, strides: Any, pads: Any, dilation: Any) -> Any:
    """By NumPy, a tap at a time; of images or volumes."""
    *taps, _, filters = w.shape
    rank = len(taps)
    around = list(zip(pads[:rank], pads[rank:]))
    data = np.pad(x.astype("float64"), ((0, 0), *around, (0, 0)))
    moves = list(zip(data.shape[1:-1], taps, strides, dilation))
    sizes = [(n - (k - 1) * far - 1) // step + 1 for n, k, step, far in moves]
    out = np.zeros((len(x), *sizes, filters))
    for tap in np.ndindex(*taps):
        at = [
            slice(t * far, t * far + (n - 1) * step + 1, step)
            for t, n, (_, _, step, far) in zip(tap, sizes, moves)
        ]
        out += data[(slice(None), *at)] @ w[tap].astype("float64")
    return out


def conv(x: Any, w: Any, how: How, sums: str = "float32") -> Any:
    strides, pads, dilation = how
    if len(strides) == 3:
        return topi.nn.conv3d_ndhwc(x, w, strides, pads, dilation, 1, sums)
    return topi.nn.conv2d_nhwc(x, w, strides, pads, dilation, out_dtype=sums)


def built(shape: Any, kernel: Any, kind: str, how: Any, end: str, target: str = HOPPER) -> Any:
    """(function, arguments): a convolution, plain or with what follows it."""
    x = te.placeholder(shape, kind, name="x")
    w = te.placeholder((*kernel[:-1], shape[-1], kernel[-1]), kind, name="w")
    y = conv(x, w, how, "int32" if kind == "int8" else "float32")
    args = [x, w]
    if end:
        bias = te.placeholder((kernel[-1],), y.dtype, name="bias")
        args.append(bias)
        y = topi.cast(topi.nn.relu(topi.add(y, bias)), kind if end == "narrow" else y.dtype)
    args.append(y)
    return tw.build(topi.default_schedule(y, target), args, target), args


@pytest.mark.parametrize(
    ("shape", "kernel", "how", "kind", "end"),
    [
        ((1, 14, 14, 64), (3, 3, 64), (ONE, (1, 1, 1, 1), ONE), "float16", ""),
        ((2, 9, 7, 64), (3, 3, 40), (ONE, (1, 1, 1, 1), ONE), "bfloat16", "narrow"),
        ((1, 28, 27, 64), (3, 3, 128), ((2, 2), (1, 1, 1, 1), ONE), "float16", "wide"),
        # channels, windows and filters that fill no tile, other paddings on each side
        ((3, 13, 17, 72), (2, 3, 72), (ONE, (0, 1, 2, 0), (2, 1)), "float16", "narrow"),
        ((1, 15, 16, 64), (1, 1, 64), ((2, 3), (0, 0, 0, 0), ONE), "float16", ""),
        ((5, 7, 7, 128), (1, 1, 64), (ONE, (0, 0, 0, 0), ONE), "float16", "narrow"),
        ((2, 12, 12, 128), (3, 3, 64), (ONE, (1, 1, 1, 1), ONE), "int8", ""),
        ((1, 9, 8, 64), (5, 7, 32), (ONE, (2, 3, 2, 3), ONE), "float16", ""),
        # fewer windows than four
        ((1, 1, 1, 64), (1, 1, 32), (ONE, (0, 0, 0, 0), ONE), "float16", "narrow"),
        ((1, 3, 4, 64), (3, 3, 64), (ONE, (0, 0, 0, 0), ONE), "bfloat16", "narrow"),
        ((1, 1, 3, 64), (1, 1, 64), (ONE, (0, 0, 0, 0), ONE), "float16", "narrow"),
        # volumes
        ((1, 4, 7, 6, 64), (3, 3, 3, 32), ((1,) * 3, (1,) * 6, (1,) * 3), "float16", ""),
        (
            (2, 5, 6, 9, 72),
            (3, 3, 2, 40),
            ((2, 1, 2), (1, 0, 2, 1, 2, 0), (1, 2, 1)),
            "bfloat16",
            "narrow",
        ),
        ((3, 4, 3, 5, 64), (2, 1, 1, 64), ((1, 2, 1), (0,) * 6, (3, 1, 1)), "float16", "wide"),
        # a reduction of many steps, that blocks of a cluster share
        ((1, 6, 6, 512), (3, 3, 64), (ONE, (1, 1, 1, 1), ONE), "float16", "narrow"),
    ],
)
def test_windows(shape: Any, kernel: Any, how: Any, kind: str, end: str) -> None:
    f, args = built(shape, kernel, kind, how, end)
    source = f.imported_modules[0].get_source()
    assert "im2col" in source and "wgmma" in source
    rng = np.random.default_rng(3)
    given = [rng.integers(-3, 4, [int(d) for d in t.shape]).astype(t.dtype) for t in args[:-1]]
    want = convolved(*given[:2], *how)
    if end:
        want = np.maximum(want + given[2], 0)
    y = np.zeros(want.shape, args[-1].dtype)
    reports = f.run_simt(*given, y).values()
    np.testing.assert_array_equal(y, want.astype(y.dtype))
    assert not any(r.findings for r in reports)


def test_no_copy_of_the_images_is_made() -> None:
    f, _ = built((1, 14, 14, 64), (3, 3, 64), "float16", (ONE, (1, 1, 1, 1), ONE), "narrow")
    source = f.imported_modules[0].get_source()
    assert source.count("__global__") == 2  # filters are packed, and the product


@pytest.mark.parametrize(
    ("shape", "kernel", "how", "kind"),
    [
        ((1, 14, 14, 60), (3, 3, 64), (ONE, (0, 0, 0, 0), ONE), "float16"),  # rows of 120 bytes
        ((1, 14, 14, 24), (3, 3, 64), (ONE, (0, 0, 0, 0), ONE), "float16"),  # zeros for the most
        ((1, 30, 30, 64), (2, 2, 64), ((9, 9), (0, 0, 0, 0), ONE), "float16"),  # steps beyond 8
        ((1, 14, 14, 64), (3, 3, 16), (ONE, (0, 0, 0, 0), ONE), "float16"),  # few filters
        ((1, 14, 14, 64), (3, 3, 64), (ONE, (0, 0, 0, 0), ONE), "float32"),
    ],
)
def test_what_no_copies_take_is_made_otherwise(
    shape: Any, kernel: Any, how: Any, kind: str
) -> None:
    f, _ = built(shape, kernel, kind, how, "")
    assert "im2col" not in f.imported_modules[0].get_source()
    f, _ = built((1, 14, 14, 64), (3, 3, 64), "float16", (ONE, (1, 1, 1, 1), ONE), "",
                 "cuda -arch=sm_90")  # fmt: skip
    assert "im2col" not in f.imported_modules[0].get_source()


def through(x: Any, data: Any, taps: int, stride: int, pad: int) -> tuple[Any, Any, str]:
    """(result, what NumPy makes of `data`, source): images made of x, which are convolved."""
    made, values = data
    w = te.placeholder((taps, taps, 64, 64), "float16", name="w")
    how = ((stride, stride), (pad, pad, pad, pad), ONE)
    z = conv(made, w, how)
    f = tw.build(topi.default_schedule(z, HOPPER), [x, w, z], HOPPER)
    rng = np.random.default_rng(5)
    given = rng.integers(-3, 4, [int(d) for d in x.shape]).astype(x.dtype)
    filters = rng.integers(-3, 4, [int(d) for d in w.shape]).astype(w.dtype)
    y = np.zeros([int(d) for d in z.shape], "float32")
    reports = f.run_simt(given, filters, y).values()
    assert not any(r.findings for r in reports)
    return y, convolved(values(given), filters, *how), f.imported_modules[0].get_source()


@pytest.mark.parametrize(("taps", "stride", "pad"), [(1, 2, 0), (2, 3, 0), (3, 1, 1)])
def test_images_of_another_kernel_that_are_not_read_to_their_ends(
    taps: int, stride: int, pad: int
) -> None:
    x = te.placeholder((1, 16, 17, 64), "float16", name="x")
    r = te.reduce_axis((0, 2), "r")
    most = te.compute(
        (1, 16, 16, 64), lambda n, i, j, c: te.max(x[n, i, j + r, c], axis=r), name="most"
    )
    data = (most, lambda v: np.maximum(v[:, :, 1:], v[:, :, :-1]))
    y, want, source = through(x, data, taps, stride, pad)
    np.testing.assert_array_equal(y, want)
    assert "im2col" in source


@pytest.mark.parametrize("target", [HOPPER, "cuda -arch=sm_80"])
@pytest.mark.parametrize(("taps", "stride"), [(1, 2), (3, 3)])
def test_a_convolution_of_which_not_all_is_read(taps: int, stride: int, target: str) -> None:
    """Its tiles are those of the whole result, though strides reach a part of that alone."""
    x = te.placeholder((1, 16, 16, 64), "float16", name="x")
    a = te.placeholder((3, 3, 64, 64), "float16", name="a")
    b = te.placeholder((taps, taps, 64, 64), "float16", name="b")
    first, second = (ONE, (1, 1, 1, 1), ONE), ((stride, stride), (0, 0, 0, 0), ONE)
    y = topi.cast(topi.nn.relu(conv(x, a, first)), "float16")
    z = conv(y, b, second)
    f = tw.build(topi.default_schedule(z, target), [x, a, b, z], target)
    rng = np.random.default_rng(9)
    given = [rng.integers(-1, 2, [int(d) for d in t.shape]).astype(t.dtype) for t in (x, a, b)]
    between = np.maximum(convolved(given[0], given[1], *first), 0)
    out = np.zeros([int(d) for d in z.shape], "float32")
    assert not any(r.findings for r in f.run_simt(*given, out).values())
    np.testing.assert_array_equal(out, convolved(between, given[2], *second))


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize(
    ("before", "after", "number"), [((1, 1), (1, 2), 0), ((1, 0), (0, 1), 1), ((-1, -2), (1, 0), 0)]
)
def test_images_that_are_padded_before(before: Any, after: Any, number: int, pad: int) -> None:
    """By zeros, which copies bring where a convolution adds none itself, by ones, or less."""
    x = te.placeholder((2, 10, 9, 64), "float16", name="x")

    def values(v: Any) -> Any:
        wide = [(0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(before, after)), (0, 0)]
        cut = np.pad(v, wide, constant_values=number)
        return cut[:, max(-before[0], 0) :, max(-before[1], 0) :]

    padded = topi.nn.pad(x, (0, *before, 0), (0, *after, 0), float(number))
    y, want, source = through(x, (padded, values), 3, 1, pad)
    np.testing.assert_array_equal(y, want)
    assert ("im2col" in source) == (min(before) >= 0 and number == pad == 0)


@pytest.mark.parametrize(
    "how",
    [
        {"strides": [9 * 8 * 72, 8 * 72, 72, 1]},
        {"strides": [te.var("s"), te.var("t"), te.var("u"), 1]},
        {
            "strides": [9 * 8 * 72, 8 * 72, 72, 1],
            "elem_offset": te.var("first"),
            "offset_factor": 8,
        },
    ],
)
def test_images_that_are_parts_of_larger_ones(how: Any) -> None:
    x = te.placeholder((2, 9, 8, 64), "float16", name="x")
    w = te.placeholder((3, 3, 64, 64), "float16", name="w")
    y = conv(x, w, (ONE, (1, 1, 1, 1), ONE))
    buffer = tir.decl_buffer(x.shape, x.dtype, "x", **how)
    f: Any = tw.build(topi.default_schedule(y, HOPPER), [x, w, y], HOPPER, binds={x: buffer})
    rng = np.random.default_rng(3)
    whole = rng.integers(-3, 4, (2, 9, 8, 72)).astype("float16")
    filters = rng.integers(-3, 4, (3, 3, 64, 64)).astype("float16")
    on, cut = tw.simt(0), slice(8, 72) if "elem_offset" in how else slice(0, 64)
    out = tw.nd.array(np.zeros((2, 9, 8, 64), "float32"), on)
    f.entry_func.simt()(tw.nd.array(whole, on)[..., cut], tw.nd.array(filters, on), out)
    want = convolved(whole[..., cut], filters, ONE, (1, 1, 1, 1), ONE)
    np.testing.assert_array_equal(out.numpy(), want)


def test_images_whose_channels_are_no_neighbours_lie_in_no_view() -> None:
    x = te.placeholder((2, 9, 8, 64), "float16", name="x")
    w = te.placeholder((3, 3, 64, 64), "float16", name="w")
    y = conv(x, w, (ONE, (1, 1, 1, 1), ONE))
    buffer = tir.decl_buffer(x.shape, x.dtype, "x", strides=[9216, 1024, 128, 2])
    with pytest.raises(ScheduleError, match="no array of all elements"):
        tw.build(topi.default_schedule(y, HOPPER), [x, w, y], HOPPER, binds={x: buffer})


def windows(**more: Any) -> ImageWindows:
    given: dict[str, Any] = {
        "images": 2, "channels": 64, "deep": 64, "sizes": (9, 8), "results": (7, 6),
        "taps": (3, 3), "strides": ONE, "dilation": ONE, "before": (0, 0),
    }  # fmt: skip
    return ImageWindows(**{**given, **more})


def test_what_the_map_of_windows_says() -> None:
    w = windows(strides=(2, 1), results=(5, 8), before=(1, 1))
    assert (w.rows, w.steps, w.dims) == (80, 576, (64, 9, 8, 2))
    made = w.map_of("float16", 128)
    assert made.strides == (128, 1152, 9216) and made.box == (64, 128)
    assert made.pixels == w.pixels and made.problem() == ""
    # first taps of lines are at -1, 1, 3, 5 and 7 of 0 .. 8, and at -1 .. 6 of 0 .. 7
    assert w.pixels.lower == (-1, -1) and w.pixels.upper == (-1, -1)
    assert w.pixels.steps == (2, 1)


@pytest.mark.parametrize(
    ("more", "tile", "problem"),
    [
        ({"dilation": (200, 1)}, {}, "the last tap is 400 pixels behind the first, more than 255"),
        ({"deep": 72}, {}, "72 steps of a tap are no multiple of 128 bytes"),
        ({"channels": 60}, {}, "a stride of 120 bytes is no multiple of 16"),
        ({"strides": (9, 1)}, {}, "steps are 1 to 8 pixels"),
        ({}, {"extents": (85, 64, 576)}, "84 windows of 576 steps are no operand"),
        ({}, {"along": (False, True)}, "windows are the rows of a matrix"),
        ({}, {"batch": (1, 1)}, "windows are the rows of a matrix"),
    ],
)
def test_what_is_no_tile_of_windows(more: Any, tile: Any, problem: str) -> None:
    w = windows(**more)
    given: dict[str, Any] = {"extents": (w.rows, 64, w.steps), "along": (True, True), **tile}
    with pytest.raises(ScheduleError, match=problem):
        WarpGroupTile("float16", 64, 64, windows=w, **given)


def test_a_view_is_read_by_intrinsics_alone() -> None:
    x = te.placeholder((8, 8), name="x")
    turned = te.compute((8, 8), lambda i, j: x[j, i], name="turned")
    y = te.compute((8, 8), lambda i, j: turned[i, j] * 2, name="y")
    s = te.create_schedule(y.op)
    s[turned].set_scope("global.view")
    with pytest.raises(ScheduleError, match="y reads its elements; tensorize that"):
        tw.lower(s, [x, y])
    for outputs in ([x, turned, y], [x, turned]):
        s = te.create_schedule(outputs[-1].op)
        s[turned].set_scope("global.view")
        with pytest.raises(ScheduleError, match="it is no argument"):
            tw.lower(s, outputs)
    z = te.placeholder((8, 8), name="z")
    both = te.compute((8, 8), lambda i, j: x[j, i] + z[i, j], name="both")
    s = te.create_schedule(te.compute((8, 8), lambda i, j: both[i, j] * 2, name="y").op)
    s[both].set_scope("global.view")
    with pytest.raises(ScheduleError, match="it is no argument, and reads one tensor"):
        tw.lower(s, [x, z, s.outputs[0].output(0)])
