"""What default schedules ask of a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ....arith import Analyzer
from ....base.dtype import parse
from ....loopir.equal import structural_equal
from ....loopir.expr import const_int
from ....loopir.iter import IterVar
from ....schedule.api import Stage
from ....schedule.relations import pass_down_extents
from ....target.target import Target
from ....tensor.axes import thread_axis
from ....tensor.op import domain
from ....tensor.tensor import Tensor
from ..constants import Constants
from ..decisions import Decisions, Value
from ..machine import extent_of, known_extent

LEAST_SIDE = 5  # filters, and pixels, of a convolution that is computed as a product
VECTOR_BYTES = 16  # a load of 128 bits is the widest on CUDA and Mali alike

MOST_STAGES = 4  # of a pipeline
_PROCESSORS = 96  # where nothing is known of them: most GPUs have 40 to 144
_HALVES = 2  # stages where copies go through registers: one step has the time of its products
_OTHER = 64  # registers of a thread for addresses, and for fragments on their way
_KEPT = 1 << 10  # bytes of shared memory that the system keeps of each block
# bytes a clock of the second-level cache, and of its port to a multiprocessor (A100 architecture;
# H100's paper has no other numbers)
CACHE, PORT = 5120, 64
LAUNCH = 3400  # clocks from kernel to kernel: 2 us
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # parts of a reduction to choose from


@dataclass(frozen=True)
class GpuMachine:
    """Threads of a block to plan for, threads in lock step, whether shared memory is on chip (on
    Mali it is not, and copying to it gains nothing), and whether the device's compiler unrolls
    loops that are marked. `shared_bytes`: of a block; `asynchronous`: whether copies to it need no
    thread to wait; `products`: types of operands and sums that tensor cores have; `warp_groups`:
    threads that a block may have where there are wgmma and TMA, 0 elsewhere; `processors`:
    multiprocessors, 0 where that is not known; `registers`: of a block; `thread_registers`: of a
    thread, of which `copying_registers` may hold what it copies; `decisions`: who decides what
    these leave open; `constants`: which inputs are."""

    threads: int
    warp: int
    shared: bool
    unrolls: bool
    shared_bytes: int = 0
    asynchronous: bool = False
    products: frozenset[tuple[str, str]] = frozenset()
    warp_groups: int = 0
    processors: int = 0
    registers: int = 1 << 16
    thread_registers: int = 0
    copying_registers: int = 0
    decisions: Decisions = field(default_factory=Decisions, compare=False, repr=False)
    constants: Constants = field(default_factory=Constants, compare=False, repr=False)

    def choose(self, operation: str, question: str, options: Iterable[Sequence[int]]) -> Value:
        """One of some options, best first (see Decisions)."""
        return self.decisions.choose(operation, question, options)

    def ahead(self, t: Tensor) -> Tensor:
        """What is computed from a constant alone, once (see Constants)."""
        return self.constants.ahead(t)

    @property
    def filling(self) -> int:
        """Blocks that leave few multiprocessors without one."""
        return self.processors or _PROCESSORS

    def lanes(self, dtype: str) -> int:
        """Elements of the widest load."""
        return max(1, VECTOR_BYTES // parse(dtype).nbytes)

    @staticmethod
    def of(
        target: Target, decisions: Decisions | None = None, constants: Constants | None = None
    ) -> GpuMachine:
        most = int(target.attrs.get("max_threads_per_block", target.max_num_threads))
        shared = target.thread_warp_size > 1
        threads = min(256 if shared else 64, most)
        able = target.capabilities
        return GpuMachine(
            threads,
            target.thread_warp_size,
            shared,
            target.unrolls_marked_loops,
            target.max_shared_memory_per_block,
            able.async_copies,
            able.matrix_products if most >= 128 else frozenset(),
            most if able.warp_groups else 0,
            int(target.attrs.get("multi_processor_count", 0)),
            int(target.attrs.get("registers_per_block", 1 << 16)),
            able.num_vector_registers,
            able.copying_registers,
            Decisions() if decisions is None else decisions,
            Constants() if constants is None else constants,
        )

    def stages(self, nbytes: int, steps: int, threads: int, registers: tuple[int, int]) -> int:
        """Tiles of `nbytes` together to have under way in a loop of so many steps, so that two
        blocks have room. Where nothing copies by itself, each of the block's `threads` has what it
        copies in `registers`, the second number, beside its sums and fragments
        (lowering/fill_late.py)."""
        if steps == 1 or not self.has_registers(*registers):
            return 1
        taken = 0 if self.asynchronous else threads * (sum(registers) + _OTHER)
        blocks = 2 if 2 * taken <= self.registers else 1  # whatever they share
        return max(1, min(self.most_stages, self.room(blocks) // nbytes))

    def room(self, blocks: int) -> int:
        """Bytes of shared memory that each of so many blocks may have at once: a multiprocessor has
        what one block may have and what it keeps of each."""
        return (self.shared_bytes + _KEPT) // blocks - _KEPT

    def room_for(self, nbytes: int) -> int:
        """Blocks that have room at once where each has so many bytes of shared memory."""
        return max(1, (self.shared_bytes + _KEPT) // (nbytes + _KEPT))

    def has_registers(self, held: int, copied: int) -> bool:
        """Whether a thread that holds so many beside others has some for what it copies."""
        few = held + copied + _OTHER <= self.thread_registers and copied <= self.copying_registers
        return few or self.asynchronous

    @property
    def most_stages(self) -> int:
        """Of a pipeline."""
        return MOST_STAGES if self.asynchronous else _HALVES if self.shared else 1

    def unroll(self, stage: Stage, axis: IterVar) -> None:
        """Copies of a loop's body: made by the device's compiler where it does that, of source that
        is a tenth as long, else by ours."""
        stage.unroll(axis)
        if self.unrolls:
            stage.pragma(axis, "unroll_explicit", 0)


def cache_rate(blocks: int) -> float:
    """Bytes a clock that each of so many multiprocessors gets from the second-level cache."""
    return min(PORT, CACHE / blocks)


def joining_clocks(parts: int, nbytes: float) -> float:
    """Of what parts of a reduction cost that are kernels of their own: sums of so many bytes
    together are written for each, read again and added by one more kernel."""
    return LAUNCH + (2 * parts + 1) * nbytes / CACHE if parts > 1 else 0.0


def bind(stage: Stage, axis: IterVar, tag: str) -> None:
    """Bind a loop to the threads of a tag."""
    stage.bind(axis, thread_axis(tag))


LIKELY_ROWS = 512  # where their number is not known: some sequences of tokens, a batch of pixels


def planned(axis: IterVar) -> int:
    """An extent to plan a tile for: of one that is not known a likely one, and not fewer than are
    worth a GPU, since a tile too low reads the other operand again and again, and one too high
    computes at its edge for nothing, once."""
    known = known_extent(axis)
    return max(extent_of(axis), LIKELY_ROWS) if known is None else known


def planned_size(axes: Iterable[IterVar]) -> int:
    """How many places axes have together, as they are planned for."""
    return prod(map(planned, axes))


def same_extents(axes: Sequence[IterVar], others: Sequence[IterVar]) -> bool:
    """Whether axes are as many, and as long each, as others, whatever that is."""
    return len(axes) == len(others) and all(
        structural_equal(domain(a).extent, domain(b).extent) for a, b in zip(axes, others)
    )


MOST_BLOCKS = 65535  # of a grid along y and z


def bind_grid(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """Bind loops over blocks, the last to blockIdx.x, those before it to y and z; what these have
    too many blocks for, or may have, joins x, which is returned."""
    *others, x = axes
    kept: list[IterVar] = []
    joined: list[IterVar] = []
    for axis in others:
        extent = const_int(loop_extent(stage, axis))
        if extent is None:
            joined.append(axis)
            continue
        count = -(-extent // MOST_BLOCKS)
        if count > 1:
            part, axis = stage.split(axis, nparts=count)
            joined.append(part)
        kept.append(axis)
    if joined:
        stage.reorder(*kept, *joined, x)
        x = stage.fuse(*joined, x)
    for axis, tag in zip([x, *reversed(kept)], "xyz"):
        bind(stage, axis, f"blockIdx.{tag}")
    return x


MOST_IN_GROUP = 16  # rows of blocks that may follow each other down a column


def bind_blocks(
    stage: Stage,
    batch: Sequence[IterVar],
    by: IterVar,
    bx: IterVar,
    shape: tuple[int, int],
    machine: GpuMachine,
    tile: tuple[int, int] | None = None,
    cluster: tuple[int, int] = (1, 1),
) -> IterVar:
    """Bind the rows and columns of matrices of so many blocks (0: not known). Those of a row follow
    each other, or, if that is decided, those of a column in a group of rows: what both operands
    give to the blocks that run at a time is then less, and stays in the second-level cache. With a
    `tile`, its rows and columns, that is decided by what the blocks of all multiprocessors read.
    Blocks of a cluster, some below or beside each other, come first. The last loop over blocks."""
    rows, columns = (blocks // own for blocks, own in zip(shape, cluster))
    together: list[IterVar] = []
    if cluster[0] > 1:
        by, first = stage.split(by, factor=cluster[0])
        together = [first]
    elif cluster[1] > 1:
        bx, first = stage.split(bx, factor=cluster[1])
        together = [first]
    if tile and together:
        tile = (tile[0] * cluster[0], tile[1] * cluster[1])
    options = [g for g in groups_of(rows) if columns > 1]
    best = 1
    if tile and machine.processors:
        busy, shown = machine.processors // prod(cluster), (rows, columns)
        best = min((1, *options), key=lambda g: _read_at_once(g, shown, tile, busy))
    (group,) = machine.choose(stage.op.name, "group", [(best,), (1,), *((g,) for g in options)])
    if group > 1:
        by, near = stage.split(by, factor=group)
        stage.reorder(by, bx, near, *together)
        rows_of_blocks = [stage.fuse(by, bx, near, *together)]
    else:
        if together:
            stage.reorder(by, bx, *together)
        rows_of_blocks = [by, fused(stage, [bx, *together])]
    return bind_grid(stage, [*([fused(stage, [*batch])] if batch else []), *rows_of_blocks])


def groups_of(rows: int) -> list[int]:
    """How many rows of blocks a group may have, so that all have as many."""
    return [g for g in range(2, MOST_IN_GROUP + 1) if g < rows and rows % g == 0]


def _read_at_once(group: int, shape: tuple[int, int], tile: tuple[int, int], blocks: int) -> int:
    """Rows and columns of the operands that so many blocks read, one after another in groups."""
    groups = -(-blocks // (group * shape[1]))
    rows = min(groups * group, shape[0])
    columns = shape[1] if groups > 1 else -(-blocks // group)
    return rows * tile[0] + min(columns, shape[1]) * tile[1]


def bind_rows(stage: Stage, axis: IterVar, threads: int, dimension: str = "x") -> IterVar:
    """Split an axis over blocks and threads of one dimension; returns the threads' axis."""
    outer, inner = stage.split(axis, factor=threads)
    bind(stage, outer, f"blockIdx.{dimension}")
    bind(stage, inner, f"threadIdx.{dimension}")
    return inner


def loop_extent(stage: Stage, axis: IterVar) -> Any:
    """The extent of any loop of a stage."""
    roots = {a: domain(a).extent for a in stage.op.root_iter_vars()}
    return pass_down_extents(stage.relations, roots, Analyzer())[axis]


def steps_of(stage: Stage, axis: IterVar) -> int:
    """The extent of any loop of a stage; 0 where it is not known."""
    return const_int(loop_extent(stage, axis)) or 0


def fused(stage: Stage, axes: list[Any]) -> IterVar:
    """The axes as one."""
    return stage.fuse(*axes) if len(axes) != 1 else axes[0]
