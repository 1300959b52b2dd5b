"""What the modules of targets hold: signatures as TVM has them, operators that are theirs alone."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.unit.topi.cases import agree, compiled, floats, ints
from tilewright import te, topi
from tilewright.base.errors import TilewrightError

X, Y = floats(3, 5), floats(4, 5)

SIGNATURES = {
    "cuda.conv2d_nchw": "data, kernel, strides, padding, dilation, out_dtype='float32'",
    "cuda.conv2d_nchw_int8": "data, kernel, strides, padding, dilation, out_dtype='int32'",
    "cuda.conv2d_NCHWc_int8": "data, kernel, stride, padding, dilation, layout, out_dtype",
    "cuda.group_conv2d_NCHWc_int8": (
        "data, kernel, stride, padding, dilation, groups, out_dtype='float32'"
    ),
    "cuda.conv3d_ncdhw_winograd": "data, kernel, strides, padding, dilation, groups, out_dtype",
    "cuda.batch_matmul": (
        "x, y, out_shape=None, out_dtype=None, transpose_a=False, transpose_b=True"
    ),
    "cuda.argsort": "data, axis=-1, is_ascend=1, dtype='float32', ret_type='indices'",
    "cuda.searchsorted": "sorted_sequence, values, right, out_dtype='int64'",
    "cuda.cumsum": "data, axis=None, dtype=None, exclusive=None, workspace=None",
    "cuda.schedule_adaptive_pool": "outs, layout='NCHW'",
    "cuda.schedule_pool": "outs, layout",
    "x86.conv2d_nchw": "data, kernel, strides, padding, dilation, out_dtype",
    "x86.concatenate": "data, axis=0",
    "x86.conv2d_transpose_nchw": "data, kernel, strides, padding, out_dtype, output_padding",
    "x86.dense_cblas": "data, weight, bias=None, out_dtype=None",
    "intel_graphics.conv2d_nchw": "data, kernel, stride, padding, dilation, out_dtype='float32'",
    "gpu.matmul_default": (
        "tensor_a, tensor_b, bias=None, out_dtype=None, transpose_a=False, transpose_b=False"
    ),
    "math.left_shift": "x, n",
    "cumsum": "data, axis=None, dtype=None, exclusive=None",
    "scatter_nd": "data, indices, updates, mode",
    "gather_nd": "a, indices, batch_dims=0",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_tvm(name: str) -> None:
    function: Any = topi
    for part in name.split("."):
        function = getattr(function, part)
    plain = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in inspect.signature(function).parameters.values()
    ]
    assert ", ".join(map(str, plain)) == SIGNATURES[name]


def test_arguments_go_by_the_names_of_the_target() -> None:
    data, kernel = ints(1, 4, 5, 5, dtype="int8"), ints(3, 4, 1, 1, dtype="int8")
    expected = np.einsum("nchw,fc->nfhw", data.astype("int32"), kernel[..., 0, 0].astype("int32"))
    how: Any = {"strides": 1, "padding": 0, "dilation": 1}
    agree(lambda a, b: topi.cuda.conv2d_nchw_int8(a, kernel=b, **how), [data, kernel], expected)
    with pytest.raises(TypeError, match="missing a required argument: 'dilation'"):
        topi.x86.conv2d_nchw(te.placeholder((1, 1, 1, 1)), te.placeholder((1, 1, 1, 1)), 1, 0)


@pytest.mark.parametrize("library", ["cblas", "mkl", "dnnl"])
def test_products_by_blas(library: str) -> None:
    bias = floats(4)
    dense = getattr(topi.x86, f"dense_{library}")
    matmul = getattr(topi.x86, f"matmul_{library}")
    agree(dense, [X, Y, bias], X @ Y.T + bias)
    other = floats(3, 4)
    agree(lambda a, b: matmul(a, b, transpose_a=True), [X, other], X.T @ other)
    with pytest.raises(TilewrightError, match="a BLAS has no product of float16"):
        dense(*(te.placeholder((2, 2), "float16") for _ in "ab"))


def test_bytes_and_stacks_by_blas() -> None:
    a, b = ints(3, 5, low=0, dtype="uint8"), ints(4, 5, dtype="int8")
    wanted = a.astype("int32") @ b.astype("int32").T
    agree(lambda p, q: topi.x86.dense_mkl(p, q, out_dtype="int32"), [a, b], wanted)
    s, t = floats(2, 3, 5), floats(2, 4, 5)
    for product in (topi.x86.batch_matmul_cblas, topi.x86.batch_matmul_mkl):
        agree(product, [s, t], s @ t.transpose(0, 2, 1))
    with pytest.raises(TilewrightError, match=r"shape \[2, 3, 4\], not \[2, 3, 3\]"):
        topi.x86.batch_matmul_cblas(
            te.placeholder((2, 3, 5)), te.placeholder((2, 4, 5)), out_shape=(2, 3, 3)
        )


def test_scans_of_devices() -> None:
    before = np.concatenate([np.zeros((3, 1)), np.cumsum(X, 1)[:, :-1]], 1)
    agree(lambda t: topi.cuda.exclusive_scan(t, 1, True), [X], before, X.sum(1))
    agree(lambda t: topi.cuda.inclusive_scan(t, 0), [X], np.cumsum(X, 0))
    agree(
        lambda t: topi.cuda.scanop(t, lambda a, b: a * b, 1, 1, exclusive=True),
        [X],
        np.concatenate([np.ones((3, 1)), np.cumprod(X, 1)[:, :-1]], 1),
    )
    agree(lambda t: topi.cuda.cumsum(t, exclusive=True), [X], np.cumsum(X) - X.reshape(-1))


def test_sorts_of_devices() -> None:
    places = np.argsort(X, 0)
    agree(lambda t: topi.cuda.argsort(t, 0, ret_type="both"), [X], np.sort(X, 0), places)
    agree(lambda t: topi.cuda.argsort(t, 0), [X], places)
    values = floats(3, 5)
    agree(
        lambda k, v: topi.cuda.sort_by_key(k, v, 0, 0),
        [X, values],
        -np.sort(-X, 0),
        np.take_along_axis(values, np.argsort(-X, 0), 0),
    )
    line = np.sort(floats(7))
    agree(
        lambda a, b: topi.cuda.searchsorted(a, b, True),
        [line, X],
        np.searchsorted(line, X, "right"),
    )


def test_numbers_by_threefry_are_those_of_tvm() -> None:
    """The counter goes on by 4 behind numbers of which only a part was asked for, and numbers are
    made of the lower bits of words, at their upper end."""
    gen = np.array([1, 2, 3, 4, 0, 0, 0, 7, 1 << 63, 0], "uint64")
    new, words = compiled(lambda g: topi.random.threefry_generate(g, (6,)), [gen])
    assert new[7] == 7 + 4 + 4
    behind = gen.copy()
    behind[7] += 4
    _, more = compiled(lambda g: topi.random.threefry_generate(g, (4,)), [behind])
    assert words[4:].tolist() == more[:2].tolist()
    _, shares = compiled(lambda g: topi.random.uniform(g, 0, 1, (6,), "float32"), [gen])
    np.testing.assert_array_equal(shares, (words.astype("uint32") >> 9) / np.float32(1 << 23))
    chances = np.array([3, -5, 1], "float32")
    _, drawn = compiled(lambda g, p: topi.random.multinomial(g, p, 6), [gen, chances])
    np.testing.assert_array_equal(drawn, np.where(shares < 0.75, 0, 2))


def test_unsigned_integers_wrap() -> None:
    import tilewright as tw

    assert topi.random.threefry_test_wrapping("llvm", tw.cpu(0))
