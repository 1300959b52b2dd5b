"""Kernels by hand of one warp group that multiplies tiles in shared memory, in every layout that
matrix descriptors have; and kernels of schedules, with statements taken out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.base.tensor_map import TensorMap
from tilewright.interp.simt import SimtMap, SimtReport, run_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.iter import IterVar
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.target.target import Target
from tilewright.topi.schedules.gpu.machine import GpuMachine
from tilewright.topi.schedules.gpu.warp_groups import schedule_on_warp_groups
from tilewright.topi.tensor_intrin import WarpGroupTile

ROWS, DEPTH, STEP = 64, 32, 16
TYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
THREAD = E.Var("tx", "int32")
AXIS = IterVar((0, 128), THREAD, IterVar.ThreadIndex, "threadIdx.x")
NAMES = {"float16": "fp16", "bfloat16": "bf16"}


def draw(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Numbers of few bits, on which every product and sum is exact."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-8, 9, tuple(shape)) / 8).astype(TYPES[dtype])


class Side:
    """An operand of `lines` x DEPTH in memory: K along its rows, or (`flip`) the lines."""

    def __init__(self, name: str, lines: int, dtype: str, span: int, flip: bool) -> None:
        self.lines, self.dtype, self.span, self.flip = lines, dtype, span, flip
        wide = max(span, 16) // 2  # elements of a row of a box
        self.shape = (DEPTH, lines) if flip else (lines, DEPTH)
        across = lines if flip else DEPTH
        self.box = (wide, DEPTH if flip else lines)
        self.count = -(-across // wide)
        self.map = E.Var(f"{name}_map", "handle")
        size = self.count * self.box[0] * self.box[1]
        self.stage = decl_buffer(
            (size,), dtype, f"{name}_tile", None, None, None, "shared", max(8 * span, 128)
        )

    def described(self) -> TensorMap:
        outer, inner = self.shape
        return TensorMap(self.dtype, (inner, outer), (2 * inner,), self.box, self.span)

    @property
    def box_elements(self) -> int:
        return self.box[0] * self.box[1]

    def pointer(self, at: int, access: int = 1) -> E.Call:
        args = (E.const(0, self.dtype), self.stage.data, at, self.box_elements, access)
        return E.Call("handle", "tir.tvm_access_ptr", args)

    def copies(self, barrier: int) -> list[E.Call]:
        return [
            H.ptx_cp_async_bulk_tensor(
                self.dtype, self.pointer(n * self.box_elements, 2), self.map,
                (n * self.box[0], 0), barrier,
            )
            for n in range(self.count)
        ]  # fmt: skip

    def descriptor(self, step: int) -> E.Call:
        """The tile of one step of 16, by the strides of the PTX ISA (its section "Strides")."""
        each, span = 2 * self.box_elements, max(self.span, 16)
        if self.flip:
            at = step * STEP * span // 2
            leading, stride = (each, 8 * span) if self.span else (128, each)
        elif self.span:
            wide = span // 2
            at = step * STEP // wide * self.box_elements + step * STEP % wide
            leading, stride = 16, 8 * span
        else:
            at, leading, stride = 2 * step * self.box_elements, each, 128
        return H.ptx_wgmma_descriptor(self.pointer(at), leading, stride, self.span)


def evaluate(*calls: Any) -> S.Stmt:
    return S.seq([S.Evaluate(c) for c in calls])


def _brought(*sides: Side) -> S.Stmt:
    """What has copies bring operands to shared memory, and waits for them."""
    nbytes = sum(2 * x.count * x.box_elements for x in sides)
    copies = [c for x in sides for c in x.copies(0)]
    made = evaluate(H.ptx_init_barrier_thread_count(0, 1), H.ptx_fence_barrier_init())
    return S.seq(
        evaluate(H.create_barriers(1)),
        S.IfThenElse(THREAD.equal(0), made),
        evaluate(storage_sync("shared")),
        S.IfThenElse(THREAD.equal(0), evaluate(H.ptx_arrive_barrier_expect_tx(0, nbytes), *copies)),
        evaluate(H.ptx_wait_barrier(0)),
    )


def product_kernel(a: Side, b: Side, fill: S.Stmt | None = None) -> S.PrimFunc:
    """OUT[64, n] = A B of one warp group; `fill` brings the operands in the place of TMA."""
    columns = b.lines
    tx = THREAD
    out = decl_buffer((ROWS * columns,), "float32", "OUT")
    sums = decl_buffer((columns // 2,), "float32", "sums", scope="local")
    products = [
        H.ptx_wgmma(
            "float32", f"m64n{columns}k16", NAMES[a.dtype], sums.data, 0, a.descriptor(n),
            b.descriptor(n), n, a.flip, b.flip,
        )
        for n in range(DEPTH // STEP)
    ]  # fmt: skip
    body = S.seq(
        _brought(a, b) if fill is None else fill,
        evaluate(H.ptx_wgmma_fence(), *products, H.ptx_wgmma_commit_group()),
        evaluate(H.ptx_wgmma_wait_group(0)),
        *_store(out, sums, tx, columns),
    )
    for buffer in (sums, a.stage, b.stage):
        body = S.Allocate(buffer, body)
    params = [out.data] if fill is not None else [out.data, a.map, b.map]
    whole = S.AttrStmt(AXIS, "thread_extent", 128, body)
    return S.PrimFunc(params, whole, None, {}, {"global_symbol": "product"})


def register_kernel(b: Side, fence: bool = True, early: bool = False) -> S.PrimFunc:
    """OUT[64, n] = A B of one warp group, whose A[64, DEPTH] threads read to registers; without a
    `fence` behind that, or (`early`) with one of them set anew before the product is waited for."""
    columns, tx = b.lines, THREAD
    out = decl_buffer((ROWS * columns,), "float32", "OUT")
    source = decl_buffer((ROWS * DEPTH,), b.dtype, "A")
    sums = decl_buffer((columns // 2,), "float32", "sums", scope="local")
    own = decl_buffer((DEPTH // 2,), b.dtype, "own", scope="local")
    reads = []
    for i in range(DEPTH // 2):  # as the PTX ISA tells of m64k16
        row = tx // 32 * 16 + tx % 32 // 4 + i % 4 // 2 * 8
        k = tx % 4 * 2 + i // 8 * STEP + i % 8 // 4 * 8 + i % 2
        reads.append(S.BufferStore(own, E.BufferLoad(source, [row * DEPTH + k]), [i]))
    products = [
        H.ptx_wgmma_rs(
            "float32", f"m64n{columns}k16", NAMES[b.dtype], sums.data, 0, own.data, 8 * n,
            b.descriptor(n), n, b.flip,
        )
        for n in range(DEPTH // STEP)
    ]  # fmt: skip
    body = S.seq(
        _brought(b),
        *reads,
        *([S.Evaluate(H.ptx_wgmma_fence())] if fence else []),
        evaluate(*products, H.ptx_wgmma_commit_group()),
        *([S.BufferStore(own, E.const(0, b.dtype), [3])] if early else []),
        evaluate(H.ptx_wgmma_wait_group(0)),
        *_store(out, sums, tx, columns),
    )
    for buffer in (sums, own, b.stage):
        body = S.Allocate(buffer, body)
    whole = S.AttrStmt(AXIS, "thread_extent", 128, body)
    return S.PrimFunc([out.data, source.data, b.map], whole, None, {}, {"global_symbol": "rs"})


def _store(out: Buffer, sums: Buffer, tx: E.Var, columns: int) -> list[S.Stmt]:
    """Register 4 q + 2 h + e of thread t is in row 16 (t / 32) + t % 32 / 4 + 8 h, and in column
    8 q + 2 (t % 4) + e."""
    made: list[S.Stmt] = []
    for i in range(columns // 2):
        row = tx // 32 * 16 + tx % 32 // 4 + i % 4 // 2 * 8
        column = tx % 4 * 2 + i // 4 * 8 + i % 2
        made.append(S.BufferStore(out, E.BufferLoad(sums, [i]), [row * columns + column]))
    return made


# -- kernels of schedules

M, N, K = 130, 64, 320


@cache
def scheduled(specialized: bool = False, below: int = 1) -> S.PrimFunc:
    """The kernel of a product of 130 x 64 x 320, five steps in four stages; `below`: blocks of a
    cluster, each of which brings a part of B to all."""
    a, b = te.placeholder((M, K), "float16", "A"), te.placeholder((N, K), "float16", "B")
    c = topi.nn.dense(a, b, out_dtype="float32")
    s = te.create_schedule(c.op)
    tile = WarpGroupTile(
        "float16", 128, 64, (M, N, K), (True, True), 4, specialized, cluster=(below, 1)
    )
    target = Target("cuda -arch=sm_90a")
    schedule_on_warp_groups(s, c, c, tile, GpuMachine.of(target))
    lowered = tw.lower(s, [a, b, c], name="dense")
    (kernel,) = run_device_pipeline(lowered["dense"], target).kernels.values()
    return kernel


class _Edit(Rewriter):
    """Puts what `change` makes in the place of statements (None: nothing), and counts."""

    def __init__(self, change: Callable[[E.Call], Any]) -> None:
        self.change = change
        self.count = 0

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if type(s.value) is not E.Call:
            return s
        new = self.change(s.value)
        if new is s.value:
            return s
        self.count += 1
        return S.seq() if new is None else S.Evaluate(new) if isinstance(new, E.Call) else new


def edited(kernel: S.PrimFunc, change: Callable[[E.Call], Any]) -> S.PrimFunc:
    edit = _Edit(change)
    body = edit.stmt(kernel.body)
    assert edit.count, "nothing was changed"
    return kernel.with_body(body)


def without(kernel: S.PrimFunc, name: str, which: int = -1) -> S.PrimFunc:
    """The kernel without calls of an operation: all, or the one of that number in the text."""
    seen = [-1]

    def change(call: E.Call) -> Any:
        if call.op.name != f"tir.{name}":
            return call
        seen[0] += 1
        return None if which in (-1, seen[0]) else call

    return edited(kernel, change)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return draw((M, K), "float16", 1), draw((N, K), "float16", 2)


def run_scheduled(kernel: S.PrimFunc, below: int = 1) -> tuple[np.ndarray, SimtReport]:
    """What such a kernel gives, and what is wrong with it."""
    out = np.zeros((M, N), np.float32)
    given: dict[str, Any] = {}
    for name, array, lines in zip("AB", arrays(), (128, 64 // below)):
        described = TensorMap("float16", (K, len(array)), (2 * K,), (64, lines), 128)
        given[f"{name}_map"] = SimtMap(array, described)
    args = [given.get(p.name, out) for p in kernel.params]
    return out, run_kernel(kernel, None, args, check=False)


def kinds(kernel: S.PrimFunc, below: int = 1) -> set[str]:
    """What kinds of mistakes are found in a kernel."""
    return {f.kind for f in run_scheduled(kernel, below)[1].findings}
