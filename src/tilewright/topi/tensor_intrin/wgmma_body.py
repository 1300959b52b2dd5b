"""The statements of a tile that warp groups make: barriers, copies and products of all steps, for
each of the ways that `wgmma` tells of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...loopir import hopper_calls as H
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import storage_sync, tvm_warp_shuffle
from ...loopir.construct import cast
from ...loopir.expr import And, Call, FloorDiv, FloorMod, Var, const
from ...loopir.stmt import (
    UNROLL_BY,
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
    vstore,
)
from ...tensor.axes import thread_axis
from .warp_group_tile import GROUP, GROUP_ROWS, KINDS, SUMS, WarpGroupTile
from .wgmma_operand import Operand


class _Step(NamedTuple):
    """A step of the reduction, its stage, and the parity of the turn that this has."""

    k: Any
    stage: Any
    turn: Any
    later: Any  # whether there are sums of steps before

    def before(self, stages: int) -> Any:
        """The stage of the step before."""
        return FloorMod(self.stage + (stages - 1), const(stages))


class Body:
    """The statements of a tile."""

    def __init__(
        self, tile: WarpGroupTile, a: Buffer, b: Buffer, c: Buffer, steps: Sequence[Var] = ()
    ) -> None:
        """`steps`: strides of the images that `a` has windows of, but for the innermost one."""
        self.tile, self.out = tile, c
        self.rank = Var("rank", "int32")
        self.sides = (Operand(tile, a, 0, self.rank, steps), Operand(tile, b, 1, self.rank))
        self.axis = thread_axis((0, tile.block_threads), "threadIdx.x")
        self.thread: Any = self.axis.var
        self.steps = -(-(tile.length or tile.extents[2]) // (tile.step * tile.joined))
        self.exchange: Buffer | None = None
        if tile.joined > 1:
            size = (tile.threads * tile.wide // 2,)
            self.exchange = decl_buffer(size, SUMS[tile.dtype], "exchange", scope="shared")
        self.stages = min(tile.stages, self.steps)  # that are filled
        self.descriptors = (Var("a_tile", "uint64"), Var("b_tile", "uint64"))

    def whole(self) -> Stmt:
        body = self.side_by_side() if self.tile.specialized else self.in_step()
        for x in self.sides:
            body = Allocate(x.stages, body)
        if self.exchange is not None:
            body = Allocate(self.exchange, body)
        if self.tile.blocks > 1:
            # a remainder of itself, which says how large it may be
            rank = FloorMod(H.ptx_cluster_rank(), const(self.tile.blocks))
            body = LetStmt(self.rank, rank, body)
            body = AttrStmt(const(0), H.CLUSTER, const(self.tile.blocks), body)
        return AttrStmt(self.axis, "thread_extent", const(self.tile.block_threads), body)

    def barriers(self, counts: list[int]) -> list[Stmt]:
        """Barriers for so many threads each."""
        made = [H.ptx_init_barrier_thread_count(n, count) for n, count in enumerate(counts)]
        return [
            Evaluate(H.create_barriers(len(counts))),
            self.one_thread(seq([Evaluate(c) for c in (*made, H.ptx_fence_barrier_init())])),
            self.meet(),
        ]

    def meet(self) -> Stmt:
        """All threads that use each other's barriers: copies bring the rest."""
        shared = max(self.tile.cluster) > 1
        return Evaluate(H.ptx_cluster_sync(relaxed=True) if shared else storage_sync("shared"))

    def one_thread(self, body: Stmt, condition: Any = None) -> Stmt:
        first = self.thread.equal(0)
        return IfThenElse(first if condition is None else And(first, condition), body)

    def wait_for_sums(self) -> Stmt:
        return Evaluate(H.ptx_wgmma_wait_group(0, self.out.data, self.tile.wide // 2))

    # -- all threads in step

    def in_step(self) -> Stmt:
        stages = self.tile.stages
        ahead = min(stages - 1, self.steps)

        def step(at: _Step) -> Stmt:
            later = at.k + (stages - 1)
            return seq(
                self.multiply(at),
                Evaluate(storage_sync("shared")),  # the stage of the step before is free
                self.one_thread(self.load(later, at.before(stages)), later < self.steps),
            )

        return seq(
            *self.barriers([1] * stages),
            self.one_thread(seq([self.load(const(n), const(n)) for n in range(ahead)])),
            self.products("k", step),
        )

    # -- a warp group that copies beside those that multiply

    def side_by_side(self) -> Stmt:
        """Barriers 0, 1, ... say that a stage is full, those behind them that it is free, at which
        each warp arrives: it knows of its own part of a product only. It arrives at those of all
        blocks of its cluster, a thread at each, since all fill its stages."""
        stages, threads, blocks = self.stages, self.tile.threads, max(self.tile.cluster)
        # whether stages are filled more than once
        again = self.steps > stages or self.tile.persistent
        lane = FloorMod(self.thread, const(32))
        arrives, there = (lane.equal(0), None) if blocks == 1 else (lane < blocks, lane)

        def copy(at: _Step) -> Stmt:
            load = self.load(at.k, at.stage)
            free = Evaluate(H.ptx_wait_barrier(at.stage + stages, 1 - at.turn))
            return seq(free, load) if again else load  # the first turn is free

        def free(stage: Any, condition: Any) -> Stmt:
            arrive = Evaluate(H.ptx_arrive_barrier(stage + stages, there))
            return IfThenElse(condition, arrive)

        def step(at: _Step) -> Stmt:
            own = [free(at.before(stages), And(arrives, at.later))] if again else []
            return seq(self.multiply(at, again), *own)

        # the stage of the last step, for the next tile
        end: Any = const((self.steps - 1) % stages)
        if self.tile.stream:
            end = FloorMod(H.stream_steps(1) + H.stream_steps(2) - 1, const(stages))
        last = [free(end, arrives)] if self.tile.persistent else []
        if self.tile.stream:
            kept = (self.out.data, self.tile.columns // 2, self.steps)
            last.append(Evaluate(H.stream_sums(SUMS[self.tile.dtype], *kept)))
        copying = IfThenElse(self.thread.equal(threads), self.rounds("k_copied", copy))
        own = seq(self.products("k", step), *last, *self.given())
        sides = IfThenElse(self.thread >= threads, copying, own)
        return seq(
            *self.barriers([1] * stages + [blocks * threads // 32] * stages * again),
            AttrStmt(const(0), "warp_specialized", const(threads), sides),
            # before a block ends that others reach: arrivals are there, too
            *([Evaluate(H.ptx_cluster_sync())] if blocks > 1 else []),
            *self.joined(),
        )

    # -- sums of parts of the reduction, of the blocks of a cluster

    def place(self, quad: Any) -> Any:
        """Of four registers of this thread in the memory that blocks exchange them in."""
        return (quad * self.tile.threads + self.thread) * 4

    def registers(self, quad: int) -> list[int]:
        """Where four registers of sums are in the tile that stands for them."""
        return [*(0 for _ in self.out.shape[1:]), 4 * quad]

    def given(self) -> list[Stmt]:
        """What lets other blocks read the sums of this thread."""
        if self.exchange is None:
            return []
        made = []
        for n in range(self.tile.wide // 8):
            value = self.out.vload(self.registers(n), f"{SUMS[self.tile.dtype]}x4")
            made.append(vstore(self.exchange, [self.place(const(n))], value))
        return made

    def joined(self) -> list[Stmt]:
        """The sums of this block's columns: those of all blocks, always in the same order."""
        if self.exchange is None:
            return []
        kind = f"{SUMS[self.tile.dtype]}x4"
        made = []
        quads = self.tile.columns // 8
        for n in range(quads):
            at = self.place(self.rank * quads + n)
            args = (const(0, SUMS[self.tile.dtype]), self.exchange.data, at, 4, 1)
            pointer = Call("handle", "tir.tvm_access_ptr", args)
            total: Any = H.ptx_cluster_load(kind, pointer, 0)
            for block in range(1, self.tile.joined):
                total = total + H.ptx_cluster_load(kind, pointer, block)
            made.append(vstore(self.out, self.registers(n), total))
        sync = Evaluate(H.ptx_cluster_sync())
        return [sync, IfThenElse(self.thread < self.tile.threads, seq(made)), sync]

    # -- steps

    def rounds(self, name: str, step: Callable[[_Step], Stmt]) -> Stmt:
        """A loop over all steps, of which the device's compiler writes out as many as there are
        stages: so the numbers of these are constants."""
        stages = self.stages
        turn, stage = Var(f"{name}_turn", "int32"), Var(f"{name}_stage", "int32")
        k = turn * stages + stage
        low: Any = const(0)
        turns: Any = const(-(-self.steps // stages))
        if self.tile.stream:  # stages are filled in turn from the first step of all of a block
            first, count, begun = (H.stream_steps(n) for n in range(3))
            low = FloorDiv(begun, const(stages))
            turns = FloorDiv(begun + count + (stages - 1), const(stages)) - low
            step_of = _Step(k - begun + first, stage, FloorMod(turn, const(2)), k > begun)
            body: Stmt = IfThenElse(And(k >= begun, k < begun + count), step(step_of))
        else:
            body = step(_Step(k, stage, FloorMod(self.fills(turn, stage), const(2)), k > 0))
            if self.steps % stages:
                body = IfThenElse(k < self.steps, body)
        once = For(stage, 0, stages, ForKind.UNROLLED, body)
        marked = AttrStmt(stage, "pragma_unroll_explicit", const(0), once)
        return For(turn, low, turns, ForKind.SERIAL, marked, annotations={UNROLL_BY: const(1)})

    def fills(self, turn: Any, stage: Any) -> Any:
        """How often a stage has been filled before a turn: tiles before have filled it as often as
        this one does."""
        turns, rest = -(-self.steps // self.stages), self.steps % self.stages
        if not self.tile.persistent:
            return turn
        each = turns - cast("int32", stage >= rest) if rest else const(turns)
        return H.persistent_turn() * each + turn

    def products(self, name: str, step: Callable[[_Step], Stmt]) -> Stmt:
        """All steps, and the wait for their sums."""
        body = seq(self.rounds(name, step), self.wait_for_sums())
        group = FloorDiv(self.thread, const(GROUP)) * GROUP_ROWS
        if self.tile.rows > GROUP_ROWS:  # of lane 0, so that it is known to be one of a warp
            group = tvm_warp_shuffle(const(0xFFFFFFFF, "uint32"), group, 0, 32, 32)
        for var, side, first in zip(self.descriptors, self.sides, (group, const(0))):
            body = LetStmt(var, side.descriptor(first), body)
        return body

    def load(self, step: Any, stage: Any) -> Stmt:
        """Start the copies of a step, by one thread."""
        if self.tile.joined > 1:
            step = self.rank * self.steps + step
        expect = H.ptx_arrive_barrier_expect_tx(stage, self.tile.stage_bytes)
        return seq(Evaluate(expect), *(c for x in self.sides for c in x.copies(step, stage)))

    def multiply(self, at: _Step, again: bool = True) -> Stmt:
        """One step: wait for it, multiply, and wait for the step before, whose stage may be filled
        `again` then."""
        return seq(
            Evaluate(H.ptx_wait_barrier(at.stage, at.turn)),
            Evaluate(H.ptx_wgmma_fence()),
            *(self.product(at, n) for n in range(self.tile.step // self.tile.depth)),
            Evaluate(H.ptx_wgmma_commit_group()),
            *([Evaluate(H.ptx_wgmma_wait_group(1))] if again else []),
        )

    def product(self, at: _Step, depth: int) -> Stmt:
        a, b = (x.moved(d, at.stage, depth) for x, d in zip(self.sides, self.descriptors))
        flips = [not x.along for x in self.sides]
        add = const(1) if depth else cast("int32", at.later)
        return Evaluate(
            H.ptx_wgmma(
                SUMS[self.tile.dtype], f"m64n{self.tile.wide}k{self.tile.depth}",
                KINDS[self.tile.dtype], self.out.data, 0, a, b, add, *flips,
            )
        )  # fmt: skip
