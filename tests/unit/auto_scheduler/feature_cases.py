"""Schedules with lengths that may be variables (a skeleton) or numbers (a candidate).

Each case is a function of its lengths, `L("name", extent)`, that returns a schedule and its
arguments. `L` gives a variable for each name the first time round, and the numbers of one candidate
later; `extent` is what the length is part of.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.auto_scheduler.layout import pack_order


class Lengths:
    """The lengths of a case: variables, or numbers by name."""

    def __init__(self, values: dict[str, int] | None = None) -> None:
        self.values = values
        self.open: dict[str, tuple[Any, int]] = {}
        self.packed: dict[int, int] = {}

    def __call__(self, name: str, extent: int) -> Any:
        if self.values is not None:
            return self.values[name]
        if name not in self.open:
            self.open[name] = (tir.Var(name, "int32"), extent)
        return self.open[name][0]


def tile(s: Any, axis: Any, L: Any, name: str, extent: int, parts: int) -> list[Any]:
    """Split an axis into parts + 1 loops, outermost first; the innermost is as long as name0."""
    loops = []
    for k in range(parts):
        axis, inner = s.split(axis, factor=L(f"{name}{k}", extent))
        loops.append(inner)
    return [axis, *reversed(loops)]


def interleave(s: Any, structure: str, spatial: list[list[Any]], reduce: list[list[Any]]) -> None:
    """Reorder tiles by a structure such as SSRSRS."""
    at = {"S": 0, "R": 0}
    order = []
    for kind in structure:
        tiles = spatial if kind == "S" else reduce
        order += [t[at[kind]] for t in tiles]
        at[kind] += 1
    s.reorder(*order)


def skeleton_of(case: Any) -> tuple[Any, Lengths]:
    """The state that features are read from, and its lengths."""
    lengths = Lengths()
    schedule, _ = case(lengths)
    opened = [SimpleNamespace(var=v) for v, _ in lengths.open.values()]
    return SimpleNamespace(schedule=schedule, open=opened, packed=lengths.packed), lengths


def draw(lengths: Lengths, count: int, seed: int, dividing: bool = True) -> np.ndarray:
    """Random lengths (N, open); those that divide do so together with others of their axis."""
    rng = np.random.default_rng(seed)
    table = np.ones((count, len(lengths.open)), np.int64)
    for row in table:
        rest: dict[str, int] = {}
        for k in rng.permutation(len(row)):
            name = list(lengths.open)[k]
            extent = lengths.open[name][1]
            left = rest.setdefault(name.rstrip("0123456789"), extent)
            legal = [d for d in range(1, extent + 1) if not dividing or left % d == 0]
            row[k] = rng.choice(legal)
            rest[name.rstrip("0123456789")] = left // row[k]
    return table


# -- computations


def matmul_tensors(n: int, m: int, k: int, relu: bool = False) -> Any:
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    if not relu:
        return A, B, C, C
    D = te.compute((n, m), lambda i, j: tir.max(C[i, j], tir.const(0.0, "float32")), name="D")
    return A, B, C, D


def fuse_into(s: Any, stage: Any, target: Any, L: Any, names: Any, level: int, deep: int) -> None:
    """Tile `target` like a stage whose axes have the tiles names[d] (the innermost `deep` of which
    lie in one loop), and compute the stage at the loops of a level."""
    outer, inner = [], []
    for axis, (name, extent) in zip(s[target].op.axis, names):
        low: Any = 1
        for k in range(deep - level + 1):
            low = L(f"{name}{k}", extent) * low
        rest, last = s[target].split(axis, factor=low)
        loops = []
        for k in range(deep - level + 1, deep):
            rest, part = s[target].split(rest, factor=L(f"{name}{k}", extent))
            loops.append(part)
        outer.append([rest, *reversed(loops)])
        inner.append(last)
    order = [x[k] for k in range(level) for x in outer]
    s[target].reorder(*order, *inner)
    s[stage].compute_at(s[target], order[-1])


def tile_all(s: Any, stage: Any, L: Any, spatial: Any, reduce: Any, structure: str) -> None:
    """Multi-level tiling of a reduction; spatial and reduce: (name, extent) of each axis."""
    op = s[stage].op
    wide, deep = structure.count("S") - 1, structure.count("R") - 1
    data = [tile(s[stage], a, L, n, e, wide) for a, (n, e) in zip(op.axis, spatial)]
    sums = [tile(s[stage], a, L, n, e, deep) for a, (n, e) in zip(op.reduce_axis, reduce)]
    interleave(s[stage], structure, data, sums)


def matmul(level: int, n: int = 12, m: int = 16, k: int = 8, relu: bool = False) -> Any:
    """SSRSRS; the sums in a cache, or of a stage, that its reader computes at a level of tiles."""

    def case(L: Any) -> Any:
        A, B, C, D = matmul_tensors(n, m, k, relu)
        s = te.create_schedule(D.op)
        stage = C if relu else s.cache_write(C, "local")
        tile_all(s, stage, L, [("i", n), ("j", m)], [("r", k)], "SSRSRS")
        fuse_into(s, stage, D, L, [("i", n), ("j", m)], level, 3)
        return s, [A, B, D]

    return case


def packed_matmul(copied: bool) -> Any:
    """The second operand is copied into the order of the tiles, which closed lengths give, or comes
    in that order."""

    def case(L: Any) -> Any:
        n, m, k = 12, 16, 8
        A, B, C, _ = matmul_tensors(n, m, k)
        s = te.create_schedule(C.op)
        CL = s.cache_write(C, "local")
        operand = s.cache_read(B, "global", [CL]) if copied else B
        CL = s[CL].op.output(0)
        axes = [("i", n), ("j", m)]
        tile_all(s, CL, L, axes, [("r", k)], "SSRSRS")
        fuse_into(s, CL, C, L, axes, 2, 3)
        L.packed[s[operand].id] = s[CL].id
        if L.values is not None:
            order = pack_order(s[CL], operand)
            assert order is not None
            s[operand].transform_layout(order.mapping())
        return s, [A, B, C]

    return case


def conv_tensors(shape: Any, relu: bool = True, groups: int = 1) -> Any:
    """(N, H, W, CI, CO, kernel, stride, padding, dilation) in NHWC, with bias and relu."""
    n, h, w, ci, co, k, stride, pad, dilation = shape
    X = te.placeholder((n, h, w, ci), name="X")
    W = te.placeholder((k, k, ci // groups, co), name="W")
    bias = te.placeholder((co,), name="bias")
    padded = (n, h + 2 * pad, w + 2 * pad, ci)
    P = te.compute(
        padded,
        lambda b, y, x, c: tir.if_then_else(
            tir.all(y >= pad, y < h + pad, x >= pad, x < w + pad),
            X[b, y - pad, x - pad, c],
            tir.const(0.0, "float32"),
        ),
        name="P",
    )
    oh = (h + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    ow = (w + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    ry, rx = te.reduce_axis((0, k), name="ry"), te.reduce_axis((0, k), name="rx")
    rc = te.reduce_axis((0, ci // groups), name="rc")
    per = co // groups

    def point(b: Any, y: Any, x: Any, f: Any) -> Any:
        c = rc if groups == 1 else f // per * (ci // groups) + rc
        read = P[b, y * stride + ry * dilation, x * stride + rx * dilation, c]
        return te.sum(read * W[ry, rx, rc, f], axis=[ry, rx, rc])

    C = te.compute((n, oh, ow, co), point, name="C")
    D = te.compute((n, oh, ow, co), lambda b, y, x, f: C[b, y, x, f] + bias[f], name="D")
    E = te.compute(
        (n, oh, ow, co),
        lambda b, y, x, f: tir.max(D[b, y, x, f], tir.const(0.0, "float32")),
        name="E",
    )
    return [X, W, bias, E] if relu else [X, W, C], P, C, D, E, (oh, ow)


CONV = (1, 8, 6, 4, 8, 3, 1, 1, 1)


def conv2d(
    where: Any, level: int = 2, shape: Any = CONV, relu: bool = True, groups: int = 1
) -> Any:
    """SSRSRS with the padding inlined, at the root, or at a loop: ("C", place) or ("E", place)."""

    def case(L: Any) -> Any:
        args, P, C, D, E, (oh, ow) = conv_tensors(shape, relu, groups)
        n, ci, co, k = shape[0], shape[3] // groups, shape[4], shape[5]
        spatial = [("n", n), ("y", oh), ("x", ow), ("f", co)]
        s = te.create_schedule((E if relu else C).op)
        if relu:
            s[D].compute_inline()
        stage, target = (C, E) if relu else (s.cache_write(C, "local"), C)
        tile_all(s, stage, L, spatial, [("ry", k), ("rx", k), ("rc", ci)], "SSRSRS")
        fuse_into(s, stage, target, L, spatial, level, 3)
        if where == "inline":
            s[P].compute_inline()
        elif where != "root":
            at = stage if where[0] == "C" else target
            s[P].compute_at(s[at], s[at].leaf_iter_vars[where[1]])
        return s, args

    return case


def depthwise(where: str) -> Any:
    """Depthwise convolution, its window unsplit."""

    def case(L: Any) -> Any:
        c, h, w, k, stride = 8, 9, 7, 3, 2
        X = te.placeholder((1, c, h, w), name="X")
        W = te.placeholder((c, 1, k, k), name="W")
        P = te.compute(
            (1, c, h + 2, w + 2),
            lambda b, f, y, x: tir.if_then_else(
                tir.all(y >= 1, y < h + 1, x >= 1, x < w + 1),
                X[b, f, y - 1, x - 1],
                tir.const(0.0, "float32"),
            ),
            name="P",
        )
        ry, rx = te.reduce_axis((0, k), name="ry"), te.reduce_axis((0, k), name="rx")
        oh, ow = (h + 2 - k) // stride + 1, (w + 2 - k) // stride + 1
        C = te.compute(
            (1, c, oh, ow),
            lambda b, f, y, x: te.sum(
                P[b, f, y * stride + ry, x * stride + rx] * W[f, 0, ry, rx], axis=[ry, rx]
            ),
            name="C",
        )
        s = te.create_schedule(C.op)
        CL = s.cache_write(C, "local")
        spatial = [("n", 1), ("f", c), ("y", oh), ("x", ow)]
        tile_all(s, CL, L, spatial, [("ry", k), ("rx", k)], "SSRSRS")
        fuse_into(s, CL, C, L, spatial, 1, 3)
        if where == "inline":
            s[P].compute_inline()
        elif where == "attached":
            s[P].compute_at(s[C], s[C].leaf_iter_vars[2])
        return s, [X, W, C]

    return case


def transposed(where: Any) -> Any:
    """Transposed convolution: the window reads every second element, through quotients."""

    def case(L: Any) -> Any:
        h, ci, co, k, stride, pad = 4, 4, 8, 4, 2, 1
        X = te.placeholder((1, h, h, ci), name="X")
        W = te.placeholder((k, k, ci, co), name="W")
        low = k - 1 - pad
        edge = -(-low // stride)
        size = h + 2 * edge
        P = te.compute(
            (1, size, size, ci),
            lambda b, y, x, c: tir.if_then_else(
                tir.all(y >= edge, y < h + edge, x >= edge, x < h + edge),
                X[b, y - edge, x - edge, c],
                tir.const(0.0, "float32"),
            ),
            name="P",
        )
        border = (stride - low % stride) % stride
        ry, rx = te.reduce_axis((0, k), name="ry"), te.reduce_axis((0, k), name="rx")
        rc = te.reduce_axis((0, ci), name="rc")
        out = (h - 1) * stride + k - 2 * pad

        def dilated(b: Any, y: Any, x: Any, c: Any) -> Any:
            return tir.if_then_else(
                tir.all((y % stride).equal(0), (x % stride).equal(0)),
                P[b, y // stride, x // stride, c],
                tir.const(0.0, "float32"),
            )

        C = te.compute(
            (1, out, out, co),
            lambda b, y, x, f: te.sum(
                dilated(b, y + ry + border, x + rx + border, rc) * W[k - 1 - ry, k - 1 - rx, rc, f],
                axis=[ry, rx, rc],
            ),
            name="C",
        )
        s = te.create_schedule(C.op)
        CL = s.cache_write(C, "local")
        spatial = [("n", 1), ("y", out), ("x", out), ("f", co)]
        tile_all(s, CL, L, spatial, [("ry", k), ("rx", k), ("rc", ci)], "SSRSRS")
        fuse_into(s, CL, C, L, spatial, 2, 3)
        if where == "inline":
            s[P].compute_inline()
        elif where != "root":
            s[P].compute_at(s[CL], s[CL].leaf_iter_vars[where])
        return s, [X, W, C]

    return case


def softmax(L: Any) -> Any:
    """Several stages that read rows, some computed at others."""
    n, m = 12, 20
    X = te.placeholder((n, m), name="X")
    r, q = te.reduce_axis((0, m), name="r"), te.reduce_axis((0, m), name="q")
    top = te.compute((n,), lambda i: te.max(X[i, r], axis=r), name="top")
    E = te.compute((n, m), lambda i, j: te.exp(X[i, j] - top[i]), name="E")
    total = te.compute((n,), lambda i: te.sum(E[i, q], axis=q), name="total")
    Y = te.compute((n, m), lambda i, j: E[i, j] / total[i], name="Y")
    s = te.create_schedule(Y.op)
    outer, _ = s[Y].split(s[Y].op.axis[0], factor=L("i", n))
    s[total].split(s[total].op.reduce_axis[0], factor=L("q", m))
    s[top].compute_at(s[E], s[E].op.axis[0])
    s[E].compute_at(s[Y], outer)
    s[total].compute_at(s[Y], outer)
    return s, [X, Y]


def norm(L: Any) -> Any:
    """A sum over everything, in parts that run one after the other."""
    n, m = 12, 16
    X = te.placeholder((1, n, m), name="X")
    i, j = te.reduce_axis((0, n), name="i"), te.reduce_axis((0, m), name="j")
    C = te.compute((1,), lambda b: te.sum(X[b, i, j] * X[b, i, j], axis=[i, j]), name="C")
    D = te.compute((1,), lambda b: tir.sqrt(C[b]), name="D")
    s = te.create_schedule(D.op)
    fused = s[C].fuse(*s[C].op.reduce_axis)
    _, inner = s[C].split(fused, factor=L("k", n * m))
    F = s.rfactor(C, inner)
    s[F].reorder(s[F].op.reduce_axis[0], *s[F].op.axis)
    return s, [X, D]


def elementwise(L: Any) -> Any:
    """A stencil and what reads it."""
    n, m = 24, 10
    X = te.placeholder((n + 2, m), name="X")
    Y = te.compute((n, m), lambda i, j: X[i, j] + X[i + 1, j] * X[i + 2, m - 1 - j], name="Y")
    Z = te.compute((m, n), lambda j, i: Y[i, j] * 2.0, name="Z")
    s = te.create_schedule(Z.op)
    tile(s[Z], s[Z].op.axis[1], L, "i", n, 1)
    s[Y].compute_at(s[Z], s[Z].leaf_iter_vars[1])
    return s, [X, Z]


def gather(L: Any) -> Any:
    """An index that is read from a tensor."""
    n, m = 12, 10
    X = te.placeholder((30, m), name="X")
    I = te.placeholder((n,), dtype="int32", name="I")
    Y = te.compute((n, m), lambda i, j: X[I[i], j], name="Y")
    s = te.create_schedule(Y.op)
    tile(s[Y], s[Y].op.axis[0], L, "i", n, 1)
    return s, [X, I, Y]


def pair(L: Any) -> Any:
    """A reduction of two values at once."""
    n, m = 6, 12
    X = te.placeholder((n, m), name="X")
    r = te.reduce_axis((0, m), name="r")
    best = te.comm_reducer(
        lambda a, b: (
            tir.Select(a[1] >= b[1], a[0], b[0]),
            tir.Select(a[1] >= b[1], a[1], b[1]),
        ),
        lambda t, u: (tir.const(-1, t), te.min_value(u)),
        name="best",
    )
    K, V = te.compute((n,), lambda i: best((r.var, X[i, r]), axis=r), name="B")
    s = te.create_schedule(V.op)
    s[V].split(s[V].op.reduce_axis[0], factor=L("r", m))
    return s, [X, K, V]
