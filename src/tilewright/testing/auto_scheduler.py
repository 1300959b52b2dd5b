"""`tvm.testing.auto_scheduler`: workloads that tests of searches share, each registered by name.

Each function gives the tensors, inputs and results, of float32, that a `SearchTask` takes.
"""

from __future__ import annotations

from typing import Any

from ..auto_scheduler.dag import ComputeDAG
from ..auto_scheduler.state import State
from ..auto_scheduler.workload import register_workload
from ..loopir.op import if_then_else, indexdiv, indexmod
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute, placeholder
from ..tensor.reduce import sum
from ..tensor.tensor import Tensor
from ..topi.nn.convs import conv2d_nchw
from ..topi.nn.elemwise import relu
from ..topi.nn.pooling import pool2d
from ..topi.nn.softmax import softmax
from ..topi.nn.winograd import transforms
from ..topi.reduction import min
from ..topi.transform import pad

_TILE, _TAPS = 4, 3
_CONSTANT = "auto_scheduler_simplify_const_tensor_indices"


def _square(*names: str, size: int) -> list[Tensor]:
    return [placeholder((size, size), name=name) for name in names]


def _product(a: Tensor, b: Tensor, name: str, attrs: dict[str, Any] | None = None) -> Tensor:
    k = reduce_axis((0, a.shape[1]), name="k")
    return compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: sum(a[i, k] * b[k, j], axis=[k]),
        name=name,
        attrs=attrs,
    )


@register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> list[Tensor]:
    """C (N, M) = A (N, K) B (K, M), whose B may be laid out freely."""
    a, b = placeholder((N, K), name="A"), placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C", {"layout_free_placeholders": [b]})]


@register_workload("matmul_auto_scheduler_test_rename_1")
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> list[Tensor]:
    """C (N, M) = A (N, K) B (K, M), registered by another name than its own."""
    a, b = placeholder((N, K), name="A"), placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C")]


@register_workload
def double_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """E = (A B) C, all (N, N)."""
    a, b, c = _square("A", "B", "C", size=N)
    return [a, b, c, _product(_product(a, b, "D"), c, "E")]


@register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """D = A B and E = A C, all (N, N)."""
    a, b, c = _square("A", "B", "C", size=N)
    return [a, b, c, _product(a, b, "D"), _product(a, c, "E")]


@register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int,
    dilation: int = 1,
) -> list[Tensor]:  # fmt: skip
    """A convolution of (N, CI, H, W) with CO filters, bias, scale, offset, ReLU."""
    data = placeholder((N, CI, H, W), name="Data")
    kernel = placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    bias, scale, offset = (
        placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset")
    )
    conv = conv2d_nchw(data, kernel, strides, padding, dilation)
    shape = conv.shape
    biased = compute(shape, lambda i, j, k, l: conv[i, j, k, l] + bias[j, 0, 0], name="Bias_add")
    scaled = compute(shape, lambda i, j, k, l: biased[i, j, k, l] * scale[j, 0, 0], name="Bn_mul")
    moved = compute(shape, lambda i, j, k, l: scaled[i, j, k, l] + offset[j, 0, 0], name="Bn_add")
    return [data, kernel, bias, offset, scale, relu(moved)]


@register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> list[Tensor]:
    """The largest of windows of 2 x 2, of (N, CI, H, W)."""
    data = placeholder((N, CI, H, W), name="Data")
    return [data, pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


@register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """The least of each row of (N, M)."""
    a = placeholder((N, M), name="A")
    return [a, min(a, axis=-1)]


@register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """Softmax of the rows of (N, M)."""
    a = placeholder((N, M), name="A")
    return [a, softmax(a, axis=1)]


@register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> list[Tensor]:
    """Softmax of (a, b, c, d) along its last axis."""
    data = placeholder((a, b, c, d), name="A")
    return [data, softmax(data, axis=-1)]


@register_workload
def invalid_compute_definition() -> list[Tensor]:
    """Two loops of one name, which `ComputeDAG` refuses."""
    a = placeholder((10, 10), name="A")
    r, other = reduce_axis((0, 2), name="r1"), reduce_axis((0, 2), name="r1")
    return [a, compute((10,), lambda i: sum(a[i, r + other], axis=[r, other]), name="B")]


@register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> list[Tensor]:
    """The sum of (N,), without a dimension. Raises TilewrightError where `N` is no integer."""
    a = placeholder((N,), name="A")
    k = reduce_axis((0, N), name="k")
    return [a, compute((), lambda: sum(a[k], k), name="B")]


@register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> list[Tensor]:
    """The first element of (N,), without a dimension."""
    a = placeholder((N,), name="A")
    return [a, compute((), lambda: a[0], name="B")]


@register_workload
def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int = 3, stride: int = 1,
    padding: int = 0, dilation: int = 1,
) -> list[Tensor]:  # fmt: skip
    """A convolution of (N, H, W, CI) by F(4 x 4, 3 x 3); the filter (6, 6, CI, CO) is transformed.

    Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016. Raises
    TilewrightError where an extent is no integer.
    """
    assert (kernel_size, stride, dilation) == (_TAPS, 1, 1)
    side = _TILE + _TAPS - 1
    height, width = H + 2 * padding - 2, W + 2 * padding - 2
    rows, columns = -(-height // _TILE), -(-width // _TILE)
    tiles = N * rows * columns
    inputs = placeholder((N, H, W, CI), name="inputs")
    filters = placeholder((side, side, CI, CO), name="weight")
    # what the last tiles need is there too
    more = [n * _TILE - size for n, size in ((rows, height), (columns, width))]
    after = (0, padding + more[0], padding + more[1], 0)
    padded = pad(inputs, (0, padding, padding, 0), after, name="data_pad")
    made = transforms(_TILE)
    b = _matrix([list(column) for column in zip(*made.input)], "B")
    a = _matrix([list(column) for column in zip(*made.output)], "A")
    window = compute(
        (side, side, tiles, CI),
        lambda eps, nu, p, ci: padded[
            indexdiv(p, rows * columns),
            indexmod(indexdiv(p, columns), rows) * _TILE + eps,
            indexmod(p, columns) * _TILE + nu,
            ci,
        ],
        name="input_tile",
    )
    ra, rb = reduce_axis((0, side), "r_a"), reduce_axis((0, side), "r_b")
    packed = compute(
        window.shape,
        lambda eps, nu, p, ci: sum(window[ra, rb, p, ci] * b[ra, eps] * b[rb, nu], axis=[ra, rb]),
        name="data_pack",
        attrs={_CONSTANT: ["eps", "nu", "r_a", "r_b"]},
    )
    c = reduce_axis((0, CI), name="ci")
    products = compute(
        (side, side, tiles, CO),
        lambda eps, nu, p, co: sum(packed[eps, nu, p, c] * filters[eps, nu, c, co], axis=[c]),
        name="bgemm",
    )
    ra, rb = reduce_axis((0, side), "r_a"), reduce_axis((0, side), "r_b")
    inverse = compute(
        (_TILE, _TILE, tiles, CO),
        lambda vh, vw, p, co: sum(products[ra, rb, p, co] * a[ra, vh] * a[rb, vw], axis=[ra, rb]),
        name="inverse",
        attrs={_CONSTANT: ["vh", "vw", "r_a", "r_b"]},
    )
    out = compute(
        (N, height, width, CO),
        lambda n, h, w, co: inverse[
            indexmod(h, _TILE),
            indexmod(w, _TILE),
            (n * rows + indexdiv(h, _TILE)) * columns + indexdiv(w, _TILE),
            co,
        ],
        name="conv2d_winograd",
    )
    return [inputs, filters, out]


def _matrix(values: list[list[float]], name: str) -> Tensor:
    """A matrix of known numbers, as choices among them."""

    def element(i: Any, j: Any) -> Any:
        found: Any = 0.0
        for m, row in enumerate(values):
            for n, value in enumerate(row):
                if value:
                    found = if_then_else((i == m) & (j == n), value, found)
        return found

    attrs = {"const_matrix": True}
    made: Tensor = compute((len(values), len(values[0])), element, name=name, attrs=attrs)
    return made


def get_tiled_matmul() -> tuple[ComputeDAG, State]:
    """A product of 512 x 512 matrices, and a state of it in four levels of tiles."""
    dag = ComputeDAG(matmul_auto_scheduler_test(512, 512, 512))
    state = dag.get_init_state()
    c = dag.tensors[2]
    i = state.split(c, state[c].iters[0], [4, 8, 8])
    j = state.split(c, state[c].iters[4], [8, 4, 4])
    levels = [it for pair in zip(i, j) for it in pair]
    state.reorder(c, [*levels, state[c].iters[8]])
    return dag, state
