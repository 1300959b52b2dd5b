"""Products and convolutions whose constants lie in memory as a search has laid them, or have been
transformed ahead; and matrices behind other dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.topi.cases import agree, floats
from tilewright import topi
from tilewright.topi.nn.winograd import transforms

nn: Any = topi.nn
ref: Any = topi.testing

A, W, WB = floats(3, 8), floats(8, 6), floats(2, 8, 6)


def test_matrices_behind_other_dimensions() -> None:
    a, b, c = floats(2, 1, 3, 4), floats(5, 4, 6), floats(6)
    agree(nn.matmul, [a, b, c], a @ b + c)
    flipped = [a.swapaxes(2, 3), b.swapaxes(1, 2)]
    agree(lambda x, y: nn.matmul(x, y, None, None, True, True), flipped, a @ b)
    w = floats(7, 4)
    agree(lambda x, y: nn.dense(x, y, None, "float64"), [a, w], a @ w.T)


@pytest.mark.parametrize("product", [nn.matmul, nn.dense])
def test_products_with_tiles(product: Any) -> None:
    laid = W.reshape(2, 4, 3, 2).transpose(0, 2, 1, 3)
    agree(lambda x, y: product(x, y, None, None, **{LAID: "2k3j4k2j"}), [A, laid], A @ W)


LAID = "auto_scheduler_rewritten_layout"


def test_stacks_of_products_with_tiles() -> None:
    x, laid = floats(2, 3, 8), WB.reshape(2, 2, 4, 6).transpose(1, 0, 3, 2)
    agree(lambda a, b: nn.batch_matmul(a, b, **{LAID: "2k2b6j4k"}), [x, laid], x @ WB)


def test_convolutions_with_tiles() -> None:
    x, w = floats(1, 7, 7, 4), floats(3, 3, 4, 6)
    laid, expected = (
        w.reshape(3, 3, 2, 2, 6).transpose(2, 4, 0, 1, 3),
        ref.conv2d_nhwc_python(x, w, 1, 1),
    )
    how: Any = (1, 1, 1, "float32", "2rc6ff3ry3rx2rc")
    agree(lambda a, b: nn.conv2d_nhwc(a, b, *how), [x, laid], expected)
    x, w = floats(1, 4, 5, 6, 4), floats(3, 2, 3, 4, 6)
    expected = ref.conv3d_ndhwc_python(x, w, 1, 0)
    how = (1, 0, 1, 1, "float32", "4rc6ff3ry2rx3rz")
    agree(lambda a, b: nn.conv3d_ndhwc(a, b, *how), [x, w.transpose(3, 4, 0, 1, 2)], expected)


def test_shapes_from_before_a_search() -> None:
    x = floats(1, 5, 6, 4)
    w = floats(3, 3, 4, 2)

    def convolved(a: Any, b: Any) -> Any:
        b.shape = b.op.shape = tuple(b.shape[::-1])
        return nn.conv2d_nhwc(a, b, 1, 0, 1, "float32", "", (3, 3, 4, 2))

    agree(convolved, [x, w], ref.conv2d_nhwc_python(x, w, 1, 0))


@pytest.mark.parametrize("taps, rows", [(3, 8), (3, 6), (5, 8), (5, 6)])
def test_winograd_by_the_height_of_images(taps: int, rows: int) -> None:
    g = np.array(transforms(2 if rows % 8 else 4, taps).filter)
    x, w = floats(1, 4, rows, 7), floats(6, 4, taps, taps)
    ready = np.einsum("ay,bx,oiyx->abio", g, g, w).astype("float32")
    agree(
        lambda a, b: topi.cuda.conv2d_nchw_winograd_without_weight_transform(a, b, 1, 1, 1, None),
        [x, ready], ref.conv2d_nchw_python(x, w, 1, 1), rtol=1e-3,
    )  # fmt: skip


def test_winograd_of_channels_last() -> None:
    """Transformed filters have their channels last, or lie as a layout says."""
    g = np.array(transforms(2, 3).filter)
    x, w = floats(1, 7, 7, 4), floats(3, 3, 4, 6)
    ready = np.einsum("ay,bx,yxio->aboi", g, g, w).astype("float32")
    how: Any = (1, 1, 1, None)
    for filters, layout in (
        (ready, ""),
        (ready.reshape(4, 4, 3, 2, 4).transpose(2, 0, 1, 4, 3), "3co4eps4nu4ci2co"),
    ):
        agree(
            lambda a, b, text=layout: nn.conv2d_winograd_nhwc_without_weight_transform(
                a, b, *how, text
            ),
            [x, filters], ref.conv2d_nhwc_python(x, w, 1, 1), rtol=1e-3,
        )  # fmt: skip
