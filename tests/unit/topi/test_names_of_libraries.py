"""Operators under the names of libraries and of devices' ways to read channels: compiled for this
machine, and some of them as kernels in simt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tilewright as tw
from tests.unit.topi.cases import Array, agree, compiled, floats, ints
from tilewright import te, topi
from tilewright.base.errors import TilewrightError
from tilewright.topi.nn.winograd import transforms

cuda: Any = topi.cuda
adreno: Any = topi.adreno
nn: Any = topi.nn
ref: Any = topi.testing


def in_simt(function: Callable[..., Any], arrays: Sequence[Array], target: str) -> list[Array]:
    """What a function of tensors gives as kernels under its default schedule."""
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{k}") for k, a in enumerate(arrays)]
    with tw.target.Target(target):
        made = function(*tensors)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        built = tw.build(topi.default_schedule(outs), [*tensors, *outs], target)
    found = [np.full([int(d) for d in t.shape], 7, t.dtype) for t in outs]
    built.run_simt(*arrays, *found)
    return found


A, B, C = floats(5, 8), floats(8, 6), floats(6)
STACK = floats(2, 3, 8), floats(2, 7, 8)
IMAGE, FILTERS = floats(1, 4, 6, 7), floats(8, 4, 3, 3)
VOLUME, CUBES = floats(1, 2, 4, 5, 4), floats(4, 2, 3, 3, 3)
LINES = floats(3, 9)
ORDER = np.argsort(-LINES, axis=1, kind="stable")


def exponentials(x: Array) -> Array:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], list[Array], list[Any]]] = {
    "matmul": (cuda.matmul_cublas, [A, B, C], [A @ B + C]),
    "dense": (cuda.dense_cublas, [A, B.T.copy()], [A @ B]),
    "batch_matmul": (cuda.batch_matmul_cublas, [*STACK], [STACK[0] @ STACK[1].swapaxes(1, 2)]),
    "softmax": (cuda.softmax_cudnn, [A], [exponentials(A)]),
    "log_softmax": (cuda.log_softmax_cudnn, [A], [np.log(exponentials(A))]),
    "conv2d": (
        lambda a, b: cuda.conv2d_cudnn(a, b, 1, 1, 1),
        [IMAGE, FILTERS], [ref.conv2d_nchw_python(IMAGE, FILTERS, 1, 1)],
    ),
    "conv2d, channels last": (
        lambda a, b: cuda.conv2d_cudnn(a, b, 1, 1, 1, 1, "NHWC"),
        [IMAGE.transpose(0, 2, 3, 1).copy(), FILTERS.transpose(0, 2, 3, 1).copy()],
        [ref.conv2d_nchw_python(IMAGE, FILTERS, 1, 1).transpose(0, 2, 3, 1)],
    ),
    "conv3d": (
        lambda a, b: cuda.conv3d_cudnn(a, b, 1, 1, 1, 1),
        [VOLUME, CUBES], [ref.conv3d_ncdhw_python(VOLUME, CUBES, 1, 1)],
    ),
    "sort": (lambda x: cuda.sort_thrust(x, -1, 0), [LINES], [-np.sort(-LINES)]),
    "argsort": (
        lambda x: cuda.argsort_thrust(x, -1, 0, "int32", "both"), [LINES], [-np.sort(-LINES), ORDER]
    ),
    "topk": (
        lambda x: cuda.topk_thrust(x, 2, ret_type="indices"), [LINES], [ORDER[:, :2]]
    ),
    "stable_sort_by_key": (
        cuda.stable_sort_by_key_thrust, [np.array([3, 1, 3, 0]), np.array([0, 1, 2, 3])],
        [[0, 1, 3, 3], [3, 1, 0, 2]],
    ),
    "scan": (
        lambda x: cuda.scan_thrust(x, "float32", False, True),
        [LINES], [LINES.cumsum(1), LINES.sum(1)],
    ),
    "scan by products": (
        lambda x: cuda.scan_thrust(x, "float32", False, binop=mul), [LINES], [LINES.cumprod(1)]
    ),
    "scan by maxima": (
        lambda x: cuda.scan_thrust(x, "float32", False, binop=tw.tir.max),
        [LINES], [np.maximum.accumulate(LINES, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_by_the_names_of_libraries(name: str) -> None:
    function, arrays, expected = CASES[name]
    agree(function, arrays, *expected)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "softmax", "argsort", "scan"])
def test_kernels_by_the_names_of_libraries(name: str) -> None:
    function, arrays, expected = CASES[name]
    for got, want in zip(in_simt(function, arrays, "cuda"), expected):
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


def test_what_libraries_do_not_do() -> None:
    x = te.placeholder((2, 3, 4))
    with pytest.raises(TilewrightError, match="rows of matrices"):
        cuda.log_softmax_cudnn(x)
    with pytest.raises(TilewrightError, match="none of add, multiply, max and min"):
        cuda.scan_thrust(x, "float32", binop=lambda a, b: a - b)
    with pytest.raises(TilewrightError, match="int4 or int8"):
        cuda.conv2d_hwnc_tensorcore(*[te.placeholder((2, 2, 2, 2))] * 2, 1, 0, 1, "int8")


def test_convolution_of_tiles_of_bytes() -> None:
    x, w = ints(8, 16, 6, 7, dtype="int8"), ints(16, 16, 3, 3, dtype="int8")
    plain = ref.conv2d_nchw_python(x.astype("int32"), w.astype("int32"), 1, 1)
    expected = plain.transpose(2, 3, 0, 1)
    plain_x, plain_w = x.transpose(2, 3, 0, 1), w.transpose(2, 3, 0, 1)
    tiles = [
        a.reshape(*a.shape[:2], a.shape[2] // 4, 4, a.shape[3] // 8, 8).transpose(0, 1, 2, 4, 3, 5)
        for a in (plain_x, plain_w)
    ]
    for arrays in ([plain_x, plain_w], tiles):
        agree(lambda a, b: cuda.conv2d_hwnc_tensorcore(a, b, 1, 1, 1, "int8"), arrays, expected)


def blocks(x: Array, at: int) -> Array:
    """Dimension `at` in blocks of four, which are last."""
    shape = [*x.shape[:at], x.shape[at] // 4, 4, *x.shape[at + 1 :]]
    return np.ascontiguousarray(np.moveaxis(x.reshape(shape), at + 1, -1))


ONE_EACH = floats(4, 1, 3, 3)
LAST = IMAGE.transpose(0, 2, 3, 1).copy()
GROUPED = floats(8, 2, 3, 3)
PLAIN = ref.conv2d_nchw_python(IMAGE, FILTERS, 1, 1)
DEPTHWISE = ref.conv2d_nchw_python(IMAGE, ONE_EACH, 1, 1, groups=4)
BACK = floats(4, 8, 3, 3)
TRANSPOSED = ref.conv2d_transpose_nchw_python(IMAGE, BACK, 2, 1, (1, 1))
G = np.array(transforms(2).filter)
READY = np.einsum("ay,bx,oiyx->abio", G, G, FILTERS).astype("float32")


def last(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


FOURS: dict[str, tuple[list[Array], tuple[int, int, int], Array, tuple[Any, ...]]] = {
    # arrays, which dimensions of data, filters and result stand in blocks, the result, arguments
    "conv2d_nchwc": ([IMAGE, FILTERS], (1, 0, 1), PLAIN, (1, 1, 1, None)),
    "conv2d_nhwc": (
        [LAST, FILTERS.transpose(2, 3, 1, 0)], (3, 3, 3), last(PLAIN), (1, 1, 1, "float32")
    ),
    "group_conv2d_nchwc": (
        [IMAGE, GROUPED], (1, 0, 1), ref.conv2d_nchw_python(IMAGE, GROUPED, 1, 1, groups=2),
        (1, 1, 1, None),
    ),
    "depthwise_conv2d_nchwc": ([IMAGE, ONE_EACH], (1, 0, 1), DEPTHWISE, (1, 1, 1, None)),
    "depthwise_conv2d_nhwc": (
        [LAST, ONE_EACH.transpose(2, 3, 0, 1)], (3, 2, 3), last(DEPTHWISE), (1, 1, 1, None)
    ),
    "conv2d_transpose_nchwc": ([IMAGE, BACK], (1, 1, 1), TRANSPOSED, (2, 1, None, (1, 1))),
    "conv2d_nchw_winograd": ([IMAGE, FILTERS], (1, 0, 1), PLAIN, (1, 1, 1, None)),
    "conv2d_nhwc_winograd": (
        [LAST, FILTERS.transpose(2, 3, 1, 0)], (3, 3, 3), last(PLAIN), (1, 1, 1, None)
    ),
    "conv2d_nchw_winograd_without_weight_transform": (
        [IMAGE, READY], (1, 3, 1), PLAIN, (1, 1, 1, None)
    ),
    "conv2d_nhwc_winograd_without_weight_transform": (
        [LAST, READY], (3, 3, 3), last(PLAIN), (1, 1, 1, None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOURS)
def test_channels_in_fours(name: str) -> None:
    arrays, places, expected, how = FOURS[name]
    function = getattr(adreno, name)
    assert hasattr(adreno, f"schedule_{name}")
    agree(lambda a, b: function(a, b, *how), arrays, expected, rtol=1e-3)
    data, filters, result = places
    packed = [blocks(np.asarray(a), d) for a, d in zip(arrays, (data, filters))]
    agree(lambda a, b: function(a, b, *how), packed, blocks(expected, result), rtol=1e-3)


def test_channels_in_fours_on_a_device() -> None:
    packed = [blocks(IMAGE, 1), blocks(FILTERS, 0)]
    (got,) = in_simt(lambda a, b: adreno.conv2d_nchwc(a, b, 1, 1, 1, None), packed, "opencl")
    np.testing.assert_allclose(got, blocks(PLAIN, 1), 1e-4, 1e-4)
    with pytest.raises(TilewrightError, match="blocks of 4 last"):
        adreno.conv2d_nchwc(
            te.placeholder((1, 1, 2, 2, 3)), te.placeholder((4, 4, 1, 1)), 1, 0, 1, None
        )


@pytest.mark.parametrize("rows", [6, 8])
@pytest.mark.parametrize("depth", [3, 2])
def test_winograd_of_volumes(rows: int, depth: int) -> None:
    g = np.array(transforms(2 if rows % 8 else 4).filter)
    x, w = floats(1, 2, 5, rows, 5), floats(3, 2, depth, 3, 3)
    rule = "cz,ay,bx,oizyx->cabio" if depth == 3 else "ay,bx,oizyx->abzio"
    ready = np.einsum(rule, *[g] * (3 if depth == 3 else 2), w).astype("float32")
    agree(
        lambda a, b: cuda.conv3d_ncdhw_winograd_without_weight_transform(a, b, 1, 1, 1, 1, None),
        [x, ready], ref.conv3d_ncdhw_python(x, w, 1, 1), rtol=1e-3,
    )  # fmt: skip


def test_winograd_of_channels_last_by_tensor_cores() -> None:
    how: Any = (1, 1, 1, None)
    agree(
        lambda a, b: cuda.conv2d_nhwc_winograd_tensorcore_without_weight_transform(a, b, *how),
        [LAST, READY], last(PLAIN), rtol=1e-3,
    )  # fmt: skip
    agree(
        lambda a, b: cuda.conv2d_nhwc_winograd_tensorcore(a, b, *how),
        [LAST, FILTERS.transpose(2, 3, 1, 0)], last(PLAIN), rtol=1e-3,
    )  # fmt: skip


def test_quantized_convolutions_of_arm() -> None:
    x, w = ints(1, 5, 6, 4, dtype="int8"), ints(3, 3, 4, 7, dtype="int8")
    expected = ref.conv2d_nhwc_python(x.astype("int32"), w.astype("int32"), 1, 1)
    arm: Any = topi.arm_cpu
    for name in ("interleaved", "native"):
        agree(
            lambda a, b, n=name: getattr(arm, f"compute_conv2d_NHWC_quantized_{n}")(
                a, b, 1, 1, 1, "int32"
            ),
            [x, w],
            expected,
        )


def test_rows_of_blocks() -> None:
    dense = np.kron(np.array([[1, 0, 2, 3], [0, 4, 0, 0], [0, 0, 0, 0]]), np.ones((2, 3)))
    dense = (
        dense
        * np.arange(1, 7).reshape(2, 3)[np.newaxis].repeat(3, 0).reshape(6, 3)[:, np.arange(12) % 3]
    ).astype("float32")
    matrix = sparse.bsr_matrix(dense, blocksize=(2, 3))
    padded = cuda.pad_sparse_matrix(matrix, 2)
    assert padded.indptr.tolist() == [0, 4, 6, 6]
    assert padded.indices.tolist() == [0, 2, 3, 0, 1, 0]
    assert (padded.toarray() == dense).all()
    x = floats(4, 12)
    agree(
        cuda.sparse_dense_padded,
        [x, padded.data, padded.indices, padded.indptr], x @ dense.T,
    )  # fmt: skip
    with pytest.raises(TilewrightError, match="bsr_matrix"):
        cuda.pad_sparse_matrix(matrix.tocsr(), 2)
    with tw.target.Target("cuda"):
        weight = te.placeholder((6, 2, 3))
        wide, narrow = (te.placeholder((4, n)) for n in (64, 63))
        assert cuda.is_valid_for_sparse_dense_padded(wide, weight)
        assert not cuda.is_valid_for_sparse_dense_padded(narrow, weight)


def test_means_and_tops_on_devices() -> None:
    x, places, new = floats(3, 5, 4), ints(2, 6, 4, low=-5, high=5), floats(2, 6, 4)

    def scattered(a: Any, b: Any, c: Any) -> Any:
        return cuda.scatter_elements(a, b, c, 1, "mean")

    (expected,) = compiled(scattered, [x, places, new])
    (got,) = in_simt(scattered, [x, places, new], "cuda")
    np.testing.assert_allclose(got, expected, 1e-6)
    half = [x.astype("float16"), places, new.astype("float16")]
    np.testing.assert_allclose(in_simt(scattered, half, "cuda")[0], expected, 2e-2, 2e-2)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_the_first_of_as_many_as_an_array_holds(target: str) -> None:
    data, k = te.placeholder((3, 9), name="data"), te.placeholder((1,), "int64", "k")
    with tw.target.Target(target):
        values, places = topi.topk(data, k, -1, "both", False, "int64")
        f = tw.build(topi.default_schedule([values, places]), [data, values, places], target)
    for n in (1, 4, 9):
        found, at = np.zeros((3, n), "float32"), np.zeros((3, n), "int64")
        (f if target == "llvm" else f.run_simt)(LINES, found, at)
        assert (at == ORDER[:, :n]).all()
        assert (found == np.take_along_axis(LINES, ORDER[:, :n], 1)).all()


def test_what_graphs_ask_of_operators() -> None:
    from types import SimpleNamespace as Size

    data = ("TENSOR", (1, 32, 28, 30), "float32")
    cfg = {"tile_ic": Size(size=[2, 16]), "tile_oc": Size(size=[8, 8])}
    rest = ((2, 2), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", "float32")
    workload = ("conv2d_NCHWc.x86", data, ("TENSOR", (64, 32, 3, 3), "float32"), *rest)
    with pytest.raises(ValueError, match="missing register"):
        nn.conv2d_infer_layout(workload, cfg)
    with tw.target.Target("llvm"):
        inputs, outputs = nn.conv2d_infer_layout(workload, cfg)
        assert inputs == (((1, 2, 28, 30, 16), "NCHW16c"),)
        assert outputs == (((1, 8, 14, 15, 8), "NCHW8c"),)
        own = ("depthwise_conv2d_NCHWc.x86", data, ("TENSOR", (32, 1, 3, 3), "float32"), *rest)
        _, outputs = nn.depthwise_conv2d_infer_layout(own, cfg)
        assert outputs == (((1, 4, 14, 15, 8), "NCHW8c"),)
        assert nn.conv2d_alter_layout({}, [], [], None) is None
    given = []
    nn.qnn_add_alter_layout.register("hexagon", lambda *args: given.append(args))
    with tw.target.Target("cuda"):
        assert nn.qnn_add_alter_layout(1, 2, 3, 4) is None
    assert not given
    assert nn.Workload._fields[5:8] == ("out_filter", "kernel_h", "kernel_w")
