"""Operations that declare more elements than they could compute: what is needed of them counts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.base.errors import TilewrightError

N = 8
X = np.arange(N, dtype="int32") ** 2 - 7


def chain(n: Any = N, more: int = 2) -> tuple[Any, ...]:
    """C = 2 * (A + 1), where B and P declare `more` elements than A has."""
    a = te.placeholder((n,), "int32", name="A")
    p = te.compute((n + more,), lambda i: a[i] + 1, name="P")
    b = te.compute((n + more,), lambda i: p[i] * 2, name="B")
    c = te.compute((n,), lambda i: b[i] + 0, name="C")
    return a, p, b, c


def check(s: Any, args: list[Any], target: str = "llvm", want: Any = None) -> None:
    out = np.full(args[-1].shape[0].value if want is not None else N, -99, "int32")
    if target == "cuda":
        tvm.build(s, args, target).run_simt(X, out)
    else:
        with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
            tvm.build(s, args, target)(X, out)
    np.testing.assert_array_equal(out, (X + 1) * 2 if want is None else want)


def nothing(s: Any, p: Any, b: Any, c: Any) -> None:
    pass


def at_tiles(s: Any, p: Any, b: Any, c: Any) -> None:
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[b].compute_at(s[c], outer)
    s[p].compute_at(s[c], outer)


def at_each_other(s: Any, p: Any, b: Any, c: Any) -> None:
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[b].compute_at(s[c], outer)
    outer, _ = s[b].split(b.op.axis[0], factor=2)
    s[p].compute_at(s[b], outer)
    s[p].split(p.op.axis[0], factor=4)


def inlined(s: Any, p: Any, b: Any, c: Any) -> None:
    at_tiles(s, p, b, c)
    s[p].compute_inline()


def cached(s: Any, p: Any, b: Any, c: Any) -> None:
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[p].split(p.op.axis[0], factor=4)
    for t in (p, b):
        copy = s.cache_write(t, "local")
        s[copy].compute_at(s[c], outer)
        s[t].compute_at(s[c], outer)
    s[s.cache_read(b, "local", [c])].compute_at(s[c], outer)


def laid_out(s: Any, p: Any, b: Any, c: Any) -> None:
    s[p].transform_layout(lambda i: [i // 4, i % 4])
    s[b].transform_layout(lambda i: [-i])
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[b].compute_at(s[c], outer)


SCHEDULES: list[Callable[..., None]] = [nothing, at_tiles, at_each_other, inlined, cached, laid_out]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_nobody_needs_is_not_computed(schedule: Callable[..., None], symbolic: bool) -> None:
    a, p, b, c = chain(te.var("n") if symbolic else N)
    s = te.create_schedule(c.op)
    schedule(s, p, b, c)
    check(s, [a, c])


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_threads_compute_what_is_needed(scope: str) -> None:
    a, p, b, c = chain()
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=3)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    for t in (p, b):
        if scope == "global":
            outer, inner = s[t].split(t.op.axis[0], factor=4)
            s[t].bind(outer, te.thread_axis("blockIdx.x"))
        else:
            s[t].compute_at(s[c], block)
            s[t].set_scope("shared")
            inner = t.op.axis[0]
        s[t].bind(inner, te.thread_axis("threadIdx.x"))
    check(s, [a, c], "cuda")


def test_the_middle_may_be_needed() -> None:
    a = te.placeholder((N,), "int32", name="A")
    p = te.compute((N + 4,), lambda i: a[i - 2] + 1, name="P")
    c = te.compute((N,), lambda i: p[i + 2] * 2, name="C")
    for factor in (None, 3, 5):
        s = te.create_schedule(c.op)
        if factor:
            outer, _ = s[c].split(c.op.axis[0], factor=factor)
            s[p].compute_at(s[c], outer)
            s[p].split(p.op.axis[0], factor=2)
        check(s, [a, c])


def test_guards_say_what_is_needed() -> None:
    a, _, b, _ = chain()
    c = te.compute((12,), lambda i: te.if_then_else(i < N, b[i], -1), name="C")
    for factor in (None, 5):
        s = te.create_schedule(c.op)
        if factor:
            outer, _ = s[c].split(c.op.axis[0], factor=factor)
            s[b].compute_at(s[c], outer)
        check(s, [a, c], want=[*(X + 1) * 2, -1, -1, -1, -1])


def test_partial_sums_of_what_is_needed() -> None:
    a = te.placeholder((N,), "int32", name="A")
    k = te.reduce_axis((0, 4), "k")
    p = te.compute((N,), lambda i: te.sum(a[i + k], axis=k), name="P")
    c = te.compute((N - 3,), lambda i: p[i] * 2, name="C")
    want = [2 * X[i : i + 4].sum() for i in range(N - 3)]
    for place in (None, 0, 1):
        s = te.create_schedule(c.op)
        if place is not None:
            partial = s.rfactor(p, s[p].split(k, factor=2)[place])
            outer, _ = s[c].split(c.op.axis[0], factor=3)
            s[p].compute_at(s[c], outer)
            s[partial].compute_at(s[c], outer)
        check(s, [a, c], want=want)


def test_what_is_needed_must_exist() -> None:
    a, _, b, _ = chain()
    text = r"out of bounds: P reads A\[i\], and index 0, i, is [89]"
    for out in (b, te.compute((N + 1,), lambda i: b[i], name="C")):
        with pytest.raises(TilewrightError, match=text):
            tvm.lower(te.create_schedule(out.op), [a, out])
    both = te.compute((N,), lambda i: b[i], name="C")
    with pytest.raises(TilewrightError, match=text):
        tvm.lower(te.create_schedule([both.op, b.op]), [a, both, b])


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_packed_convolution_with_the_padded_images_tiles(target: str) -> None:
    ci, co, h, k, vh, vw, vc = 3, 8, 6, 3, 1, 2, 4
    data = te.placeholder((1, ci, h, h), "int32", name="data")
    kernel = te.placeholder((co, ci, k, k), "int32", name="kernel")
    th = h + 2
    padded = topi.nn.pad(data, (0, 0, 1, 1), (0, 0, 1, 1), name="data_pad")
    packed = te.compute(
        (1, th // vh, th // vw, ci, vh + k - 1, vw + k - 1),
        lambda n, y, x, c, v, w: padded[n, c, y * vh + v, x * vw + w],
        name="data_vec",
    )
    filters = te.compute(
        (co // vc, ci, k, k, vc), lambda o, c, y, x, v: kernel[o * vc + v, c, y, x], "kernel_vec"
    )
    rc, ry, rx = (te.reduce_axis((0, e), name) for e, name in ((ci, "ci"), (k, "kh"), (k, "kw")))
    conv = te.compute(
        (1, co // vc, h // vh, h // vw, vh, vw, vc),
        lambda n, o, y, x, v, w, c: te.sum(
            packed[n, y, x, rc, v + ry, w + rx] * filters[o, rc, ry, rx, c], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    out = te.compute(
        (1, co, h, h),
        lambda n, o, y, x: conv[n, o // vc, y // vh, x // vw, y % vh, x % vw, o % vc],
        name="output_unpack",
    )
    s = te.create_schedule(out.op)
    s[padded].compute_inline()
    if target == "cuda":
        for t, axes in ((packed, 3), (filters, 2), (conv, 4), (out, 2)):
            fused = s[t].fuse(*s[t].op.axis[: axes + 1])
            block, thread = s[t].split(fused, factor=8)
            s[t].bind(block, te.thread_axis("blockIdx.x"))
            s[t].bind(thread, te.thread_axis("threadIdx.x"))
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, ci, h, h)).astype("int32")
    w = rng.integers(-4, 5, (co, ci, k, k)).astype("int32")
    y = np.zeros((1, co, h, h), "int32")
    f = tvm.build(s, [data, kernel, out], target)
    (f if target == "llvm" else f.run_simt)(x, w, y)
    np.testing.assert_array_equal(y, topi.testing.conv2d_nchw_python(x, w, 1, 1))


def test_nothing_is_needed() -> None:
    """Of P, which declares more than it could compute, no row; of Q, which reads it, as little."""
    a = te.placeholder((1,), "int32", name="A")
    p = te.compute((2,), lambda i: a[i] + 1, name="P")
    q = te.compute((1,), lambda i: p[i + 0] * 2, name="Q")
    c = te.compute((1,), lambda i: te.if_then_else(i + 1 < 1, q[i + 1] + p[i + 1], 7), name="C")
    out = np.zeros(1, "int32")
    tvm.build(te.create_schedule(c.op), [a, c], "llvm")(np.zeros(1, "int32"), out)
    assert out[0] == 7
