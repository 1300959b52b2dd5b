from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.unit.topi.cases import agree, floats, ints
from tilewright import te, topi
from tilewright.base.errors import TilewrightError

nn: Any = topi.nn
ref: Any = topi.testing  # called with what lists hold


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "taps, padding, dilation", [(5, 2, 1), (7, (3, 3, 2, 2), 1), (2, 0, 1), (3, "SAME", 2)]
)
def test_winograd_of_square_filters(taps: int, padding: Any, dilation: int, layout: str) -> None:
    x, w = floats(2, 3, 13, 11), floats(5, 3, taps, taps)
    apart = ref.dilate_python(w, (1, 1, dilation, dilation))
    expected = ref.conv2d_nchw_python(x, apart, 1, padding)
    how: Any = (1, padding, dilation, None)
    if layout == "NCHW":
        agree(lambda a, b: nn.conv2d_winograd_nchw(a, b, *how), [x, w], expected)
        return
    last = [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)]
    expected = expected.transpose(0, 2, 3, 1)
    agree(lambda a, b: nn.conv2d_winograd_nhwc(a, b, *how), last, expected)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("blocked", [False, True])
def test_bytes_in_blocks_of_four(groups: int, blocked: bool) -> None:
    x = ints(2, 16, 5, 7, low=-128, high=127, dtype="int8")
    w = ints(8, 16 // groups, 3, 3, low=-128, high=127, dtype="int8")
    sums = ref.conv2d_nchw_python(x.astype("int32"), w.astype("int32"), 2, 1, groups)
    n, f, rows, columns = sums.shape
    expected = sums.reshape(n, f // 4, 4, rows, columns).transpose(0, 1, 3, 4, 2)
    given = [x, w]
    if blocked:
        given = [
            x.reshape(2, 4, 4, 5, 7).transpose(0, 1, 3, 4, 2),
            w.reshape(2, 4, 4 // groups, 4, 3, 3).transpose(0, 2, 4, 5, 1, 3),
        ]
    grouped = topi.cuda.group_conv2d_NCHWc_int8
    agree(lambda a, b: grouped(a, b, 2, 1, 1, groups, "int32"), given, expected, rtol=0)
    if groups == 1:
        one = topi.cuda.conv2d_NCHWc_int8
        wrapped = expected.astype("int8")
        agree(lambda a, b: one(a, b, 2, 1, 1, "NCHW", "int8"), given, wrapped, rtol=0)


def test_blocks_of_four_say_what_does_not_fit() -> None:
    x, w = te.placeholder((1, 8, 4, 4), "int8", "x"), te.placeholder((4, 4, 3, 3), "int8", "w")
    with pytest.raises(TilewrightError, match="do not form 1 groups"):
        topi.cuda.group_conv2d_NCHWc_int8(x, w, 1, 1, 1, 1)
    with pytest.raises(TilewrightError, match="'NHWC'"):
        topi.cuda.conv2d_NCHWc_int8(x, w, 1, 1, 1, "NHWC", "int32")


def test_dense_packs_weights_that_are_not() -> None:
    x, w, b = floats(3, 7), floats(10, 7), floats(10)
    agree(nn.dense_pack, [x, w, b], x @ w.T + b)


def test_the_maximum_of_padding_alone() -> None:
    x = -np.ones((1, 1, 2), "float32")
    how: Any = ((2,), (2,), (1,), (0,), (4,))
    assert ref.poolnd_python(x, *how, "max", False).tolist() == [[[-1, 0, 0]]]
    x = -np.ones((1, 1, 3), "float32")
    how = ((2,), (1,), (1,), (0,), (1,))
    assert ref.poolnd_python(x, *how, "max").tolist() == [[[-1, -1, 0]]]


@pytest.mark.parametrize(
    "name, required",
    [
        ("conv2d_nchw", 5), ("conv3d_ncdhw", 6), ("conv3d_ndhwc", 6), ("pool1d", 6), ("pool2d", 6),
        ("pool3d", 6), ("deformable_conv2d_nchw", 9), ("conv1d_ncw", 2), ("instance_norm", 4),
    ],
)  # fmt: skip
def test_arguments_that_have_no_default(name: str, required: int) -> None:
    parameters = inspect.signature(getattr(nn, name)).parameters.values()
    assert sum(p.default is p.empty for p in parameters) == required


def test_functions_made_by_layouts_are_named_and_described() -> None:
    for name in (
        "conv1d_nwc",
        "group_conv2d_nhwc",
        "pool3d",
        "bitserial_conv2d_nhwc",
        "conv2d_hwcn",
    ):
        function = getattr(nn, name)
        assert function.__name__ == function.__qualname__ == name and function.__doc__
    last = list(inspect.signature(nn.pool_grad).parameters)[-2:]
    assert last == ["count_include_pad", "layout"]
    assert inspect.signature(nn.pool1d).parameters["layout"].default == "NCW"
    assert inspect.signature(topi.image.resize3d).parameters["layout"].default == "NCDHW"


def test_schedules_in_a_layout_take_nchw_where_none_is_told() -> None:
    x = te.placeholder((1, 4, 6, 6), "float32", "x")
    pooled = nn.adaptive_pool(x, (2, 2), "avg")
    assert topi.cuda.schedule_adaptive_pool(pooled)[pooled] is not None
    with pytest.raises(TilewrightError, match="no dimension W"):
        topi.cuda.schedule_adaptive_pool(pooled, "NCH")


@pytest.mark.parametrize("kernel, stride, padding, more", [(5, 1, 0, 0), (3, 3, (0, 3), 0)])
def test_transposed_convolutions_of_lines(
    kernel: int, stride: int, padding: Any, more: int
) -> None:
    """Filters slide along the lines that are vectors; padding may be more than filters reach."""
    x, w = floats(1, 3, 64), floats(3, 32, kernel)
    expected = ref.conv1d_transpose_ncw_python(x, w, stride, padding, (more,))
    how: Any = (stride, padding, "float32", (more,))
    agree(lambda a, b: nn.conv1d_transpose_ncw(a, b, *how), [x, w], expected)
