"""Matrix products, from one thread an element to tiles that are fetched ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.exec.gpu.kit import Case, axis
from tilewright import te, tir


def naive(n: Any, m: Any, depth: Any, tile: int = 8) -> tuple[Any, list[Any]]:
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    by, bx, ty, tx = s[c].tile(c.op.axis[0], c.op.axis[1], tile, tile)
    for x, tag in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[c].bind(x, axis(tag))
    return s, [a, b, c]


@dataclass(frozen=True)
class Tiles:
    """How `tiled` cuts a product; threads are a square of `threads` by `threads`."""

    size: tuple[Any, Any, Any] = (32, 32, 32)
    tile: int = 16
    threads: int = 8
    depth: int = 8
    vector: int = 1
    double: bool = False
    align: int = 0
    virtual: bool = False
    late: bool = False
    dtype: str = "float32"
    sum_in: str = "float32"
    down: bool = False  # A is stored by columns
    epilogue: bool = False
    unroll: int = 0
    stages: int = 0  # tiles under way at once; needs `double`


def tiled(t: Tiles) -> tuple[Any, list[Any]]:
    """Tiles of A and B in shared memory that all threads fetch, sums in registers."""
    n, m, depth = t.size
    a = te.placeholder((depth, n) if t.down else (n, depth), t.dtype, "A")
    b = te.placeholder((depth, m), t.dtype, "B")
    k = te.reduce_axis((0, depth), "k")

    def product(i: Any, j: Any) -> Any:
        x, y = a[k, i] if t.down else a[i, k], b[k, j]
        return te.sum(x.astype(t.sum_in) * y.astype(t.sum_in), axis=k)

    c = te.compute((n, m), product, name="C")
    args, out = [a, b, c], c
    if t.epilogue:
        bias = te.placeholder((m,), t.sum_in, "bias")
        out = te.compute(
            (n, m), lambda i, j: tir.max(c[i, j] + bias[j], tir.const(0, t.sum_in)), name="D"
        )
        args = [a, b, bias, out]
    s = te.create_schedule(out.op)
    if t.epilogue:
        local = c
        s[c].set_scope("local")
    else:
        local = s.cache_write(c, "local")
    shared = [s.cache_read(x, "shared", [local]) for x in (a, b)]
    thread = _arrange(s, out, t)
    s[local].compute_at(s[out], thread)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=t.depth)
    s[local].reorder(outer, inner, *s[local].op.axis)
    if t.unroll:
        s[local].pragma(inner, "auto_unroll_max_step", t.unroll)
        s[local].pragma(inner, "unroll_explicit", False)
    if t.stages:
        s[local].pragma(outer, "software_pipeline_stages", t.stages)
    for x in shared:
        s[x].compute_at(s[local], outer)
        _fetch(s, x, t)
    return s, args


def _arrange(s: Any, c: Any, t: Tiles) -> Any:
    """Blocks, virtual threads and threads of the output; gives the innermost thread axis."""
    by, bx, y, x = s[c].tile(*c.op.axis, t.tile, t.tile)
    virtual = []
    if t.virtual:
        vy, y = s[c].split(y, nparts=2)
        vx, x = s[c].split(x, nparts=2)
        virtual = [vy, vx]
    ty, yi = s[c].split(y, nparts=t.threads)
    tx, xi = s[c].split(x, nparts=t.threads)
    s[c].reorder(by, bx, *virtual, ty, tx, yi, xi)
    for v in virtual:
        s[c].bind(v, axis("vthread"))
    s[c].bind(by, axis("blockIdx.y"))
    s[c].bind(bx, axis("blockIdx.x"))
    s[c].bind(ty, axis("threadIdx.y", t.threads))
    s[c].bind(tx, axis("threadIdx.x", t.threads))
    return tx


def _fetch(s: Any, x: Any, t: Tiles) -> None:
    if t.align:
        s[x].storage_align(x.op.axis[0], t.align, t.vector if t.vector > 1 else 1)
    flat = s[x].fuse(*s[x].op.axis)
    if t.vector > 1:
        flat, lanes = s[x].split(flat, factor=t.vector)
        s[x].vectorize(lanes)
    flat, tx = s[x].split(flat, factor=t.threads)
    rest, ty = s[x].split(flat, factor=t.threads)
    s[x].bind(tx, axis("threadIdx.x", t.threads))
    s[x].bind(ty, axis("threadIdx.y", t.threads))
    if t.late:
        s[x].pragma(rest, "async_scope")
    if t.double:
        s[x].double_buffer()


def split_depth() -> tuple[Any, list[Any]]:
    """Blocks along k, too: each makes a part of the sums, another kernel adds them."""
    n, m, depth = 16, 24, 64
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    part = s.rfactor(c, s[c].split(k, nparts=4)[0])
    p, i, j = s[part].op.axis
    for x, tag in ((p, "blockIdx.y"), (i, "blockIdx.x"), (j, "threadIdx.x")):
        s[part].bind(x, axis(tag))
    s[c].bind(s[c].op.axis[0], axis("blockIdx.x"))
    s[c].bind(s[c].op.axis[1], axis("threadIdx.x"))
    return s, [a, b, c]


def matrix_vector() -> tuple[Any, list[Any]]:
    """The vector in shared memory; a warp for each row."""
    n, m = 18, 80
    a, x = te.placeholder((n, m), name="A"), te.placeholder((m,), name="X")
    k = te.reduce_axis((0, m), "k")
    y = te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k), name="Y")
    s = te.create_schedule(y.op)
    shared = s.cache_read(x, "shared", [y])
    block, row = s[y].split(y.op.axis[0], factor=4)
    ys, xs = axis("threadIdx.y", 4), axis("threadIdx.x", 32)
    s[y].bind(block, axis("blockIdx.x"))
    s[y].bind(row, ys)
    s[y].bind(s[y].split(k, factor=32)[1], xs)
    s[shared].compute_at(s[y], block)
    rest, tx = s[shared].split(shared.op.axis[0], factor=32)
    s[shared].bind(s[shared].split(rest, factor=4)[1], ys)
    s[shared].bind(tx, xs)
    return s, [a, x, y]


def case(name: str, arch: str = "sm_75", sizes: Any = None, **how: Any) -> Case:
    t = Tiles(**how)
    return Case(name, lambda: tiled(t), sizes or {}, arch=arch)


WIDE: dict[str, Any] = {"tile": 32, "threads": 8, "vector": 4}

CASES = [
    Case("matmul_naive", lambda: naive(24, 16, 20)),
    Case("matmul_naive_odd", lambda: naive(13, 19, 7)),
    Case(
        "matmul_naive_symbolic",
        lambda: naive(te.size_var("n"), te.size_var("m"), te.size_var("k")),
        {"n": 11, "m": 18, "k": 9},
    ),
    case("matmul_shared"),
    case("matmul_vectors", **WIDE),
    case("matmul_double_buffer", double=True),
    case("matmul_double_buffer_vectors", double=True, **WIDE),
    case("matmul_aligned", align=8),
    case("matmul_aligned_vectors", align=8, **WIDE),
    case("matmul_virtual", virtual=True, tile=32),
    case("matmul_virtual_double_vectors", virtual=True, double=True, **WIDE),
    case("matmul_odd", size=(27, 35, 21)),
    case("matmul_odd_double", size=(27, 35, 21), double=True),
    case("matmul_flat", size=(16, 80, 24), tile=16, depth=12),
    case("matmul_by_columns", size=(32, 32, 16), down=True, **WIDE),
    case("matmul_unrolled", unroll=64),
    case("matmul_epilogue", size=(32, 48, 24), epilogue=True),
    case("matmul_async", "sm_80", late=True, double=True, **WIDE),
    case("matmul_async_single", "sm_80", late=True),
    case("matmul_async_odd", "sm_80", late=True, double=True, size=(20, 33, 18)),
    case("matmul_pipeline", double=True, stages=3),
    case("matmul_pipeline_async", "sm_80", late=True, double=True, stages=3, **WIDE),
    case("matmul_pipeline_deep", "sm_80", late=True, double=True, stages=6, depth=4, **WIDE),
    case("matmul_pipeline_odd", "sm_80", late=True, double=True, stages=4, size=(20, 33, 70)),
    case("matmul_pipeline_few_steps", "sm_80", late=True, double=True, stages=5, size=(32, 32, 16)),
    case("matmul_pipeline_registers", late=True, double=True, stages=2, **WIDE),
    case("matmul_pipeline_registers_odd", late=True, double=True, stages=3, size=(20, 33, 70)),
    Case(
        "matmul_pipeline_symbolic_depth",
        lambda: tiled(Tiles((16, 16, te.size_var("k")), late=True, double=True, stages=3)),
        {"k": 61},
        arch="sm_80",
    ),
    Case(
        "matmul_pipeline_short_depth",
        lambda: tiled(Tiles((16, 16, te.size_var("k")), late=True, double=True, stages=4)),
        {"k": 11},
        arch="sm_80",
    ),
    case("matmul_bytes", dtype="int8", sum_in="int32", vector=4, tile=32),
    case("matmul_double_precision", dtype="float64", sum_in="float64", size=(16, 16, 16)),
    Case(
        "matmul_symbolic_rows",
        lambda: tiled(Tiles((te.size_var("n"), 32, 16))),
        {"n": 37},
    ),
    Case("matmul_split_depth", split_depth),
    Case("matrix_vector", matrix_vector),
]
