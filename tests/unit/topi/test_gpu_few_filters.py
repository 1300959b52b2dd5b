"""Convolutions of few filters on GPUs: channels among threads, filters in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, computed, launches
from tilewright import te, topi
from tilewright.base.dtype import parse


def convolution(stride: int = 1, padding: int = 1, dilation: int = 1, then: Any = None) -> Any:
    def make(x: Any, w: Any) -> Any:
        out = topi.nn.conv2d_nchw(x, w, stride, padding, dilation, "float32")
        return out if then is None else then(out)

    return make


def wanted(x: Any, w: Any, stride: int = 1, padding: int = 1, dilation: int = 1) -> Any:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *[(padding, padding)] * 2))
    reach = [(n - 1) * dilation + 1 for n in w.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("nchwyx,fcyx->nfhw", windows, w.astype(np.float64), optimize=True)


def whole_numbers(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Whose sums of products are exact."""
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.integers(-3, 4, shape).astype(parse(dtype).numpy) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("data", "filters", "blocks"),
    [
        ((1, 320, 64, 64), (4, 320, 3, 3), 128),
        ((1, 64, 224, 224), (3, 64, 3, 3), 196),
        ((1, 512, 32, 32), (4, 512, 1, 1), 128),
        ((2, 64, 56, 56), (1, 64, 1, 1), 112),
    ],
)
def test_channels_are_shared_out_where_pixels_are_few(
    dtype: str, data: tuple[int, ...], filters: tuple[int, ...], blocks: int
) -> None:
    padding = filters[-1] // 2
    *_, (found, threads), (f, _) = launches(convolution(1, padding), dtype, data, filters)
    assert found == blocks and threads > 200
    source = f.imported_modules[0].get_source().split("__global__")[-1]
    near = {"float32": "(const float4*)(in1_near", "float16": "tw_load_float16x4(in1_near"}
    assert filters[0] == 1 or near[dtype] in source
    assert "data_pad" not in source, "no padded copy"


CASES = [
    ((1, 17, 13, 11), (3, 17, 3, 3), 1, 1, 1),
    ((2, 5, 7, 29), (1, 5, 1, 1), 1, 0, 1),
    ((1, 9, 23, 37), (2, 9, 3, 3), 2, 1, 1),
    ((1, 64, 16, 16), (4, 64, 3, 3), 1, 1, 1),
    ((1, 6, 20, 197), (4, 6, 3, 5), 1, 2, 1),
    ((1, 40, 19, 8), (3, 40, 3, 3), 1, 2, 2),
    ((1, 8, 12, 12), (2, 8, 7, 7), 1, 3, 1),
    ((1, 1, 5, 1), (3, 1, 3, 3), 1, 1, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("data", "filters", "stride", "padding", "dilation"), CASES)
def test_what_few_filters_come_to(
    data: Any, filters: Any, stride: int, padding: int, dilation: int, dtype: str
) -> None:
    x, w = whole_numbers(dtype, data, filters)
    result, _ = computed(convolution(stride, padding, dilation), dtype, [x, w])
    np.testing.assert_array_equal(result, wanted(x, w, stride, padding, dilation))


@pytest.mark.parametrize(("data", "filters", "stride", "padding", "dilation"), CASES[:4])
def test_sums_wait_in_other_banks(
    data: Any, filters: Any, stride: int, padding: int, dilation: int
) -> None:
    arrays = whole_numbers("float32", data, filters)
    ins = [te.placeholder(a.shape, "float32", f"in{n}") for n, a in enumerate(arrays)]
    out = convolution(stride, padding, dilation)(*ins)
    f = tw.build(topi.default_schedule(out, SM80), [*ins, out], SM80)
    *_, report = f.run_simt(*arrays, np.zeros([int(d) for d in out.shape], "float32")).values()
    assert report.bank_conflicts <= 1.1


@pytest.mark.parametrize("target", ["cuda -arch=sm_75", "cuda -arch=sm_90"])
def test_what_follows_few_filters_is_of_their_kernel(target: str) -> None:
    x, w = whole_numbers("float16", (1, 24, 14, 10), (3, 24, 3, 3))
    ins = [te.placeholder(a.shape, "float16", f"in{n}") for n, a in enumerate((x, w))]
    out = topi.nn.relu(convolution()(*ins))
    f = tw.build(topi.default_schedule(out, target), [*ins, out], target)
    result = np.zeros((1, 3, 14, 10), np.float32)
    reports = f.run_simt(x, w, result)
    assert not any(report.findings for report in reports.values())
    np.testing.assert_array_equal(result, np.maximum(wanted(x, w), 0))
    assert f.imported_modules[0].get_source().count("__global__") == 2, "weights, and the sums"


def test_what_is_computed_before_is_computed_once() -> None:
    """By the kernel of a padded copy, not for each tap."""
    x, w = whole_numbers("float32", (1, 12, 9, 10), (3, 12, 3, 3))
    make = convolution()
    result, f = computed(lambda x, w: make(topi.nn.relu(x), w), "float32", [x, w])
    np.testing.assert_array_equal(result, wanted(np.maximum(x, 0), w))
    kernels = f.imported_modules[0].get_source().split("__global__")[1:]
    assert len(kernels) == 3 and "data_pad" in kernels[-1]
