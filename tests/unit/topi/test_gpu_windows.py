"""Convolutions on CUDA as products of filters and windows, in either order of dimensions, by groups
and by channels; and how their reductions are cut."""

from __future__ import annotations

import re
from math import lcm
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.narrow import some
from tests.unit.topi.launches import counted
from tests.unit.topi.test_gpu_tiles import SUMS, TARGET, built, close, windows
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.operands import pitch_of
from tilewright.topi.schedules.gpu.tile_plan import Steps, TilePlan

SIZES = [  # images, channels, filters, height and width, taps, padding, stride, dilation
    (1, 16, 64, 12, 12, 3, 1, 1, 1),
    (2, 5, 67, 9, 13, 3, 0, 2, 1),
    (2, 3, 17, 17, 11, 5, 2, 1, 2),
    (1, 40, 131, 7, 7, 1, 0, 1, 1),
    (1, 32, 24, 9, 9, 1, 0, 2, 1),
]


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("size", SIZES)
def test_channels_may_be_last(dtype: str, size: tuple[int, ...]) -> None:
    n, c, f, h, w, taps, pad, stride, dilation = size

    def make(x: Any, k: Any, bias: Any) -> Any:
        y = topi.nn.conv2d_nhwc(x, k, stride, pad, dilation, SUMS[dtype])
        return topi.nn.relu(topi.add(y, topi.cast(bias, SUMS[dtype])))

    shapes = [(n, h, w, c), (taps, taps, c, f), (f,)]
    source, report, (got, x, k, bias) = built(make, dtype, *shapes)
    x, k, bias = (a.astype("float64") for a in (x, k, bias))
    seen = windows(x.transpose(0, 3, 1, 2), taps, pad, stride, dilation)
    sums = np.einsum("nchwyx,yxcf->nhwf", seen, k)
    close(got, np.maximum(sums + bias, 0), "float32" if dtype != "int8" else dtype)
    assert ("tw_mma" in source) == (dtype != "float32")
    is_one_step = taps == 1 and c * parse(dtype).nbytes <= 32
    assert (report.async_copies > 0) != is_one_step
    lies_so = pad == 0 and c * parse(dtype).nbytes % 16 == 0
    assert source.count("__global__") == (2 if lies_so else 3)
    assert report.bank_conflicts <= 1.1 and not report.findings


@pytest.mark.parametrize(
    ("dtype", "channels", "edge", "taps", "stride"),
    [
        ("float16", 67, 14, 5, 2),
        ("bfloat16", 36, 13, 3, 2),
        ("float16", 40, 5, 3, 1),
        ("int8", 67, 14, 5, 2),
    ],
)
def test_zeros_beyond_the_edges_are_copied_late(
    dtype: str, channels: int, edge: int, taps: int, stride: int
) -> None:
    """49 places in tiles of 64, and 25 in such of 32: rows that are beyond in every step are not
    filled by plain stores between copies."""

    def make(x: Any, k: Any) -> Any:
        return topi.nn.conv2d_nchw(x, k, stride, taps // 2, 1, SUMS[dtype])

    shapes = [(1, channels, edge, edge), (131, channels, taps, taps)]
    source, report, (got, x, k) = built(make, dtype, *shapes)
    seen = windows(x.astype("float64"), taps, taps // 2, stride, 1)
    want = np.einsum("nchwyx,fcyx->nfhw", seen, k.astype("float64"))
    close(got, want, "float32" if dtype != "int8" else dtype)
    assert report.async_copies > 0 and not report.findings
    assert re.search(r"tw_cp_async<.*, false\);", source), "zeros of a row that is beyond"
    assert not re.search(r"tw_store_\w+\(\w+_shared \+", source)


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
@pytest.mark.parametrize(("groups", "each", "filters"), [(2, 16, 16), (3, 5, 32), (2, 8, 33)])
@pytest.mark.parametrize("is_last", [False, True])
def test_groups_are_a_batch(
    dtype: str, groups: int, each: int, filters: int, is_last: bool
) -> None:
    def make(x: Any, k: Any) -> Any:
        conv = topi.nn.group_conv2d_nhwc if is_last else topi.nn.group_conv2d_nchw
        return conv(x, k, 1, 1, 1, groups, SUMS[dtype])

    shapes = [(2, groups * each, 7, 9), (groups * filters, each, 3, 3)]
    if is_last:
        shapes = [(2, 7, 9, groups * each), (3, 3, each, groups * filters)]
    source, report, (got, x, k) = built(make, dtype, *shapes)
    x, k = x.astype("float64"), k.astype("float64")
    if is_last:
        x, k, got = x.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1), got.transpose(0, 3, 1, 2)
    seen = np.split(windows(x, 3, 1, 1, 1), groups, 1)
    parts = [np.einsum("nchwyx,fcyx->nfhw", s, f) for s, f in zip(seen, np.split(k, groups))]
    close(got, np.concatenate(parts, 1), "float32" if dtype != "int8" else dtype)
    assert ("tw_mma" in source) == (dtype != "float32") and "__shared__" in source
    assert not report.findings and report.bank_conflicts <= 1.1


@pytest.mark.parametrize("filters", [4, 12])
def test_groups_of_few_filters_that_are_last(filters: int) -> None:
    """Fewer than a product has are any reduction, whose data a kernel pads first; of others the
    columns of a tile are those of a group."""
    shapes = [(2, 5, 7, 3 * 8), (3, 3, 8, 3 * filters)]
    _, report, (got, x, k) = built(
        lambda x, k: topi.nn.group_conv2d_nhwc(x, k, 1, 1, 1, 3, "float32"), "float16", *shapes
    )
    x, k = x.astype("float64").transpose(0, 3, 1, 2), k.astype("float64").transpose(3, 2, 0, 1)
    seen = np.split(windows(x, 3, 1, 1, 1), 3, 1)
    parts = [np.einsum("nchwyx,fcyx->nfhw", s, f) for s, f in zip(seen, np.split(k, 3))]
    close(got.transpose(0, 3, 1, 2), np.concatenate(parts, 1), "float32")
    assert not report.findings


def test_groups_of_more_filters_than_a_tile_has() -> None:
    """Tiles of 100 and of 150 filters end within a group: what is beyond is another group's."""
    for filters in (100, 150):
        shapes = [(1, 16, 5, 8), (2 * filters, 8, 3, 3)]
        _, report, (got, x, k) = built(
            lambda x, k: topi.nn.group_conv2d_nchw(x, k, 1, 1, 1, 2, "float32"), "float16", *shapes
        )
        x, k = x.astype("float64"), k.astype("float64")
        seen = np.split(windows(x, 3, 1, 1, 1), 2, 1)
        parts = [np.einsum("nchwyx,fcyx->nfhw", s, f) for s, f in zip(seen, np.split(k, 2))]
        close(got, np.concatenate(parts, 1), "float32")
        assert not report.findings


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("channels", "taps", "pad", "stride", "dilation"),
    [(32, 3, 1, 1, 1), (19, 3, 1, 1, 1), (19, 1, 0, 2, 1), (19, 3, 2, 1, 2)],
)
def test_channels_become_neighbours_in_vectors(
    dtype: str, channels: int, taps: int, pad: int, stride: int, dilation: int
) -> None:
    """Lines of 16 elements have whole vectors of all types, wherever their padding begins."""
    shapes = [(2, channels, 6, 16), (24, channels, taps, taps)]
    source, report, (got, x, k) = built(
        lambda x, k: topi.nn.conv2d_nchw(x, k, stride, pad, dilation, SUMS[dtype]), dtype, *shapes
    )
    seen = windows(x.astype("float64"), taps, pad, stride, dilation)
    sums = np.einsum("nchwyx,fcyx->nfhw", seen, k.astype("float64"))
    close(got, sums, "float32" if dtype != "int8" else dtype)
    kernels = source.split('extern "C"')[1:]
    (kernel,) = (x for x in kernels if re.search(r" in0\b", x.split("{")[0]))
    assert not re.search(r"\bin0\[", kernel)
    assert not report.findings


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("c", "stride", "taps"),
    [(24, 1, 3), (67, 2, 3), (128, 2, 5), (96, 1, 3), (32, 2, 5), (10, 2, 3), (144, 1, 5)],
)
def test_a_filter_for_each_channel(dtype: str, c: int, stride: int, taps: int) -> None:
    def make(x: Any, k: Any) -> Any:
        pad = taps // 2
        y = topi.nn.depthwise_conv2d_nhwc(x, k, stride, pad, 1, out_dtype="float32")
        return topi.nn.relu(y)

    source, report, (got, x, k) = built(make, dtype, (2, 11, 14, c), (taps, taps, c, 1))
    x, k = x.astype("float64"), k.astype("float64")
    seen = windows(x.transpose(0, 3, 1, 2), taps, taps // 2, stride, 1)
    close(got, np.maximum(np.einsum("nchwyx,yxc->nhwc", seen, k[..., 0]), 0), "float32")
    assert "__shared__" in source and source.count("__global__") == 1
    assert report.bank_conflicts <= 1.1 and not report.findings


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize(
    ("dtype", "size", "c", "stride", "taps"),
    [
        ("float32", 112, 32, 1, 3),
        ("float32", 56, 96, 2, 3),
        ("float32", 56, 24, 1, 3),
        ("float16", 28, 144, 1, 3),  # 24 threads once
        ("float16", 13, 1000, 2, 3),
        ("float32", 7, 960, 1, 5),
        ("float32", 56, 197, 1, 3),
    ],
)
def test_blocks_of_depthwise_convolutions(
    arch: str, dtype: str, size: int, c: int, stride: int, taps: int
) -> None:
    """Whole warps, two at least, and so many blocks that each multiprocessor has some."""
    target = tw.Target(f"cuda -arch={arch}")
    x = te.placeholder((1, size, size, c), dtype, "x")
    k = te.placeholder((taps, taps, c, 1), dtype, "k")
    out = topi.nn.depthwise_conv2d_nhwc(x, k, stride, taps // 2, 1, out_dtype=dtype)
    f = tw.build(topi.default_schedule(out, target), [x, k, out], target, name="f")
    ((blocks, threads),) = counted(f)
    machine = GpuMachine.of(target)
    assert threads % 32 == 0 and 64 <= threads <= 256
    assert 2 * blocks >= machine.filling
    (kernel,) = some(f.imported_modules[0].device_code).kernels
    assert kernel.shared_bytes <= machine.shared_bytes // 3


def test_places_of_windows_are_constants_between_runs() -> None:
    """67 channels, filled up to 72, are no whole steps of 32; three taps of them end within one."""
    x = te.placeholder((1, 67, 9, 16), "float16", "x")
    k = te.placeholder((24, 67, 3, 3), "float16", "k")
    out = topi.nn.conv2d_nchw(x, k, 1, 1, 1, "float32")
    f = tw.build(topi.default_schedule(out, TARGET), [x, k, out], TARGET, name="f")
    copies = re.findall(r"tw_cp_async<.*", f.imported_modules[0].get_source())
    assert copies and not any(re.search(r"k_outer[^;]*(%|/|>>)", line) for line in copies)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("taps", [3, 5])
@pytest.mark.parametrize("channels", [8, 16, 24, 64, 67, 96, 131])
def test_cuts_of_reductions(dtype: str, taps: int, channels: int) -> None:
    nbytes = np.dtype(dtype).itemsize
    machine, fragment, lanes = GpuMachine.of(TARGET), 32 // nbytes, 16 // nbytes
    plan = TilePlan.of(131, 841, SUMS[dtype], True)
    run = -(-channels // lanes) * lanes * taps

    def room(deep: int) -> int:
        return pitch_of(deep * nbytes) * sum(plan.block)

    cut = Steps.of(run, taps, fragment, plan, (dtype, SUMS[dtype]), room, machine)
    assert cut.deep % fragment == 0 and cut.tiles * cut.deep >= run
    assert room(cut.deep) * cut.stages <= machine.shared_bytes // 2
    assert cut.stages >= 3
    assert cut.tiles * cut.deep <= max(1.34 * run, fragment * 2)
    if channels == 131:  # 13 tiles of 32, which no number of slots goes with
        return
    each = cut.deep // fragment * plan.products  # where runs begin is seldom computed
    assert cut.tiles % cut.stages == 0 or lcm(cut.tiles, cut.stages) * each <= 1024


@pytest.mark.parametrize("columns", [64, 36, 33])
def test_what_follows_sums_of_columns(columns: int) -> None:
    def make(x: Any) -> Any:
        return topi.exp(topi.multiply(topi.sum(x, 0), 0.25))

    source, report, (y, x) = built(make, "float32", (50, columns))
    close(y, np.exp(x.astype("float64").sum(0) / 4), "float32")
    assert ("float4" in source) == (columns % 4 == 0) and source.count("__global__") == 1
    assert not report.findings


def test_kernels_of_a_function_launch_threads_of_their_own() -> None:
    """Rows of a softmax have more warps of threads than the product behind it: tiles of that divide
    its own threads all the same."""

    def make(q: Any, v: Any) -> Any:
        weights = topi.cast(topi.nn.softmax(topi.cast(q, "float32")), "float16")
        return topi.nn.batch_matmul(weights, v, out_dtype="float32", transpose_b=False)

    source, report, (got, a, b) = built(make, "float16", (2, 33, 65), (2, 65, 64))
    a, b = a.astype("float64"), b.astype("float64")
    e = np.exp(a - a.max(-1, keepdims=True))
    close(got, e / e.sum(-1, keepdims=True) @ b, "float16")
    assert "tw_mma" in source and not report.findings


@pytest.mark.parametrize(("kind", "channels"), [("max", 32), ("avg", 32), ("max", 33)])
def test_pooling_of_channels_that_are_last(kind: str, channels: int) -> None:
    def make(x: Any) -> Any:
        return topi.nn.pool2d(
            x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), kind, count_include_pad=True, layout="NHWC"
        )

    source, report, (got, x) = built(make, "float32", (2, 9, 11, channels))
    filler = -np.inf if kind == "max" else 0.0
    wide = np.pad(x.astype("float64"), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=filler)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))[:, ::2, ::2]
    close(got, seen.max((-1, -2)) if kind == "max" else seen.mean((-1, -2)), "float32")
    assert ("float4" in source) == (channels % 4 == 0) and not report.findings
