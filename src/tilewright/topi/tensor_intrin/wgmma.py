"""The tensor intrinsics of Hopper's warp groups: a whole tile of a product, from arrays on the
device to sums in registers, by wgmma and TMA (sm_90a), and some of its columns from there to shared
memory.

The product is one opaque piece for the whole reduction: its stages of shared memory turn with
barriers that count bytes, which no passes know how to place, so it brings its own barriers and
`sync_threads` leaves it alone. One thread starts the copies of a step; each warp group of 128
threads multiplies 64 rows of the tile, a step while the next ones are on their way. A stage is
filled again when all warps have waited for the products that read it. `specialized`: the thread
that copies is one of a warp group of its own, which waits for the others at barriers too, so that
these never wait for each other; else it is one of those that multiply, and all meet after each
step.

Blocks of a cluster (`cluster`), which lie below or beside each other, read the same lines of one
operand: each brings a part of them to all, so that the second-level cache is asked once. A stage is
filled again when the warps of all have waited. Or each multiplies a part of the reduction for what
all of them make (`joined`), and they add up their sums in each other's shared memory, each those of
its own columns: a reduction that is cut without a kernel that joins it.

A block may make several tiles (`persistent`, the pragma "persistent_blocks"): the warp group that
copies goes on with the next one while the others store their sums, and barriers count on.

Operands are read by tensor maps, which give zeros beyond the edges of the arrays: the tile may
reach over them, and a reduction need not divide.

Sums are an array in scope "local" of the tile's shape, of which a thread uses as many elements as
it has sums, from the start; lowering cuts off the rest (trim_fragments).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...base.dtype import parse
from ...base.errors import ScheduleError
from ...loopir import hopper_calls as H
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import storage_sync, tvm_warp_shuffle
from ...loopir.construct import cast
from ...loopir.expr import And, Call, FloorDiv, FloorMod, PrimExpr, Var, const
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
from ...tensor.axes import reduce_axis, thread_axis
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ...tensor.reduce import sum as reduce_sum

GROUP = 128  # threads
GROUP_ROWS = 64
SPAN = 128  # bytes of a row of a tile in shared memory, and of its swizzle
ATOM = 8 * SPAN  # after which the swizzle begins anew
_DEPTH = 32  # bytes of the reduction in an instruction
_COPIED = 256  # rows that a copy takes at most
_UNIT = 16  # bytes that addresses of a descriptor count
_UNUSED = 16  # a descriptor's leading byte offset where the layout has none
_MOST_COLUMNS = 256
_TYPES = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8"}
SUMS = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}
"""The types of sums by those of operands."""


@dataclass(frozen=True)
class WarpGroupTile:
    """A tile of `rows` x `columns` of a product of arrays of `dtype`, sums as `SUMS` has them.

    `extents`: rows, columns and steps of the whole product, which arrays have; rows may be known
    when it runs only, if the reduction runs along those of its operand. `along`: of each
    operand, whether the reduction runs along its rows in memory (A[i, k], B[j, k]), or not
    (A[k, i], B[k, j]). `stages`: steps that have room in shared memory at once. `specialized`: see
    the head. `batch`: how many matrices the array of each operand has, of which one is read (its
    first dimension); none: the array is a matrix, as is that of the product. `length`: steps of the
    part of the reduction that is the tile's, where it is cut in parts; the last one reaches over
    its end. `cluster`: blocks of a cluster, which follow each other along blockIdx.x, below and
    beside each other; there are several of one kind alone. `joined`: so many blocks beside each
    other are a cluster that cuts the reduction. `persistent`: the block may make several tiles.
    Raises ScheduleError where a warp group has no such
    tile.
    """

    dtype: str
    rows: int
    columns: int
    extents: tuple[int | PrimExpr, int, int]
    along: tuple[bool, bool] = (True, False)
    stages: int = 4
    specialized: bool = True
    batch: tuple[int, int] | None = None
    length: int | None = None
    cluster: tuple[int, int] = (1, 1)
    joined: int = 1
    persistent: bool = False

    def __post_init__(self) -> None:
        wrong = self._wrong()
        if wrong:
            raise ScheduleError(f"wgmma_tile: {wrong}")

    def _wrong(self) -> str:
        if self.dtype not in _TYPES:
            return f"operands are of {', '.join(_TYPES)}, not {self.dtype}"
        if self.rows % GROUP_ROWS or not 0 < self.rows <= _COPIED:
            return f"a tile has 64, 128, 192 or 256 rows, not {self.rows}"
        most = 8 if self.along[1] else SPAN // self.nbytes
        if self.columns % 8 or self.wide % most or not 0 < self.wide <= _MOST_COLUMNS:
            return f"columns are a multiple of {most}, up to 256, not {self.wide}"
        if self.nbytes == 1 and not all(self.along):
            return f"operands of {self.dtype} are A[i, k] and B[j, k]"
        if self.stages < 2:
            return "there are two stages or more"
        if self.length is not None and self.length % self.step:
            return f"a part of the reduction is a multiple of {self.step}, not {self.length}"
        wrong = self._wrong_cluster(self.cluster) or self._wrong_joined()
        if wrong:
            return wrong
        if self.persistent and (not self.specialized or self.joined > 1):
            return "blocks that make several tiles have a warp group that copies, and join no sums"
        m, n, k = self.extents
        for name, row in (("A", k if self.along[0] else m), ("B", k if self.along[1] else n)):
            if not isinstance(row, int):
                return f"a row of {name} has {row} elements, which has to be known"
            if row * self.nbytes % 16:
                return f"a row of {name} has {row * self.nbytes} bytes, no multiple of 16"
        return ""

    def _wrong_cluster(self, cluster: tuple[int, int]) -> str:
        blocks = max(cluster)
        if cluster == (1, 1):
            return ""
        if min(cluster) != 1 or blocks not in (2, 4, 8):
            return f"a cluster is of 2, 4 or 8 blocks below or beside each other, not {cluster}"
        if not self.specialized:
            return "blocks of a cluster have a warp group that copies (specialized)"
        side = _common(cluster)
        lines = (self.rows, self.columns)[side]
        if lines % (blocks * (8 if self.along[side] else self.step)):
            return f"{lines} lines of {'AB'[side]} are not copied in {blocks} parts"
        return ""

    def _wrong_joined(self) -> str:
        if self.joined == 1:
            return ""
        if self.joined not in (2, 4, 8):
            return f"a cluster is of 2, 4 or 8 blocks, not {self.joined}"
        if not self.specialized or self.length is not None or max(self.cluster) > 1:
            return "blocks that join their sums have no parts, and no other cluster (specialized)"
        return ""

    def takes(self, cluster: tuple[int, int]) -> bool:
        """Whether blocks of such a cluster may make these tiles."""
        return not self._wrong_cluster(cluster)

    @property
    def blocks(self) -> int:
        """Of a cluster."""
        return max(*self.cluster, self.joined)

    @property
    def wide(self) -> int:
        """Columns that a block multiplies: those of all whose sums are joined."""
        return self.columns * self.joined

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return parse(self.dtype).nbytes

    @property
    def held(self) -> int:
        """Rows that the product has of a tile."""
        rows = self.extents[0]
        return min(self.rows, rows) if isinstance(rows, int) else self.rows

    @property
    def step(self) -> int:
        """Steps of the reduction in a stage."""
        return SPAN // self.nbytes

    @property
    def depth(self) -> int:
        """Steps of the reduction in an instruction."""
        return _DEPTH // self.nbytes

    @property
    def parts(self) -> int:
        """Into how many parts the reduction is cut."""
        return 1 if self.length is None else -(-self.extents[2] // self.length)

    @property
    def threads(self) -> int:
        """Those that multiply."""
        return self.rows // GROUP_ROWS * GROUP

    @property
    def block_threads(self) -> int:
        return self.threads + (GROUP if self.specialized else 0)

    @property
    def stage_bytes(self) -> int:
        return (self.rows + self.wide) * SPAN

    @property
    def exchange_bytes(self) -> int:
        """Of the sums that blocks read of each other."""
        return self.rows * self.wide * 4 if self.joined > 1 else 0


def _common(cluster: tuple[int, int]) -> int:
    """The operand of which all blocks of a cluster read the same lines: A (0) where they lie beside
    each other, B (1) where they lie below each other."""
    return 0 if cluster[1] > 1 else 1


def wgmma_tile(tile: WarpGroupTile) -> Any:
    """The intrinsic of the product; its output is a tile in registers. The block has
    `tile.block_threads` threads along threadIdx.x. See the PTX ISA, wgmma."""
    m, n, k = tile.held, tile.columns, tile.length or tile.extents[2]
    sums = SUMS[tile.dtype]
    one = () if tile.batch is None else (1,)
    size_a = (*one, m, k) if tile.along[0] else (*one, k, m)
    size_b = (*one, n, k) if tile.along[1] else (*one, k, n)
    a, b = placeholder(size_a, tile.dtype, "a"), placeholder(size_b, tile.dtype, "b")
    axis = reduce_axis((0, k), "k")

    def product(*at: Any) -> Any:
        *lead, i, j = at
        x: Any = a[(*lead, i, axis)] if tile.along[0] else a[(*lead, axis, i)]
        y: Any = b[(*lead, j, axis)] if tile.along[1] else b[(*lead, axis, j)]
        return reduce_sum(x.astype(sums) * y.astype(sums), axis=axis)

    c = compute((*one, m, n), product, name="product")
    binds = {
        a: _declare(size_a, tile.dtype, "global"),
        b: _declare(size_b, tile.dtype, "global"),
        c: _declare((*one, m, n), sums, "local"),
    }

    def body(ins: Any, outs: Any) -> Stmt:
        return _Body(tile, ins[0], ins[1], outs[0]).whole()

    return decl_tensor_intrin(c.op, body, "wgmma_tile", binds, clips=True)


def wgmma_store(tile: WarpGroupTile, columns: int) -> Any:
    """The intrinsic that stores so many columns of a tile in registers, a multiple of 8, to shared
    memory, in pairs. See the PTX ISA, wgmma, "Register Fragments"."""
    sums = SUMS[tile.dtype]
    one = () if tile.batch is None else (1,)
    shape = (*one, tile.held, columns)
    x = placeholder(shape, sums, "x")
    y = compute(shape, lambda *at: x[at], name="columns")
    axis = thread_axis((0, tile.block_threads), "threadIdx.x")
    t: Any = axis.var
    row = FloorDiv(t, const(32)) * 16 + FloorDiv(FloorMod(t, const(32)), const(4))
    column = FloorMod(t, const(4)) * 2
    lead = [0] * len(one)

    def body(ins: Any, outs: Any) -> Stmt:
        registers, memory = ins[0], outs[0]
        first: Any = registers.elem_offset  # the number of the first column
        halves: list[Stmt] = []
        for below in (0, 8):
            made: list[Stmt] = []
            for n in range(0, columns, 8):
                place = FloorDiv(first, const(2)) - first + (n // 2 + below // 4)
                value = registers.vload([*lead, 0, place], f"{sums}x2")
                made.append(memory.vstore([*lead, row + below, column + n], value))
            is_there = row + below < tile.held
            halves.append(seq(made) if tile.held == tile.rows else IfThenElse(is_there, seq(made)))
        store = IfThenElse(t < tile.threads, seq(halves))
        return AttrStmt(axis, "thread_extent", const(tile.block_threads), store)

    binds = {x: _declare(shape, sums, "local"), y: _declare(shape, sums, "shared")}
    return decl_tensor_intrin(y.op, body, "wgmma_store", binds)


def _declare(shape: tuple[int, ...], dtype: str, scope: str) -> Buffer:
    offset = Var("offset", "int32")
    strides = [*(Var("stride", "int32") for _ in shape[1:]), 1]
    return decl_buffer(shape, dtype, "tile", None, strides, offset, scope)


class _Operand:
    """One side: its tensor map, its stages in shared memory, its descriptors."""

    def __init__(self, tile: WarpGroupTile, array: Buffer, side: int, rank: Var) -> None:
        self.tile, self.along, self.rank = tile, tile.along[side], rank
        # lines that are copied by each block of a cluster, to all
        self.copiers = max(tile.cluster) if side == _common(tile.cluster) else 1
        self.lines = (tile.rows, tile.wide)[side]
        outer, inner = tile.extents[side], tile.extents[2]
        *far, row, _ = array.strides
        offset: Any = array.elem_offset
        matrices: list[int] = []
        self.matrix: list[Any] = []
        for step in far:
            matrices = [(tile.batch or (1, 1))[side]]
            self.matrix, offset = [FloorDiv(offset, step)], FloorMod(offset, step)
        places: tuple[Any, Any] = (FloorDiv(offset, row), FloorMod(offset, row))
        self.start, self.begin = places if self.along else reversed(places)
        if side and tile.joined > 1:
            self.start = self.start - rank * tile.columns
        dims = (inner, outer) if self.along else (outer, inner)
        self.box = (tile.step, self.lines // self.copiers if self.along else tile.step)
        whole = (const(0, tile.dtype), array.data, 0, 1, 1)
        pointer = Call("handle", "tir.tvm_access_ptr", whole)
        strides = [x * tile.nbytes for x in (row, *far)]
        box = (*self.box, *(1 for _ in far))
        self.map = H.tensor_map(pointer, (*dims, *matrices), strides, box, SPAN)
        self.size = self.lines * tile.step  # elements of a stage
        self.stages = decl_buffer(
            (tile.stages * self.size,), tile.dtype, f"{'AB'[side]}_stages", None, None, None,
            "shared", ATOM,
        )  # fmt: skip

    def pointer(self, at: Any, count: int, access: int) -> Call:
        """Elements of the stages."""
        args = (const(0, self.tile.dtype), self.stages.data, at, count, access)
        return Call("handle", "tir.tvm_access_ptr", args)

    def copies(self, step: Any, stage: Any) -> list[Stmt]:
        """What brings a step of the reduction to a stage."""
        step_k = step * self.tile.step
        if self.tile.parts > 1:
            step_k = self.begin + step_k
        made: list[Stmt] = []
        each = self.box[0] * self.box[1]
        count = self.size // each // self.copiers
        mask = None if self.copiers == 1 else (1 << self.copiers) - 1
        for n in range(count):
            part: Any = n if mask is None else self.rank * count + n
            to = self.pointer(stage * self.size + part * each, each, 2)
            line = self.start + part * self.box[self.along]
            place: Any = (step_k, line) if self.along else (line, step_k)
            place = (*place, *self.matrix)
            copy = H.ptx_cp_async_bulk_tensor(self.tile.dtype, to, self.map, place, stage, mask)
            made.append(Evaluate(copy))
        return made

    def descriptor(self, first: Any) -> Call:
        """Of lines from `first` on, in the first stage."""
        row = self.tile.step  # elements of a row in shared memory
        # a box is 64 lines wide where its rows are steps of the reduction
        leading = _UNUSED if self.along else row * SPAN
        return H.ptx_wgmma_descriptor(self.pointer(first * row, 1, 1), leading, ATOM, SPAN)

    def moved(self, descriptor: Any, stage: Any, depth: int) -> Any:
        """The descriptor of the part for one instruction, `depth` instructions into the step of a
        stage: its address counts 16 bytes."""
        rows = 1 if self.along else self.tile.step  # a row has part of a line, or steps are rows
        at = self.tile.depth * depth * rows * self.tile.nbytes // _UNIT
        more = stage * (self.size * self.tile.nbytes // _UNIT) + at
        return descriptor + cast("uint64", more)


class _Step(NamedTuple):
    """A step of the reduction, its stage, and the parity of the turn that this has."""

    k: Any
    stage: Any
    turn: Any

    def before(self, stages: int) -> Any:
        """The stage of the step before."""
        return FloorMod(self.stage + (stages - 1), const(stages))


class _Body:
    """The statements of a tile."""

    def __init__(self, tile: WarpGroupTile, a: Buffer, b: Buffer, c: Buffer) -> None:
        self.tile, self.out = tile, c
        self.rank = Var("rank", "int32")
        self.sides = (_Operand(tile, a, 0, self.rank), _Operand(tile, b, 1, self.rank))
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
            own = [free(at.before(stages), And(arrives, at.k > 0))] if again else []
            return seq(self.multiply(at, again), *own)

        # the stage of the last step, for the next tile
        last = [free(const((self.steps - 1) % stages), arrives)] if self.tile.persistent else []
        copying = IfThenElse(self.thread.equal(threads), self.rounds("k_copied", copy))
        own = seq(self.products("k", step), *last, *self.given())
        sides = IfThenElse(self.thread >= threads, copying, own)
        return seq(
            *self.barriers([1] * stages + [blocks * threads // 32] * stages * again),
            AttrStmt(const(0), "warp_specialized", const(threads), sides),
            *([self.meet()] if blocks > 1 else []),  # before a block ends that others reach
            *self.joined(),
        )

    # -- sums of parts of the reduction, of the blocks of a cluster

    def place(self, quad: Any) -> Any:
        """Of four registers of this thread in the memory that blocks exchange them in."""
        return (quad * self.tile.threads + self.thread) * 4

    def given(self) -> list[Stmt]:
        """What lets other blocks read the sums of this thread."""
        if self.exchange is None:
            return []
        kind = f"{SUMS[self.tile.dtype]}x4"
        lead = [0] * (len(self.out.shape) - 2)
        made = []
        for n in range(self.tile.wide // 8):
            value = self.out.vload([*lead, 0, 4 * n], kind)
            made.append(vstore(self.exchange, [self.place(const(n))], value))
        return made

    def joined(self) -> list[Stmt]:
        """The sums of this block's columns: those of all blocks, always in the same order."""
        if self.exchange is None:
            return []
        kind = f"{SUMS[self.tile.dtype]}x4"
        lead = [0] * (len(self.out.shape) - 2)
        made = []
        quads = self.tile.columns // 8
        for n in range(quads):
            at = self.place(self.rank * quads + n)
            args = (const(0, SUMS[self.tile.dtype]), self.exchange.data, at, 4, 1)
            pointer = Call("handle", "tir.tvm_access_ptr", args)
            total: Any = H.ptx_cluster_load(kind, pointer, 0)
            for block in range(1, self.tile.joined):
                total = total + H.ptx_cluster_load(kind, pointer, block)
            made.append(vstore(self.out, [*lead, 0, 4 * n], total))
        sync = Evaluate(H.ptx_cluster_sync())
        return [sync, IfThenElse(self.thread < self.tile.threads, seq(made)), sync]

    # -- steps

    def rounds(self, name: str, step: Callable[[_Step], Stmt]) -> Stmt:
        """A loop over all steps, of which the device's compiler writes out as many as there are
        stages: so the numbers of these are constants."""
        stages = self.stages
        turn, stage = Var(f"{name}_turn", "int32"), Var(f"{name}_stage", "int32")
        turns, rest = -(-self.steps // stages), self.steps % stages
        filled: Any = turn
        if self.tile.persistent:  # tiles before have filled a stage as often as this one does
            each = turns - cast("int32", stage >= rest) if rest else const(turns)
            filled = H.persistent_turn() * each + turn
        at = _Step(turn * stages + stage, stage, FloorMod(filled, const(2)))
        body = step(at)
        if rest:
            body = IfThenElse(at.k < self.steps, body)
        once = For(stage, 0, stages, ForKind.UNROLLED, body)
        marked = AttrStmt(stage, "pragma_unroll_explicit", const(0), once)
        return For(turn, 0, turns, ForKind.SERIAL, marked, annotations={UNROLL_BY: const(1)})

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
        add = const(1) if depth else cast("int32", at.k > 0)
        return Evaluate(
            H.ptx_wgmma(
                SUMS[self.tile.dtype], f"m64n{self.tile.wide}k{self.tile.depth}",
                _TYPES[self.tile.dtype], self.out.data, 0, a, b, add, *flips,
            )
        )  # fmt: skip
