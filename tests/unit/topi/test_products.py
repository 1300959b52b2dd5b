"""Default schedules of matrix products: every form that they take, at sizes that divide nothing."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.base.dtype import parse
from tilewright.loopir.visit import children
from tilewright.topi.schedules.contraction import is_product

SIZES = [
    (1, 1, 1), (1, 37, 64), (1, 1000, 300), (2, 3, 5), (3, 509, 1021), (5, 130, 7), (7, 100, 33),
    (16, 64, 700), (20, 33, 129), (21, 1, 50), (23, 10, 23), (29, 17, 1), (64, 96, 40),
    (97, 31, 61), (130, 257, 67),
]  # fmt: skip
TARGETS = ["llvm -mcpu=x86-64-v2", "llvm"]


def close(got: Any, want: Any, steps: int) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * steps)


def run(s: Any, tensors: list[Any], arrays: list[Any], target: str = "llvm") -> Any:
    given = [tvm.nd.array(x) for x in arrays]
    tvm.build(s, tensors, target)(*given)
    return given[-1].numpy()


@pytest.mark.parametrize("m,n,k", SIZES)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_all_sizes(m: int, n: int, k: int, columns: bool) -> None:
    rng = np.random.default_rng(m + n)
    x = rng.standard_normal((m, k)).astype("float32")
    w = rng.standard_normal((k, n)).astype("float32")
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((n, k) if columns else (k, n), name="b")
    out = topi.nn.dense(a, b) if columns else topi.matmul(a, b)
    for target in TARGETS:
        s = topi.schedules.default_schedule([out], target)
        given = [x, np.ascontiguousarray(w.T) if columns else w, np.full((m, n), 7, "float32")]
        close(run(s, [a, b, out], given, target), x @ w, k)


@pytest.mark.parametrize("m,n,k", [(3, 509, 1021), (29, 17, 64), (97, 31, 61)])
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint16"])
def test_types(m: int, n: int, k: int, columns: bool, dtype: str) -> None:
    rng = np.random.default_rng(k)
    x, w = (rng.integers(0, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    wide = {"int8": "int32", "uint16": "uint32", "float16": "float32"}.get(dtype, dtype)
    a = te.placeholder((m, k), dtype, name="a")
    b = te.placeholder((n, k) if columns else (k, n), dtype, name="b")
    if columns:
        out = topi.nn.dense(a, b, out_dtype=wide)
    else:
        out = topi.nn.matmul(a, b, out_dtype=wide)
    s = topi.schedules.default_schedule([out], "llvm")
    given = [x, np.ascontiguousarray(w.T) if columns else w, np.zeros((m, n), wide)]
    np.testing.assert_array_equal(run(s, [a, b, out], given), x.astype(wide) @ w.astype(wide))


@pytest.mark.parametrize("m", [2, 33])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("batches", [(1, 3), (3, 1), (3, 3)])
def test_batches(m: int, turned: tuple[bool, bool], batches: tuple[int, int]) -> None:
    rng = np.random.default_rng(m)
    n, k = 19, 45
    x = rng.standard_normal((batches[0], *((k, m) if turned[0] else (m, k)))).astype("float32")
    w = rng.standard_normal((batches[1], *((n, k) if turned[1] else (k, n)))).astype("float32")
    a, b = (te.placeholder(z.shape, name=name) for z, name in ((x, "a"), (w, "b")))
    out = topi.nn.batch_matmul(a, b, transpose_a=turned[0], transpose_b=turned[1])
    s = topi.schedules.default_schedule([out], "llvm")
    want = np.matmul(*(z.swapaxes(1, 2) if t else z for z, t in zip((x, w), turned)))
    close(run(s, [a, b, out], [x, w, np.zeros_like(want)]), want, k)


@pytest.mark.parametrize("m", [1, 4, 50])
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_with_what_comes_before_and_after(m: int, columns: bool) -> None:
    rng = np.random.default_rng(m)
    n, k = 45, 131
    x, w, bias = (rng.standard_normal(z).astype("float32") for z in ((m, k), (k, n), (n,)))
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((n, k) if columns else (k, n), name="b")
    c = te.placeholder((n,), name="c")
    half = topi.multiply(b, tir.const(0.5, "float32"))
    out = topi.nn.relu(topi.nn.dense(a, half, c) if columns else topi.nn.matmul(a, half, c))
    s = topi.schedules.default_schedule([out], "llvm")
    given = [x, np.ascontiguousarray(w.T) if columns else w, bias, np.zeros((m, n), "float32")]
    close(run(s, [a, b, c, out], given), np.maximum(x @ (w * 0.5) + bias, 0), k)


@pytest.mark.parametrize("symbolic", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_sizes_known_at_the_call(symbolic: tuple[int, ...], columns: bool) -> None:
    sizes = [37, 29, 53]
    m, n, k = (te.var(name) if d in symbolic else sizes[d] for d, name in enumerate("mnk"))
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((n, k) if columns else (k, n), name="b")
    out = topi.nn.dense(a, b) if columns else topi.matmul(a, b)
    f = tvm.build(topi.schedules.default_schedule([out], "llvm"), [a, b, out], "llvm")
    rng = np.random.default_rng(0)
    for sizes in ([37, 29, 53], [1, 1, 1], [80, 16, 8]):
        m, n, k = (sizes[d] if d in symbolic else (37, 29, 53)[d] for d in range(3))
        x, w = (rng.standard_normal(z).astype("float32") for z in ((m, k), (k, n)))
        given = [x, np.ascontiguousarray(w.T) if columns else w, np.zeros((m, n), "float32")]
        arrays = [tvm.nd.array(z) for z in given]
        f(*arrays)
        close(arrays[-1].numpy(), x @ w, k)


def test_a_tile_at_the_edge_is_computed_as_others_are() -> None:
    a, b = te.placeholder((97, 61), name="a"), te.placeholder((61, 45), name="b")
    out = topi.matmul(a, b)
    s = topi.schedules.default_schedule([out], "llvm -mcpu=haswell")
    text = str(tvm.lower(s, [a, b, out]))
    sums = [line for line in text.splitlines() if "b_global_1[k" in line]
    assert sums and not [line for line in sums if "predicate" in line]


@pytest.mark.parametrize("form", ["plain", "turned", "behind", "batched", "between"])
@pytest.mark.parametrize("m", [3, 50])
def test_products_that_no_operator_made(form: str, m: int) -> None:
    """Known by their structure: their default schedules are those of topi's."""
    n, k = 37, 45
    rng = np.random.default_rng(m)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((2, m, k), (2, k, n)))
    want: Any = np.matmul(x, w)
    if form != "batched":
        x, w, want = x[0], w[0], want[0]
    a, b = te.placeholder(x.shape, name="a"), te.placeholder(w.shape, name="b")
    r = te.reduce_axis((0, k), "r")
    if form == "batched":
        c = te.compute(want.shape, lambda z, i, j: te.sum(a[z, i, r] * b[z, r, j], axis=r))
    elif form == "turned":
        a, x = te.placeholder((k, m), name="a"), np.ascontiguousarray(x.T)
        c = te.compute((m, n), lambda i, j: te.sum(b[r, j] * a[r, i], axis=r))
    else:
        c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r))
    if form == "behind":
        d = te.compute((m, n), lambda i, j: c[i, j] * 2.0 + b[0, j])
        out = te.compute((m, n), lambda i, j: te.max(d[i, j], 0.0))
        want = np.maximum(x @ w * 2 + w[0], 0)
    elif form == "between":
        out = topi.nn.softmax(c)
        e = np.exp(x @ w - (x @ w).max(1, keepdims=True))
        want = e / e.sum(1, keepdims=True)
    else:
        out = c
    s = topi.schedules.default_schedule([out], "llvm")
    assert is_product(c.op) and (form == "between" or len(s[c].leaf_iter_vars) != 3)
    close(run(s, [a, b, out], [x, w, np.zeros_like(want)]), want, k)


def test_what_is_no_product() -> None:
    a, b = te.placeholder((9, 9), name="a"), te.placeholder((9, 9), name="b")
    k = te.reduce_axis((0, 9), "k")
    bodies = {
        "one factor": lambda i, j: te.sum(a[i, k] + b[k, j], axis=k),
        "largest": lambda i, j: te.max(a[i, k] * b[k, j], axis=k),
        "same axis": lambda i, j: te.sum(a[i, k] * b[k, i], axis=k),
        "both": lambda i, j: te.sum(a[i, k] * b[i, j], axis=k),
        "three": lambda i, j: te.sum(a[i, k] * b[k, j] * a[i, j], axis=k),
        "begun": lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, init=a[i, j]),
    }
    for name, body in bodies.items():
        assert not is_product(te.compute((9, 9), body, name="c").op), name


@pytest.mark.parametrize("rows", [4, 17])
def test_softmax_of_a_few_rows_of_a_product(rows: int) -> None:
    """Neither the product nor what it reads is computed again for each row."""
    q, k = (te.placeholder((rows, 3, 40), "float32", name) for name in "qk")
    moved = te.compute((3, 40, rows), lambda h, d, j: k[j, h, d], "moved")
    d = te.reduce_axis((0, 40), "d")
    c = te.compute(
        (3, rows, rows), lambda h, i, j: te.sum(q[i, h, d] * moved[h, d, j], axis=d), "product"
    )
    with tvm.target.Target("llvm -mcpu=skylake-avx512") as target:
        out = topi.nn.softmax(c)
        body = tvm.lower(topi.default_schedule(out, target), [q, k, out], simple_mode=True)["main"]
    written = 0

    def visit(node: Any, times: int) -> None:
        nonlocal written
        if isinstance(node, tir.For):
            times *= int(node.extent)
        if isinstance(node, tir.BufferStore):
            written += times * parse(node.value.dtype).lanes
        for child in children(node):
            visit(child, times)

    visit(body.body, 1)
    lanes = -(-rows // 16) * 16
    assert written < 1.3 * 3 * 40 * (rows * lanes + lanes) + 8 * 3 * rows * lanes
