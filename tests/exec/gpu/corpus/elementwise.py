"""Element-wise functions over grids of one to three dimensions, plain and in vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.exec.gpu.kit import Case, axis, bind_flat
from tilewright import te, tir


def flat(n: Any, dtype: str, vector: int = 1, threads: int = 64) -> tuple[Any, list[Any]]:
    """C = A * B + A, element by element."""
    a, b = te.placeholder((n,), dtype, "A"), te.placeholder((n,), dtype, "B")
    c = te.compute((n,), lambda i: a[i] * b[i] + a[i], name="C")
    s = te.create_schedule(c.op)
    bind_flat(s, c, threads, vector)
    return s, [a, b, c]


def planes() -> tuple[Any, list[Any]]:
    a = te.placeholder((33, 50), name="A")
    b = te.compute((33, 50), lambda i, j: te.exp(a[i, j]) - 1.0, name="B")
    s = te.create_schedule(b.op)
    by, bx, ty, tx = s[b].tile(b.op.axis[0], b.op.axis[1], 8, 16)
    for x, tag in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[b].bind(x, axis(tag))
    return s, [a, b]


def boxes() -> tuple[Any, list[Any]]:
    shape = (5, 7, 18)
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j, k: te.sqrt(te.abs(a[i, j, k])) + 0.5, name="B")
    s = te.create_schedule(b.op)
    outer, inner = [], []
    for x, d, factor in zip(b.op.axis, "zyx", (2, 4, 8)):
        block, thread = s[b].split(x, factor=factor)
        s[b].bind(block, axis(f"blockIdx.{d}"))
        s[b].bind(thread, axis(f"threadIdx.{d}"))
        outer.append(block)
        inner.append(thread)
    s[b].reorder(*outer, *inner)
    return s, [a, b]


def two_outputs() -> tuple[Any, list[Any]]:
    n = 300
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c, d = te.compute((n,), lambda i: (a[i] + b[i], a[i] * b[i]), name="C")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=32)
    s[c].bind(block, axis("blockIdx.x"))
    s[c].bind(thread, axis("threadIdx.x"))
    return s, [a, b, c, d]


def symbolic_planes() -> tuple[Any, list[Any]]:
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    c = te.compute((n, m), lambda i, j: a[i, j] * b[j], name="C")
    s = te.create_schedule(c.op)
    by, bx, ty, tx = s[c].tile(c.op.axis[0], c.op.axis[1], 4, 32)
    for x, tag in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[c].bind(x, axis(tag))
    return s, [a, b, c]


def chain() -> tuple[Any, list[Any]]:
    """Inlined and not inlined stages, one of them kept by each thread."""
    n = 200
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: tir.max(b[i], tir.const(0.25, "float32")), name="C")
    d = te.compute((n,), lambda i: c[i] * c[i] + b[i], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    block, thread = s[d].split(d.op.axis[0], factor=64)
    s[d].bind(block, axis("blockIdx.x"))
    s[d].bind(thread, axis("threadIdx.x"))
    s[c].compute_at(s[d], thread)
    s[c].set_scope("local")
    return s, [a, d]


def integers() -> tuple[Any, list[Any]]:
    n = 150
    a = te.placeholder((n,), "int32", "A")
    b = te.compute(
        (n,),
        lambda i: te.floordiv(a[i], 4) + te.floormod(a[i], 5) * te.truncmod(a[i], 3) + (a[i] >> 1),
        name="B",
    )
    s = te.create_schedule(b.op)
    bind_flat(s, b, 32)
    return s, [a, b]


def choices() -> tuple[Any, list[Any]]:
    """Conditions, with reads that only one side may do."""
    n = 130
    a = te.placeholder((n,), name="A")
    b = te.compute(
        (n,),
        lambda i: (
            te.if_then_else(i >= 3, a[i - 3], tir.const(-1.0, "float32"))
            + tir.Select(a[i] > 0.0, a[i], a[i] * 0.125)
        ),
        name="B",
    )
    s = te.create_schedule(b.op)
    bind_flat(s, b, 32)
    return s, [a, b]


def strides_of_a_grid() -> tuple[Any, list[Any]]:
    """As many blocks as are wanted; each thread walks over the array."""
    n = 1000
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] - 1.0, name="B")
    s = te.create_schedule(b.op)
    step, inside = s[b].split(b.op.axis[0], factor=128)
    block, thread = s[b].split(inside, factor=32)
    s[b].reorder(block, thread, step)
    s[b].bind(block, axis("blockIdx.x"))
    s[b].bind(thread, axis("threadIdx.x"))
    return s, [a, b]


def virtual_threads() -> tuple[Any, list[Any]]:
    n = 500
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * a[i], name="B")
    s = te.create_schedule(b.op)
    block, rest = s[b].split(b.op.axis[0], factor=128)
    virtual, thread = s[b].split(rest, nparts=4)
    s[b].bind(block, axis("blockIdx.x"))
    s[b].bind(virtual, axis("vthread"))
    s[b].bind(thread, axis("threadIdx.x"))
    return s, [a, b]


def symbolic(dtype: str = "float32") -> Callable[[], tuple[Any, list[Any]]]:
    return lambda: flat(te.size_var("n"), dtype)


CASES = [
    Case("add", lambda: flat(1000, "float32")),
    Case("add_float4", lambda: flat(1024, "float32", 4)),
    Case("add_float4_tail", lambda: flat(1001, "float32", 4, 32)),
    Case("add_half8", lambda: flat(1024, "float16", 8)),
    Case("add_int8x16", lambda: flat(1024, "int8", 16, 16)),
    Case("add_double", lambda: flat(77, "float64", 1, 32)),
    Case("add_symbolic", symbolic(), {"n": 333}),
    Case("add_symbolic_one", symbolic("int32"), {"n": 1}),
    Case("exp_planes", planes),
    Case("sqrt_boxes", boxes),
    Case("two_outputs", two_outputs),
    Case("scale_columns_symbolic", symbolic_planes, {"n": 13, "m": 45}),
    Case("chain", chain),
    Case("integers", integers, draw={"A": lambda r, shape: r.integers(-1000, 1000, shape)}),
    Case("choices", choices),
    Case("grid_stride", strides_of_a_grid),
    Case("virtual_threads", virtual_threads),
]
