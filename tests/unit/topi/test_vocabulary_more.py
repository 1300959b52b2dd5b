"""Operators that scripts use less often, and targets' names for operators and schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.cases import agree, floats, ints
from tilewright import te, topi

image: Any = topi.image
nn: Any = topi.nn
ref: Any = topi.testing  # called with what lists hold


X, W = floats(2, 4, 7, 9), floats(6, 4, 3, 3)


def test_group_convolutions_of_one_dimension() -> None:
    x, w = floats(2, 6, 15), floats(4, 3, 3)
    expected = ref.group_conv1d_ncw_python(x, w, 2, 1, 1, 2)
    agree(lambda a, b: nn.group_conv1d_ncw(a, b, 2, 1, 1, 2), [x, w], expected)
    agree(
        lambda a, b: nn.group_conv1d_nwc(a, b, 2, 1, 1, 2),
        [x.transpose(0, 2, 1), w.transpose(2, 1, 0)], expected.transpose(0, 2, 1),
    )  # fmt: skip


def test_convolutions_of_bytes_in_blocks() -> None:
    x, w = ints(1, 8, 5, 6, dtype="int8"), ints(8, 8, 3, 3, dtype="int8")
    plain = ref.conv2d_nchw_python(x.astype("int32"), w.astype("int32"), 1, 1)
    blocks = x.reshape(1, 2, 4, 5, 6).transpose(0, 1, 3, 4, 2)
    packed = w.reshape(2, 4, 2, 1, 4, 3, 3).transpose(0, 2, 5, 6, 3, 1, 4)
    expected = plain.reshape(1, 2, 4, 5, 6).transpose(0, 1, 3, 4, 2)
    how: Any = (1, 1, 1, "NCHW4c", "NCHW4c")
    agree(lambda a, b: nn.conv2d_NCHWc_int8(a, b, *how), [blocks, packed], expected)
    outer = w.reshape(2, 4, 8, 3, 3).transpose(0, 2, 3, 4, 1)
    agree(lambda a, b: nn.conv2d_NCHWc_OIHWo(a, b, *how, "int32"), [blocks, outer], expected)


@pytest.mark.parametrize("groups, moved", [(1, 1), (2, 2)])
def test_deformable_conv2d(groups: int, moved: int) -> None:
    w, offset = floats(6, 4 // groups, 3, 3), floats(2, moved * 18, 7, 9)
    how: Any = (1, 1, 1, moved, groups)
    expected = ref.deformable_conv2d_nchw_python(X, offset, w, *how)
    agree(lambda a, b, c: nn.deformable_conv2d_nchw(a, b, c, *how, None), [X, offset, w], expected)
    nhwc = [x.transpose(0, 2, 3, 1) for x in (X, offset)]
    agree(
        lambda a, b, c: nn.deformable_conv2d_nhwc(a, b, c, *how, None),
        [*nhwc, w.transpose(2, 3, 1, 0)], expected.transpose(0, 2, 3, 1),
    )  # fmt: skip


def test_winograd_filters_of_three_dimensions() -> None:
    g = np.array(nn.winograd_util.winograd_transform_matrices.__globals__["transforms"](2).filter)
    flat, cube = floats(3, 2, 2, 3, 3), floats(3, 2, 3, 3, 3)
    expected = np.einsum("ay,bx,oidyx->abdoi", g, g, flat)
    agree(lambda k: nn.conv3d_winograd_weight_transform(k, 2), [flat], expected)
    expected = np.einsum("cz,ay,bx,oizyx->caboi", g, g, g, cube)
    agree(lambda k: nn.conv3d_winograd_weight_transform(k, 2), [cube], expected)
    plain = floats(3, 2, 3, 3)
    expected = np.einsum("ay,bx,oiyx->aboi", g, g, plain)
    agree(lambda k: nn.conv2d_winograd_weight_transform(k, 2), [plain], expected)


def test_fixed_point_multiply_per_axis() -> None:
    x, y = ints(3, 4, low=-999, high=999), ints(4, low=1 << 29, high=1 << 30)
    left, right = ints(4, low=0, high=3), ints(4, low=0, high=3)
    shift = 31 + right.astype("int64")
    wide = (x.astype("int64") << left) * y.astype("int64")
    expected = (wide + (np.int64(1) << (shift - 1))) >> shift
    agree(
        lambda a, b, c, d: topi.fixed_point_multiply_per_axis(a, b, c, d, 1, 1, [1]),
        [x, y, left, right], expected,
    )  # fmt: skip


def test_stft() -> None:
    x, window = floats(2, 32), np.hanning(8).astype("float32")
    frames = np.lib.stride_tricks.sliding_window_view(x, 8, 1)[:, ::4] * window
    spectrum = np.fft.rfft(frames.astype("float64")).transpose(0, 2, 1)
    expected = np.stack([spectrum.real, spectrum.imag], -1) / 8**0.5
    shape = [2, 5, 7, 2]
    agree(lambda a, w: topi.stft(a, 8, 4, 8, w, True, True, shape), [x, window], expected)


def test_bitserial_convolution_with_channels_last() -> None:
    x, w = ints(1, 6, 7, 32, low=0, high=4, dtype="uint32"), ints(3, 3, 32, 4, low=0, high=2)
    expected = ref.conv2d_nhwc_python(x.astype("int32"), w, 1, 1)
    agree(
        lambda p, q: nn.bitserial_conv2d_nhwc(p, q, 1, 1, 2, 1, "uint32", "int32", False),
        [x, w.astype("uint32")], expected,
    )  # fmt: skip


def test_upsampling3d_and_dilation2d_with_channels_last() -> None:
    x = floats(1, 2, 3, 4, 5)
    expected = ref.upsampling3d_python(x, (2, 1, 3))
    how: Any = (2, 1, 3, "NCDHW", "nearest_neighbor", "asymmetric")
    agree(lambda a: nn.upsampling3d(a, *how), [x], expected)
    filters = floats(4, 2, 2)
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 2), (2, 3))
    wanted = (windows + filters[:, None, None]).max((-2, -1)).transpose(0, 2, 3, 1)
    agree(
        lambda a, b: image.dilation2d_nhwc(a, b, 1, "VALID", 1),
        [X.transpose(0, 2, 3, 1), filters.transpose(1, 2, 0)], wanted,
    )  # fmt: skip


class Rows:
    """As tvm.contrib.sparse's placeholders: three tensors and a shape."""

    def __init__(self, parts: Any, shape: Any) -> None:
        self.data, self.indices, self.indptr = parts
        self.shape = shape


def test_products_with_compressed_rows() -> None:
    matrix = np.where(np.abs(floats(5, 8)) > 1, floats(5, 8), 0).astype("float32")
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype("int32")
    parts = [matrix[matrix != 0], np.nonzero(matrix)[1].astype("int32"), starts]
    b, c, d = floats(8, 3), floats(5), floats(3, 8)

    def sparse(function: Any) -> Any:
        return lambda *t: function(Rows(t[:3], matrix.shape), *t[3:])

    agree(sparse(topi.sparse.csrmm), [*parts, b, c], matrix @ b + c[:, None])
    agree(sparse(topi.sparse.csrmv), [*parts, b[:, :1]], matrix @ b[:, :1])
    agree(sparse(topi.sparse.dense), [*parts, d, floats(3) * 0], matrix @ d.T)
    agree(
        sparse(lambda a, x, bias: topi.sparse.dense(x, a, bias)), [*parts, d, c], d @ matrix.T + c
    )


@pytest.mark.parametrize("size", [1, 3])
def test_sparse_conv2d(size: int) -> None:
    depth = 4 * size * size
    matrix = np.where(np.abs(floats(6, depth)) > 1, floats(6, depth), 0).astype("float32")
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype("int32")
    parts = [matrix[matrix != 0], np.nonzero(matrix)[1].astype("int32"), starts]
    filters = matrix.reshape(6, size, size, 4).transpose(0, 3, 1, 2)
    expected = ref.conv2d_nchw_python(X, filters, 1, size // 2)
    how: Any = ("NCHW", size)
    agree(lambda a, *t: nn.sparse_conv2d(a, *t, *how), [X, *parts], expected)


def names(module: Any) -> list[str]:
    return [n for n in dir(module) if not n.startswith("_")]


@pytest.mark.parametrize(
    "module",
    ["generic", "x86", "arm_cpu", "cuda", "mali", "bifrost", "intel_graphics", "rocm", "gpu",
     "adreno", "hls"],
)  # fmt: skip
def test_every_name_of_a_target_is_a_function(module: str) -> None:
    found = getattr(topi, module)
    assert any(name.startswith("schedule_") for name in names(found))
    for name in names(found):
        if name != "tensor_intrin":
            assert callable(getattr(found, name)), name


def test_targets_choose_their_operators_and_schedules() -> None:
    table = {
        "generic": (nn.conv2d_nchw, topi.generic.schedule_conv2d_nchw),
        "cpu": (topi.x86.conv2d_nchw, topi.x86.schedule_conv2d_nchw),
        "gpu": (topi.cuda.conv2d_nchw, topi.cuda.schedule_conv2d_nchw),
    }
    assert ref.dispatch("cuda", table) is table["gpu"]
    function, schedule = ref.dispatch("llvm", table)
    ref.compare_numpy_tvm(
        [X, W], ref.conv2d_nchw_python(X, W, 1, 1), "llvm", tw.cpu(0),
        lambda a, b: function(a, b, 1, 1, 1, "float32"), schedule,
    )  # fmt: skip


def test_pool_schedules_take_the_layout_and_existing_ones_are_extended() -> None:
    x = te.placeholder((1, 4, 8, 8), "float32", "x")
    with tw.target.Target("llvm"):
        pooled = nn.pool2d(x, 2, 2, 1, 0, "max")
        topi.x86.schedule_pool([pooled], "NCHW")
        out = topi.exp(x)
        s = te.create_schedule(out.op)
        assert topi.generic.schedule_injective_from_existing(s, out) is s
    assert len(s[out].leaf_iter_vars) != 4
