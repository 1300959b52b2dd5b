"""Default schedules of the operator library for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilewright as tw
from tests.exec.gpu.corpus.tensor_cores import NO_MATRICES
from tests.exec.gpu.kit import Case
from tilewright import te, topi
from tilewright.topi.schedules.default import default_schedule


def scheduled(
    make: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32"
) -> Callable[[], tuple[Any, list[Any]]]:
    """The default schedule of an operator on placeholders of these shapes."""

    def build() -> tuple[Any, list[Any]]:
        ins = [te.placeholder(shape, dtype, f"in{n}") for n, shape in enumerate(shapes)]
        out = make(*ins)
        return default_schedule(out, tw.Target("opencl")), [*ins, out]

    return build


def conv_relu(x: Any, f: Any) -> Any:
    return topi.nn.relu(topi.nn.conv2d_nchw(x, f, (1, 1), (1, 1, 1, 1), 1))


def windows(
    make: Callable[..., Any], *shapes: tuple[int, ...]
) -> Callable[[], tuple[Any, list[Any]]]:
    """A convolution of halves as CUDA's rules schedule it: restated as a product of windows."""

    def build() -> tuple[Any, list[Any]]:
        ins = [te.placeholder(shape, "float16", f"in{n}") for n, shape in enumerate(shapes)]
        out = make(*ins)
        s = default_schedule(out, tw.Target("cuda -arch=sm_80"))
        return s, [*ins, s[out].op.output(0)]

    return build


CASES = [
    Case(
        "topi_windows_half",
        windows(
            lambda x, f: topi.nn.conv2d_nhwc(x, f, 1, 1, 1, "float32"),
            (1, 4, 7, 16),
            (3, 3, 16, 16),
        ),
        opencl=NO_MATRICES,
        arch="sm_80",
    ),
    Case(
        "topi_windows_depthwise",
        windows(
            lambda x, f: topi.nn.depthwise_conv2d_nhwc(x, f, 1, 1, 1), (1, 5, 9, 24), (3, 3, 24, 1)
        ),
    ),
    Case("topi_add", scheduled(topi.add, (3, 40, 5), (40, 1))),
    Case("topi_transpose", scheduled(lambda x: topi.transpose(x, (2, 0, 1)), (6, 20, 9))),
    Case("topi_sum", scheduled(lambda x: topi.sum(x, axis=1), (6, 70))),
    Case("topi_sum_outer", scheduled(lambda x: topi.sum(x, axis=0), (50, 33))),
    Case("topi_sum_all", scheduled(topi.sum, (30, 31))),
    Case("topi_sum_few", scheduled(topi.sum, (3,))),
    Case("topi_max", scheduled(lambda x: topi.max(x, axis=(1, 2)), (5, 9, 10))),
    Case("topi_matmul", scheduled(topi.matmul, (33, 40), (40, 29))),
    Case("topi_dense", scheduled(topi.nn.dense, (5, 64), (30, 64))),
    Case("topi_batch_matmul", scheduled(topi.nn.batch_matmul, (3, 17, 12), (3, 20, 12))),
    Case("topi_softmax", scheduled(topi.nn.softmax, (7, 45))),
    Case("topi_conv2d", scheduled(conv_relu, (1, 4, 10, 10), (8, 4, 3, 3))),
    Case(
        "topi_depthwise",
        scheduled(
            lambda x, f: topi.nn.depthwise_nchwc(x, f, (1, 1), (1, 1, 1, 1)),
            (1, 2, 9, 9, 4),
            (2, 3, 3, 4),
        ),
    ),
    Case(
        "topi_conv2d_packed",
        scheduled(
            lambda x, f: topi.nn.conv_nchwc(x, f, (2, 2), (1, 1, 1, 1)),
            (1, 2, 9, 9, 4),
            (3, 2, 3, 3, 4, 4),
        ),
    ),
    Case(
        "topi_pool",
        scheduled(
            lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), 1, (1, 1, 1, 1), "max"), (1, 4, 9, 9)
        ),
    ),
]
