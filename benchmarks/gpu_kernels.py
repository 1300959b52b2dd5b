"""Schedules for NVIDIA GPUs that benchmarks/gpu.py times: what a user would write by hand.

Each function gives a schedule and the arguments of its function, the output last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.target.target import Target
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.operands import pitch_of, spread
from tilewright.topi.schedules.gpu.packing import arrange_packed
from tilewright.topi.tensor_intrin import (
    mma_gemm,
    mma_load,
    mma_store,
    round_to_tf32,
    wmma_gemm,
    wmma_load,
    wmma_store,
)

Program = tuple[Any, list[Any]]


def _bind(stage: Any, **axes: Any) -> None:
    """`by=axis` binds to blockIdx.y, `tx=axis` to threadIdx.x, `vy=axis` to a virtual thread."""
    kinds = {"b": "blockIdx.", "t": "threadIdx."}
    for name, axis in axes.items():
        tag = "vthread" if name[0] == "v" else kinds[name[0]] + name[1]
        stage.bind(axis, te.thread_axis(tag))


def _spread(stage: Any, extents: Sequence[int], vector: int) -> Any:
    """All axes of a stage in vectors over a block's threads (z, y, x); gives the outer loop."""
    flat = stage.fuse(*stage.leaf_iter_vars)
    flat, lanes = stage.split(flat, factor=vector)
    stage.vectorize(lanes)
    for extent, tag in zip(reversed(extents), ("x", "y", "z")):
        flat, thread = stage.split(flat, factor=extent)
        stage.bind(thread, te.thread_axis((0, extent), f"threadIdx.{tag}"))
    return flat


# -- memory


def elementwise(n: int, dtype: str = "float32") -> Program:
    """C = 2 A + B over (n,), 16 bytes a thread at a time."""
    a, b = te.placeholder((n,), dtype, "A"), te.placeholder((n,), dtype, "B")
    c = te.compute((n,), lambda i: a[i] * te.const(2, dtype) + b[i], name="C")
    s = te.create_schedule(c.op)
    rest, lanes = s[c].split(c.op.axis[0], factor=4)
    block, thread = s[c].split(rest, factor=256)
    s[c].vectorize(lanes)
    _bind(s[c], bx=block, tx=thread)
    return s, [a, b, c]


def row_sum(n: int, m: int, threads: int = 256) -> Program:
    """Sums of the rows of a float32 matrix: one block a row, four elements a load."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    rest = s[b].split(k, factor=4)[0]
    thread = s[b].split(rest, factor=threads)[1]
    part = s.rfactor(b, thread)
    row = s.cache_read(a, "local", [part])
    _bind(s[b], bx=s[b].op.axis[0])
    tx = te.thread_axis((0, threads), "threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    step, lane = s[part].op.reduce_axis
    s[part].unroll(lane)
    s[part].unroll(step)
    s[row].compute_at(s[part], step)
    s[row].vectorize(s[row].op.axis[1])
    s[b].set_store_predicate(tx.var.equal(0))
    return s, [a, b]


def transpose(n: int, m: int, tile: int = 64) -> Program:
    """B = A^T in float32 by tiles in shared memory, whose rows are padded by one element."""
    rows = 256 // tile
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    by, bx, y, x = s[b].tile(b.op.axis[0], b.op.axis[1], tile, tile)
    rest, ty = s[b].split(y, factor=rows)
    s[b].reorder(by, bx, ty, x, rest)
    s[b].unroll(rest)
    _bind(s[b], by=by, bx=bx, ty=ty, tx=x)
    s[shared].compute_at(s[b], bx)
    s[shared].storage_align(shared.op.axis[0], tile, 1)
    rest, ty = s[shared].split(shared.op.axis[0], factor=rows)
    s[shared].unroll(rest)
    _bind(s[shared], ty=ty, tx=shared.op.axis[1])
    return s, [a, b]


# -- matrix products


@dataclass(frozen=True)
class Tiles:
    """A float32 product: block tiles of `tile` x `tile`, `depth` of k at a time; 16 x 16 threads
    with 2 x 2 virtual threads of 4 x 4 elements each; `stages` tiles in flight."""

    tile: int = 128
    depth: int = 16
    stages: int = 2
    inner: int = 4


def matmul(n: int, m: int, depth: int, t: Tiles | None = None) -> Program:
    """C = A B in float32 without tensor cores."""
    t = t or Tiles()
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    aa, bb = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    al, bl = s.cache_read(aa, "local", [c]), s.cache_read(bb, "local", [c])
    cl = s.cache_write(c, "local")
    by, bx, y, x = s[c].tile(c.op.axis[0], c.op.axis[1], t.tile, t.tile)
    vy, y = s[c].split(y, nparts=t.tile // 64)
    vx, x = s[c].split(x, nparts=t.tile // 64)
    ty, y = s[c].split(y, factor=4)
    tx, x = s[c].split(x, factor=4)
    s[c].reorder(by, bx, vy, vx, ty, tx, y, x)
    _bind(s[c], by=by, bx=bx, vy=vy, vx=vx, ty=ty, tx=tx)
    s[c].vectorize(x)
    s[c].unroll(y)
    s[cl].compute_at(s[c], tx)
    ko, ki = s[cl].split(s[cl].op.reduce_axis[0], factor=t.depth)
    km, ki = s[cl].split(ki, factor=t.inner)
    s[cl].reorder(ko, km, ki, *s[cl].op.axis)
    for axis in (km, ki, *s[cl].op.axis):
        s[cl].unroll(axis)
    s[cl].pragma(ko, "software_pipeline_stages", t.stages)
    s[cl].pragma(ko, "launch_bounds_min_blocks", 2)
    s[al].compute_at(s[cl], km)
    s[bl].compute_at(s[cl], ki)
    for local in (al, bl):
        s[local].unroll(local.op.axis[0])
        s[local].vectorize(local.op.axis[1])
    for shared in (aa, bb):
        s[shared].compute_at(s[cl], ko)
        rest = _spread(s[shared], (16, 16), 4)
        s[shared].unroll(rest)
        s[shared].double_buffer()
        s[shared].pragma(rest, "async_scope")
    s[aa].storage_align(aa.op.axis[0], 8, 4)
    return s, [a, b, c]


@dataclass(frozen=True)
class TensorTiles:
    """A product on tensor cores: block tile, warp tile, depth of a step, tiles in flight.

    `packed`: whether B is laid anew first, with rows along k, as units want bytes and float32;
    the latter and A are rounded to tf32 then. `staged`: whether sums leave through shared memory,
    in vectors; a warp has all rows of the block's tile then."""

    block: tuple[int, int] = (128, 128)
    warp: tuple[int, int] = (64, 64)
    depth: int = 16
    stages: int = 4
    fragment: tuple[int, int, int] = (16, 16, 16)
    unit: str = "wmma"  # or "mma": m16n8k16 and ldmatrix
    packed: bool = False
    staged: bool = False

    @property
    def warps(self) -> tuple[int, int]:
        return (self.block[0] // self.warp[0], self.block[1] // self.warp[1])


_FRAGMENTS = ("matrix_a", "matrix_b", "accumulator")


def _intrinsics(t: TensorTiles, dtype: str, out: str) -> tuple[Any, Any, Any, Any]:
    """Loads of A and B, the product, the store."""
    layout, scope = "col_major" if t.packed else "row_major", "shared" if t.staged else "global"
    layouts = ("row_major", layout)
    if t.unit == "mma":
        loads = [mma_load(role, dtype, x) for role, x in zip("ab", layouts)]
        return loads[0], loads[1], mma_gemm(dtype, out, layout), mma_store(out, scope=scope)
    loads = [wmma_load(role, t.fragment, dtype, x) for role, x in zip("ab", layouts)]
    gemm = wmma_gemm(t.fragment, dtype, out, *layouts)
    return loads[0], loads[1], gemm, wmma_store(t.fragment, out, scope)


def tensor_matmul(
    n: int,
    m: int,
    depth: int,
    dtype: str = "float16",
    out: str = "float32",
    t: TensorTiles | None = None,
) -> Program:
    """C = A B on tensor cores: operands of `dtype`, sums and C of `out`."""
    t = t or TensorTiles()
    scopes = ["local"] * 3 if t.unit == "mma" else [f"wmma.{x}" for x in _FRAGMENTS]
    load_a, load_b, multiply, store = _intrinsics(t, dtype, out)
    a, b = te.placeholder((n, depth), dtype, "A"), te.placeholder((depth, m), dtype, "B")
    k = te.reduce_axis((0, depth), "k")
    left, right = _packed(a, b) if t.packed else (a, b)

    def product(i: Any, j: Any) -> Any:
        x, y = left[i, k], right[j, k] if t.packed else right[k, j]
        return te.sum(x * y if dtype == out else x.astype(out) * y.astype(out), axis=k)

    c = te.compute((n, m), product, name="C")
    s = te.create_schedule(c.op)
    aa, bb = s.cache_read(left, "shared", [c]), s.cache_read(right, "shared", [c])
    af = s.cache_read(aa, scopes[0], [c])
    bf = s.cache_read(bb, scopes[1], [c])
    staged = s.cache_write(c, "shared") if t.staged else c
    cf = s.cache_write(staged, scopes[2])
    warp = _stored_staged(s, c, staged, t, store) if t.staged else _stored(s[c], t, store)
    s[cf].compute_at(s[c], warp)
    fm, fn, fk = t.fragment
    ko, ki = s[cf].split(s[cf].op.reduce_axis[0], factor=t.depth)
    km, ki = s[cf].split(ki, factor=fk)
    y, yi = s[cf].split(s[cf].op.axis[0], factor=fm)
    x, xi = s[cf].split(s[cf].op.axis[1], factor=fn)
    s[cf].reorder(ko, km, y, x, yi, xi, ki)
    for axis in (km, y, x):
        s[cf].unroll(axis)
    s[cf].tensorize(yi, multiply)
    if t.stages > 1:
        s[cf].pragma(ko, "software_pipeline_stages", t.stages)
    tile = (fn, fk) if t.packed else (fk, fn)
    for load, f, (rows, columns) in ((load_a, af, (fm, fk)), (load_b, bf, tile)):
        s[f].compute_at(s[cf], km)
        _load_fragments(s[f], load, rows, columns)
    for shared, along in ((aa, True), (bb, t.packed)):
        s[shared].compute_at(s[cf], ko)
        _fill_ahead(s[shared], t, parse(dtype).nbytes, along)
    for source, laid in ((a, left), (b, right)):
        if laid is not source:
            arrange_packed(s[laid], laid is left, GpuMachine.of(Target("cuda -arch=sm_80")))
    return s, [a, b, c]


def _packed(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands with rows along k, rounded where the units would leave out bits."""
    k, m = b.shape
    if b.dtype != "float32":
        return a, te.compute((m, k), lambda j, k: b[k, j], name="B_packed")
    rounded = te.compute(a.shape, lambda i, k: round_to_tf32(a[i, k]), name="A_packed")
    return rounded, te.compute((m, k), lambda j, k: round_to_tf32(b[k, j]), name="B_packed")


def _stored(stage: Any, t: TensorTiles, store: Any) -> Any:
    """Fragments go to memory as they are; returns the loop of a warp."""
    by, bx, y, x = stage.tile(stage.op.axis[0], stage.op.axis[1], *t.block)
    wy, y = stage.split(y, factor=t.warp[0])
    wx, x = stage.split(x, factor=t.warp[1])
    y, yi = stage.split(y, factor=t.fragment[0])
    x, xi = stage.split(x, factor=t.fragment[1])
    stage.reorder(by, bx, wy, wx, y, x, yi, xi)
    _bind(stage, by=by, bx=bx, tz=wy, ty=wx)
    stage.unroll(y)
    stage.unroll(x)
    stage.tensorize(yi, store)
    return wx


def _stored_staged(s: Any, c: Any, staged: Any, t: TensorTiles, store: Any) -> Any:
    """Rows of fragments go to shared memory, and from there to C in vectors by all lanes of the
    warp that made them; returns the loop of a warp."""
    stage = s[c]
    by, bx, y, x = stage.tile(stage.op.axis[0], stage.op.axis[1], *t.block)
    wx, x = stage.split(x, factor=t.warp[1])
    y, yi = stage.split(y, factor=t.fragment[0])
    stage.reorder(by, bx, wx, y, yi, x)
    _bind(stage, by=by, bx=bx)
    stage.bind(wx, te.thread_axis((0, t.warps[1]), "threadIdx.y"))
    stage.unroll(y)
    flat, lanes = stage.split(stage.fuse(yi, x), factor=16 // parse(c.dtype).nbytes)
    stage.vectorize(lanes)
    flat, lane = stage.split(flat, factor=32)
    stage.bind(lane, te.thread_axis((0, 32), "threadIdx.x"))
    stage.unroll(flat)
    load = s[staged]
    load.compute_at(stage, y)
    i, j = load.op.axis
    load.storage_align(i, t.warp[1], 8)
    i, row = load.split(i, factor=t.fragment[0])
    warp, x = load.split(j, factor=t.warp[1])
    x, column = load.split(x, factor=t.fragment[1])
    load.reorder(i, warp, x, row, column)
    load.bind(warp, te.thread_axis((0, t.warps[1]), "threadIdx.y"))
    load.unroll(x)
    load.tensorize(row, store)
    return wx


def _load_fragments(stage: Any, load: Any, rows: int, columns: int) -> None:
    i, ii = stage.split(stage.op.axis[0], factor=rows)
    j, jj = stage.split(stage.op.axis[1], factor=columns)
    stage.reorder(i, j, ii, jj)
    stage.unroll(i)
    stage.unroll(j)
    stage.tensorize(ii, load)


def _fill_ahead(stage: Any, t: TensorTiles, nbytes: int, along: bool) -> None:
    """A tile of an operand, along whose rows the reduction runs or not, in shared memory, some
    steps before it is used."""
    stage.storage_align(stage.op.axis[0], 32 // nbytes, 16 // nbytes)
    if along:
        spread(stage, pitch_of(t.depth * nbytes))
    rest = _spread(stage, (*t.warps, 32), 16 // nbytes)
    stage.unroll(rest)
    if t.stages > 1:
        stage.double_buffer()
    stage.pragma(rest, "async_scope")


def warp_group_matmul(n: int, m: int, depth: int, dtype: str = "float16") -> Program:
    """C = A B by Hopper's warp groups, in the default schedule; sums and C are float32."""
    a, b = te.placeholder((n, depth), dtype, "A"), te.placeholder((depth, m), dtype, "B")
    c = topi.nn.matmul(a, b, out_dtype="float32")
    with Target("cuda -arch=sm_90a"):
        s = topi.generic.schedule_dense(c)
    return s, [a, b, c]
