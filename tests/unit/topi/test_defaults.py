"""Operators as TVM's users call them: order of arguments, defaults, what they accept."""

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.run import check, floats, ints
from tilewright import te, topi
from tilewright.topi import nn
from tilewright.topi.testing import conv2d_nchw_python, conv2d_nhwc_python, dilate_python
from tilewright.topi.testing.convs import convolved
from tilewright.topi.utils import traverse_inline


def test_batches_of_products_transpose_the_second() -> None:
    a, b = floats(3, 4, 5), floats(3, 6, 5)
    check(nn.batch_matmul, [a, b], a @ b.transpose(0, 2, 1))
    check(topi.batch_matmul, [a[:1], b], a[:1] @ b.transpose(0, 2, 1))
    check(nn.batch_matmul, [a, b[:1]], a @ b[:1].transpose(0, 2, 1))
    swapped = a.transpose(0, 2, 1).copy()
    whole = lambda x, y: nn.batch_matmul(x, y, (3, 4, 6), "float32", True, True)  # noqa: E731
    check(whole, [swapped, b], a @ b.transpose(0, 2, 1))
    with pytest.raises(tw.TilewrightError, match="batches: reduced extents differ"):
        nn.batch_matmul(te.placeholder((2, 4, 5)), te.placeholder((3, 6, 5)))


def test_products_take_a_bias_third() -> None:
    a, b, c = ints(4, 5, dtype="int8"), ints(6, 5, dtype="int8"), ints(6)
    wanted = a.astype("int32") @ b.T.astype("int32") + c
    check(lambda x, y, z: nn.dense(x, y, z, "int32"), [a, b, c], wanted)
    check(lambda x, y, z: nn.matmul(x, y, z, "int32"), [a, b.T.copy(), c], wanted)
    x, y = floats(5, 4), floats(6, 5)
    check(lambda s, t: topi.matmul(s, t, True, True), [x, y], x.T @ y.T)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW4c"])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling_takes_dilation_before_padding(kind: str, layout: str) -> None:
    x = floats(2, 4, 7, 8, low=1, high=2)
    filler = -np.inf if kind == "max" else 0
    filled = np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 0)), constant_values=filler)
    parts = [filled[:, :, i : i + 7 : 2, j : j + 9 : 2] for i in (0, 3) for j in (0, 2)]
    parts = [p[:, :, :4, :5] for p in parts]
    wanted = np.max(parts, 0) if kind == "max" else np.mean(parts, 0)
    order = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1)}

    def laid(v: np.ndarray) -> np.ndarray:
        if layout == "NCHW4c":
            return v.transpose(0, 2, 3, 1)[:, None].copy()
        return v.transpose(order[layout]).copy()

    how = ([2, 2], [2, 2], [3, 2], [1, 3, 2, 0], kind, False, layout)
    check(lambda t: nn.pool2d(t, *how), [laid(x)], laid(wanted).astype("float32"))
    mean = x.mean((2, 3), keepdims=True)
    check(lambda t: nn.global_pool(t, "avg", layout), [laid(x)], laid(mean), 1e-4)


def test_averages_of_integers_are_rounded_towards_zero() -> None:
    x = ints(1, 2, 4, 4)
    total = x.reshape(1, 2, 2, 2, 2, 2).sum((3, 5))
    wanted = np.trunc(total / 4).astype("int32")
    check(lambda t: nn.pool2d(t, (2, 2), (2, 2), 1, 0, "avg"), [x], wanted)


@pytest.mark.parametrize("padding", [0, 2, (1, 2), (0, 1, 2, 3), "SAME", "VALID"])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), ((1, 2), 2)])
def test_paddings_of_convolutions(stride: Any, dilation: Any, padding: Any) -> None:
    x, w = floats(1, 4, 9, 8), floats(6, 2, 2, 3)
    wanted = convolved(x, w, stride, padding, dilation, groups=2)
    how: dict[str, Any] = {"padding": padding, "dilation": dilation, "groups": 2}
    check(
        lambda a, b: nn.grouped_conv2d(a, b, stride, **how), [x, w], wanted.astype("float32"), 1e-4
    )
    apart = dilate_python(w.transpose(2, 3, 1, 0), (dilation, dilation, 1, 1))
    rows = conv2d_nhwc_python(x.transpose(0, 2, 3, 1), apart, stride, padding, 2)
    np.testing.assert_allclose(rows, wanted.transpose(0, 2, 3, 1))


def test_even_windows_pad_more_in_front() -> None:
    x, w = np.ones((1, 1, 2, 2), "float32"), np.ones((1, 1, 2, 2), "float32")
    assert conv2d_nchw_python(x, w, 1, "SAME").tolist() == [[[[1, 2], [2, 4]]]]


def test_inlining_stops_at_other_operations() -> None:
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    first = nn.conv2d_nchw(nn.relu(x), w, 1, 1, 1)
    out = topi.exp(nn.relu(nn.conv2d_nchw(nn.relu(first), w, 1, 1, 1)))
    s = te.create_schedule(out.op)
    seen: list[str] = []
    traverse_inline(s, out.op, lambda op: seen.append(op.name))
    assert seen == ["conv2d", "T_relu", "T_exp"]
