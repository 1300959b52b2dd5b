"""What default schedules ask of a target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ...arith import Analyzer
from ...base.dtype import parse
from ...loopir.expr import const, const_int
from ...loopir.iter import IterVar
from ...loopir.subst import substitute
from ...schedule.api import Stage
from ...target.dots import Dot
from ...target.target import Target
from ...tensor.tensor import Tensor
from .decisions import Decisions, Value


@dataclass(frozen=True)
class Machine:
    """Vector width in bytes, number of vector registers and bytes of the caches of one core, the
    number of cores, the instructions that add up products of neighbours, whether products are
    added by the instruction that multiplies, and bytes a cycle that come from the first- and the
    second-level cache; and who decides what these leave open."""

    vector_bytes: int
    registers: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 256 << 10
    cores: int = 4
    decisions: Decisions = field(default_factory=Decisions, compare=False, repr=False)
    dots: tuple[Dot, ...] = ()
    fused: bool = True
    load_rates: tuple[int, int] = (32, 64)
    way_bytes: int = 4096  # of the first-level cache

    def choose(self, operation: str, question: str, options: Iterable[Sequence[int]]) -> Value:
        """One of some options, best first (see Decisions)."""
        return self.decisions.choose(operation, question, options)

    def lanes(self, dtype: str) -> int:
        """Elements of a full vector."""
        return max(1, self.vector_bytes // parse(dtype).nbytes)

    def longest(self, pieces: int) -> float:
        """How many times as long as all threads on average the busiest one works, on so many equal
        pieces."""
        return -(-pieces // self.cores) * self.cores / pieces if pieces else 1.0

    @property
    def working(self) -> int:
        """Registers for sums and what they are made of: a product that a second instruction adds
        takes one."""
        return self.registers if self.fused else self.registers - 1

    @property
    def afar(self) -> float:
        """What a load from the second-level cache costs, in loads from the first, where there are
        many."""
        near, far = self.load_rates
        return max(1.0, near / far)

    @property
    def embeds(self) -> bool:
        """Whether an element of memory for all lanes may be an operand of an instruction: in
        AVX-512."""
        return self.vector_bytes == 64

    @property
    def copies(self) -> bool:
        """Whether an instruction's result takes the place of an operand, so that each product
        begins with a load or a copy: before AVX."""
        return self.vector_bytes == 16 and not self.fused

    @staticmethod
    def of(target: Target | None, decisions: Decisions | None = None) -> Machine:
        decisions = Decisions() if decisions is None else decisions
        if target is None or target.kind.name not in ("llvm", "c"):
            return Machine(16, 16, decisions=decisions)
        return Machine(
            target.vector_bytes,
            target.num_vector_registers,
            target.l1_cache_bytes,
            target.l2_cache_bytes,
            target.num_cores,
            decisions,
            target.dots if target.kind.name == "llvm" else (),
            target.has_fma,
            target.load_rates,
            target.l1_way_bytes,
        )


_LIKELY: ContextVar[Mapping[Any, int] | None] = ContextVar("likely", default=None)


@contextmanager
def likely_sizes(values: Mapping[Any, int]) -> Iterator[None]:
    """Schedules made within are for these values of variables of shapes: right for others too,
    since an axis is cut by constants alone, and as fast as they are near. Arguments of such shapes
    have to be compact: buffers that say so are bound to them."""
    token = _LIKELY.set({**(_LIKELY.get() or {}), **values})
    try:
        yield
    finally:
        _LIKELY.reset(token)


def are_sizes_likely() -> bool:
    """Whether a schedule is made within `likely_sizes`, so that arguments of open shapes are
    compact."""
    return _LIKELY.get() is not None


def size_of(extent: Any) -> int:
    """An extent, or its likely value; 0 where neither is known."""
    known = const_int(extent)
    values = _LIKELY.get()
    if known is None and values:
        table = {v: const(n, v.dtype) for v, n in values.items()}
        known = const_int(Analyzer().simplify(substitute(extent, table)))
    return known or 0


def extent_of(axis: Any) -> int:
    """The extent of a root axis, or a likely one; 0 where neither is known."""
    return size_of(axis.dom.extent)


def known_extent(axis: Any) -> int | None:
    """The extent of a root axis; None where it is not known, whatever is likely: what alignment
    follows from."""
    return const_int(axis.dom.extent)


def extents_of(op: Any) -> list[Any]:
    """The extents of an operation's axes: numbers, and expressions where they are not known."""
    return [const_int(a.dom.extent) or a.dom.extent for a in op.axis]


def size_of_axes(axes: Iterable[Any]) -> int:
    """How many places root axes have together; 0 where that is not known."""
    return prod(map(extent_of, axes))


FMA_CHAINS = 8  # latency (4) times FMAs a cycle (2)
LINE = 64  # bytes of a line of a cache
SPARE_WAYS = 2  # for what a kernel reads beside
LIKELY_ROWS = 128  # where their number is not known
UNEVEN = 1.25  # times as long as the others that the busiest thread may work
PIECES = 2  # for each core, that threads share evenly
ROW_PARTS = 16  # of an image, that threads share
PARALLEL_PRODUCTS = 1 << 18  # multiplications; fewer take less time than waking threads
PARALLEL_STEPS = 1 << 15  # elements read
FEW_ROWS = 20  # of a product: that many uses of each element of a side pay for a copy of it
UNSURE = 8  # times as much or as little work: threads may pay, or not


def work_of(t: Tensor) -> int:
    """Elements of a tensor times steps of its reduction; 0 where that is not known."""
    work = 1
    for axis in (*getattr(t.op, "axis", ()), *getattr(t.op, "reduce_axis", ())):
        work *= extent_of(axis)
    return work


def parallel_if(stage: Stage, axis: IterVar, work: int, least: int, machine: Machine) -> bool:
    """Run a loop on all threads where there is work for them, or where it is not known; whether
    it is."""
    pays = not work or work >= least
    if least // UNSURE <= work <= least * UNSURE:
        (pays,) = map(bool, machine.choose(stage.op.name, "threads", [(pays,), (not pays,)]))
    if pays:
        stage.parallel(axis)
    return pays


def ask_ahead(stage: Stage, axis: IterVar, weights: Tensor, alike: int, machine: Machine) -> None:
    """Let the sums of one panel of weights, or of a part of it, ask for the next while they last,
    where weights come from further than the caches of a core: the first tile of rows would wait
    for all of it. `alike` steps of the axis in a row have the same panel."""
    if bytes_of(weights) > machine.l2_bytes:
        stage.prefetch(weights, axis, alike)
        stage.pragma(axis, "prefetch_evenly", alike)


def nearby(first: int, *others: int, least: int = 1, most: int | None = None) -> list[Value]:
    """Options of one number: the first, and what of the others lies within limits."""
    fit = [n for n in others if n >= least and (most is None or n <= most)]
    return [(n,) for n in (first, *fit)]


def bytes_of(t: Tensor) -> int:
    """The bytes of a tensor; 0 where a size is not known."""
    return prod(map(size_of, t.shape)) * parse(t.dtype).nbytes


def even(n: int, most: int) -> int:
    """The size of equal parts (but for the last) of n, at most `most`; 1 where there is nothing."""
    return -(-n // -(-n // most)) if n else 1


def whole_vectors(extent: int, lanes: int) -> int:
    """Elements of the widest vectors, of `lanes` or halves of them, that fill an extent."""
    while extent % lanes:
        lanes //= 2
    return lanes


def largest_divisor(n: int, limit: int) -> int:
    """The largest divisor of n that is at most `limit` (1 for n = 0)."""
    return next((d for d in range(min(n, limit), 0, -1) if n % d == 0), 1)
