"""Scaled dot-product attention in one kernel (CUDA).

Rows of queries that share keys and values are cut into tiles, of 64 as a rule, each a block's: its
warps have 16 rows each. Keys and values come in tiles (attention_plan.py), the next one while this
one is computed with; of a tile a warp makes its scores in registers, what the computation does to
scores element by element (scale, mask), the largest of each row (the threads that have a row's
parts shuffle), and powers less that. The sums of weighed values, and of powers, are scaled whenever
the largest becomes another (online softmax; Milakov and Gimelshein: Online normalizer calculation
for softmax, 2018), so no score is ever in memory (Dao: FlashAttention-2, 2023). Both products are
those of tensor cores (attention_fragments.py), or, of float32, of each thread (attention_lanes.py).

Tiles of which no row of a block takes anything (`Sizes.window`: later keys, as a rule) are left
out. Where blocks are few, each has a part of the keys only, and one more kernel joins what they
leave (Dao et al.: Flash-Decoding for long-context inference, 2023). Beyond the last key scores are
-infinity, and values zeros; beyond the last row the last one is computed again, and not stored. It
is an external operation with loops of its own, since no schedule keeps fragments between two
products; barriers and waits are put in as for any kernel. Two tiles have arrays of their own, so
that one barrier a tile is enough; where shared memory has room for one only, the next keys come
during the second product, values during the first, and there are two barriers a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...loopir import op as O
from ...loopir.buffer import Buffer
from ...loopir.expr import Var, const, const_int
from ...loopir.iter import ProducerLoad
from ...loopir.stmt import Allocate, AttrStmt, For, ForKind, IfThenElse, Stmt, seq
from ...tensor.axes import thread_axis
from ...tensor.compute import placeholder
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from ..schedules.gpu.machine import MOST_BLOCKS
from .attention_ends import digits_of
from .attention_fragments import Fragments
from .attention_lanes import Lanes
from .attention_plan import BLOCKS, Plan, parts_of, seen_tiles
from .attention_scores import Powers, Reads, separated, tensors_read
from .attention_tiles import Copy, Tiles
from .softmax import least
from .warp_registers import LANES, SUMS

Element = Callable[[Sequence[Any], Any, Any], Any]


class Kernel:
    """The statements of the kernel. `inputs`: tensors that it reads, but the scores."""

    def __init__(
        self,
        plan: Plan,
        sides: Sequence[Element],
        score: Callable[[Tensor], Tensor],
        finish: Callable[[Any, Any], Any],
    ) -> None:
        self.plan, self.sides, self.finish = plan, sides, finish
        self.sizes = sizes = plan.sizes
        self.count = prod(sizes.rows)
        self.scores = placeholder((*sizes.batch, *sizes.rows, sizes.keys), SUMS, "T_scores")
        self.seen = score(self.scores)
        self.inputs = tensors_read(self._elements(), self.scores)
        self.parts = parts_of(plan)
        self._make_grid()
        self.places = digits_of(self.batch, sizes.batch)
        self.begin, self.end = self._seen_tiles()

    def _make_grid(self) -> None:
        """A block has a `tile` of a `run` of rows: all of a batch are one, or, where they see
        different keys, those that follow each other."""
        plan, sizes, last = self.plan, self.sizes, self.sizes.rows[-1]
        apart = sizes.window is not None and -(-last // plan.rows) * plan.rows < 2 * last
        self.length = last if apart else self.count
        runs, tiles = self.count // self.length, -(-self.length // plan.rows)
        blocks, batches = runs * tiles, prod(sizes.batch)
        many = batches > MOST_BLOCKS
        self.axes = [
            thread_axis((0, blocks * batches if many else blocks), "blockIdx.x"),
            thread_axis((0, 1 if many else batches), "blockIdx.y"),
            thread_axis((0, self.parts), "blockIdx.z"),
            thread_axis((0, plan.warps), "threadIdx.y"),
            thread_axis((0, LANES), "threadIdx.x"),
        ]
        block, batch, self.part, self.warp, self.lane = (a.var for a in self.axes)
        self.batch = O.indexdiv(block, blocks) if many else batch
        at = O.indexmod(block, blocks) if many else block
        # runs, which read the same keys, side by side
        self.run = O.indexmod(at, runs) if runs > 1 else const(0)
        self.tile = O.indexdiv(at, runs) if runs > 1 else at
        if sizes.window is not None and sizes.window[1] < sizes.keys:
            # the rows that see most keys begin first: at the end none is left with all of them
            self.tile = tiles - 1 - self.tile

    def _elements(self) -> list[Any]:
        """Some element of all that is read, as expressions."""
        n, zero = len(self.sizes.batch), const(0)
        outer = [zero] * (n + len(self.sizes.rows) - 1)
        query, key, value = self.sides
        some = [query(outer, zero, zero), *(of(outer[:n], zero, zero) for of in (key, value))]
        return [*some, ProducerLoad(self.seen, [zero] * self.seen.ndim)]

    # -- the whole

    def body(self, ins: Sequence[Buffer], end: Callable[[], list[Stmt]]) -> Stmt:
        """`end`: what becomes of a block's sums."""
        plan, sizes = self.plan, self.sizes
        self.reads = Reads(self.scores, dict(zip(self.inputs, ins)))
        self.tiles = Tiles(plan, self.warp * LANES + self.lane, self.reads)
        stages = range(min(plan.tiles, plan.stages))
        keys = [self.tiles.buffer(f"keys_{n}", plan.keys, plan.deep) for n in stages]
        values = [self.tiles.buffer(f"values_{n}", plan.keys, plan.wide) for n in stages]
        aside = plan.in_place_of_keys
        q = keys[1] if aside else self.tiles.buffer("queries", plan.rows, plan.deep)
        core = self.core = self._core()
        r = self.registers = core.registers
        whole = seq(
            self.tiles.copy(q, sizes.size, self._query),
            *self._first_tiles(keys, values),
            *r.zeros("o"),
            *(r.store("most", h, const(float("-inf"), SUMS)) for h in range(core.count)),
            *(r.store("total", h, const(0, SUMS)) for h in range(core.count)),
            *core.hold(q),
            self._steps(q, keys, values),
            *end(),
        )
        ahead = [] if self.tiles.ahead is None else [self.tiles.ahead]
        for b in dict.fromkeys((q, *keys, *values, *core.shared, *ahead, *r.buffers.values())):
            whole = Allocate(b, whole)
        blocks = self._blocks()
        if blocks is not None:
            whole = AttrStmt(const(0), "pragma_launch_bounds_min_blocks", const(blocks), whole)
        for axis in reversed(self.axes):
            whole = AttrStmt(axis, "thread_extent", domain(axis).extent, whole)
        return whole

    def _core(self) -> Fragments | Lanes:
        return (Fragments if self.plan.cores else Lanes)(self.plan, self.warp, self.lane)

    def _first_tiles(self, keys: list[Buffer], values: list[Buffer]) -> list[Stmt]:
        """What brings the tiles that all others follow."""
        first = [self._load_keys(keys[0], self.begin)]
        first += [self._load_values(values[0], self.begin)] if len(keys) > 1 else []
        return [s for copy in first for s in copy if s is not None]

    def _blocks(self) -> int | None:
        """How many the device's compiler shall leave room for at once, where it is told: not
        knowing how long the loop is, it would spill, to come to 128 registers."""
        return BLOCKS if self._turns() is None else None

    def _seen_tiles(self) -> tuple[Any, Any]:
        """The first and the end of the tiles of keys that any row of a block takes something of."""
        plan, window, rows, at = self.plan, self.sizes.window, self.sizes.rows, self._first_row()
        begin, end = const(0), const(plan.tiles)
        if window is not None and at is not None:
            low, high = window
            if low > 1 - rows[-1]:
                begin = O.indexdiv(O.max(at + low, 0), plan.keys)
            if high < self.sizes.keys:
                last = O.indexdiv(at + (plan.rows - 1 + high + plan.keys - 1), plan.keys)
                end = O.min(last, plan.tiles)
        if self.parts == 1:
            return begin, end
        each = self._of_part()
        begin = begin + self.part * each
        if window is None and plan.tiles % each == 0:
            return begin, begin + each
        end = O.min(begin + each, end)
        if window is None:
            return begin, end
        # parts may have none, of rows that see fewer keys: their first tile is one that there is,
        # and no more of them begin for that
        most = plan.tiles - 1
        return O.min(begin, most), end - O.max(begin - most, 0)

    def _of_part(self) -> int:
        """Tiles of a part of the keys."""
        each = -(-seen_tiles(self.plan) // self.parts)
        return min(each * (self.plan.part_keys // self.plan.keys), self.plan.tiles)

    def _first_row(self) -> Any:
        """Where the rows of a block begin; None where they may be of two runs."""
        alike = self.length == self.sizes.rows[-1]
        return self.tile * self.plan.rows if alike else None

    def _turns(self) -> int | None:
        """How many tiles a block has, where all have as many."""
        if self.parts > 1 and self.sizes.window is None:
            each = self._of_part()
            return None if self.plan.tiles % each else each
        return const_int(self.end - self.begin)

    def _steps(self, q: Buffer, keys: list[Buffer], values: list[Buffer]) -> Stmt:
        """All tiles of keys."""
        if len(keys) > 1:
            return self._two_a_turn(keys, values, q)
        turn = Var("turn", "int32")
        count = self._turns()
        step = self.begin + turn
        own, ahead = self._load_values(values[0], step), self._load_keys(keys[0], step + 1)

        def later(s: Stmt | None) -> list[Stmt]:
            return [] if s is None or count == 1 else [IfThenElse(step + 1 < self.end, s)]

        body = seq(
            own.begin,
            *self._first(q, keys[0], step),
            *([] if own.end is None else [own.end]),
            *later(ahead.begin),
            *self.core.weigh(values[0]),
            *later(ahead.end),
        )
        return For(turn, 0, self.end - self.begin if count is None else count, ForKind.SERIAL, body)

    def _two_a_turn(self, keys: list[Buffer], values: list[Buffer], q: Buffer) -> Stmt:
        count = self._turns()
        odd = count is None or count % 2
        turn = Var("turn", "int32")
        halves = []
        for n in (0, 1):
            step = self.begin + turn * 2 + n
            to = keys[1 - n], values[1 - n]
            ahead = seq(self._load_keys(to[0], step + 1)[0], self._load_values(to[1], step + 1)[0])
            if n or odd:
                ahead = IfThenElse(step + 1 < self.end, ahead)
            half = seq(ahead, *self._first(q, keys[n], step), *self.core.weigh(values[n]))
            halves.append(IfThenElse(step < self.end, half) if n and odd else half)
        turns = O.indexdiv((self.end - self.begin if count is None else count) + 1, 2)
        return For(turn, 0, turns, ForKind.SERIAL, seq(*halves))

    # -- tiles in shared memory

    def _query(self, row: Any, d: Any) -> Any:
        *rest, last = digits_of(self.row(row), self.sizes.rows)
        return self.sides[0]([*self.places, *rest], last, d)

    def row(self, row: Any) -> Any:
        """The number of a row of the block among all that share keys; of one beyond the end, of the
        last."""
        at = self.tile * self.plan.rows + row
        last = self.length - 1
        return self.run * self.length + (O.min(at, last) if self.length % self.plan.rows else at)

    def is_row(self, row: Any) -> Any:
        """Whether a row of the block is none beyond the end; None where all are."""
        at = self.tile * self.plan.rows + row
        return at < self.length if self.length % self.plan.rows else None

    def _load_keys(self, to: Buffer, step: Any) -> Copy:
        return self._load(to, self.sizes.size, 1, step)

    def _load_values(self, to: Buffer, step: Any) -> Copy:
        return self._load(to, self.sizes.last, 2, step)

    def _load(self, to: Buffer, size: int, side: int, step: Any) -> Copy:
        """Only the last tile, where it has fewer rows, is compared with their number: with one copy
        of the code for both, ptxas keeps more conditions than registers have room for."""
        last, rest = divmod(self.sizes.keys, self.plan.keys)

        def filled(fill: Callable[[Any], Stmt]) -> Stmt:
            if not (rest and last):
                return fill(self._of_keys(side, step, not rest))
            cases = (fill(self._of_keys(side, step, whole)) for whole in (True, False))
            return IfThenElse(step < last, *cases)

        return self.tiles.begun(to, size, filled)

    def _of_keys(self, n: int, step: Any, whole: bool) -> Callable[[Any, Any], Any]:
        def element(row: Any, d: Any) -> Any:
            t = step * self.plan.keys + row
            value = self.sides[n](self.places, t, d)
            none = const(0, self.plan.dtype)
            return value if whole else O.if_then_else(t < self.sizes.keys, value, none)

        return element

    # -- a tile of keys

    def _first(self, q: Buffer, keys: Buffer, step: Any) -> list[Stmt]:
        """From the first product to powers."""
        made = self.core.scores(q, keys)
        scored, self.powers = self._scored(step)
        softmax = [*self._softmax(self.powers), *self._scaled_sums()]
        return [*made, *scored, *softmax, *self.core.keep_powers()]

    def _scored(self, step: Any) -> tuple[list[Stmt], Powers]:
        """What the softmax is taken of, and how. Only tiles at an edge of what is seen are compared
        with it."""
        made, edge, r = [], [], self.registers
        none = const(float("-inf"), SUMS)
        beyond_end = self.sizes.keys % self.plan.keys > 0
        for at in range(self._elements_of("s")):
            t = step * self.plan.keys + self.core.key(at)
            score = self.reads.value = r.load("s", at)
            row = self.core.row(self.core.half("s", at))
            digits = digits_of(self.row(row), self.sizes.rows)
            read = ProducerLoad(self.seen, [*self.places, *digits, t])
            powers, value = separated(self.reads.expr(read), score)
            beyond = beyond_end
            if value is not score:
                if beyond:  # where there is nothing to read
                    value, beyond = O.if_then_else(t < self.sizes.keys, value, none), False
                made.append(r.store("s", at, value))
            seen = self.sizes.seen(score, t - digits[-1])
            seen = O.if_then_else(t < self.sizes.keys, seen, none) if beyond else seen
            if seen is not score:
                edge.append(r.store("s", at, seen))
        if edge:
            condition = self._at_edge(step)
            whole = seq(*edge)
            made.append(whole if condition is None else IfThenElse(condition, whole))
        return made, powers

    def _elements_of(self, name: str) -> int:
        return int(self.registers.buffers[name].shape[0])

    def _at_edge(self, step: Any) -> Any:
        """Whether some row of a block does not take all keys of a tile; None where any tile may be
        such."""
        plan, sizes, at = self.plan, self.sizes, self._first_row()
        bounds = [step >= sizes.keys // plan.keys] if sizes.keys % plan.keys else []
        if sizes.window is not None and sizes.cut:
            if at is None:
                return None
            low, high = sizes.window
            away = step * plan.keys - at
            bounds += [away + (plan.keys - 1) >= high] if high < sizes.keys else []
            bounds += [away - (plan.rows - 1) < low] if low > 1 - sizes.rows[-1] else []
        return O.any(*bounds)

    def _softmax(self, powers: Powers) -> list[Stmt]:
        core, r = self.core, self.registers
        made: list[Stmt] = []
        for h in range(core.count):
            own = [at for at in range(self._elements_of("s")) if core.half("s", at) == h]
            most = r.load("most", h)
            for at in own:
                most = O.max(most, r.load("s", at))
                made.append(r.store("larger", h, most))
                most = r.load("larger", h)
            made += core.of_row("larger", h, O.max)
            larger = r.load("larger", h)
            base = least(larger)
            made.append(r.store("scale", h, powers.of(r.load("most", h), base)))
            made.append(r.store("most", h, larger))
            made.append(r.store("total", h, r.load("total", h) * r.load("scale", h)))
            for at in own:
                power = powers.of(r.load("s", at), least(r.load("most", h)))
                made.append(r.store("s", at, power))
                total = r.load("total", h) + r.load("s", at)
                made.append(r.store("total", h, total))
        return made

    def _scaled_sums(self) -> list[Stmt]:
        """Sums of values that were weighed before, of the largest score that there is now."""
        r, half = self.registers, self.core.half
        return [
            r.store("o", at, r.load("o", at) * r.load("scale", half("o", at)))
            for at in range(self._elements_of("o"))
        ]
