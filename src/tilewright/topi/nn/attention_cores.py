"""Scaled dot-product attention on tensor cores, in one kernel (CUDA, from sm_80 on).

Rows of queries that share keys and values are cut into tiles of 64, each a block's: four warps have
16 rows each. Keys and values come in tiles of 64, by asynchronous copies, the next one while this
one is computed with; of a tile a warp makes its scores in the registers of mma's sums, what the
computation does to scores element by element (scale, mask), the largest of each row (four threads
have a row's parts, and shuffle), and powers less that. The sums of weighed values, and of powers,
are scaled whenever the largest becomes another (online softmax; Milakov and Gimelshein: Online
normalizer calculation for softmax, 2018). Powers, rounded to the operands' type, are an operand of
the second product as they lie in registers: the sums of m16n8 of two neighbouring instructions are
what one of m16n8k16 takes of its first operand (PTX ISA, "Matrix Fragments for mma.m16n8k16"), so
no score is ever in memory (Dao: FlashAttention-2, 2023).

Tiles of which no row of a block takes anything (`Sizes.window`: later keys, as a rule) are left
out. Where blocks are few, each has a part of the keys only, and one more kernel joins what they
leave (Dao et al.: Flash-Decoding for long-context inference, 2023). Beyond the last key scores are
-infinity, and values zeros; beyond the last row the last one is computed again, and not stored. It
is an external operation with loops of its own, since no schedule keeps fragments between two
products; barriers and waits are put in as for any kernel. Two tiles have arrays of their own, so
that one barrier a tile is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...base.dtype import parse
from ...loopir import op as O
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.construct import cast
from ...loopir.expr import Var, const, const_int
from ...loopir.iter import ProducerLoad
from ...loopir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    seq,
)
from ...target.target import Target
from ...tensor.axes import thread_axis
from ...tensor.compute import placeholder
from ...tensor.extern import extern
from ...tensor.op import domain
from ...tensor.tensor import Tensor
from .attention_ends import digits_of, joined_parts, partial_results, results
from .attention_plan import KEYS, ROWS, WARP_ROWS, parts_of, pitch_of
from .attention_scores import Powers, Reads, separated, tensors_read
from .softmax import least
from .warp_registers import LANES, PART, QUAD, SUMS, TILE, Registers

WARPS = ROWS // WARP_ROWS
_BANKS = 128  # bytes of all of them
_BLOCKS = 2  # at once on a processor: each thread may have all registers that it can name

Element = Callable[[Sequence[Any], Any, Any], Any]


def attention_on_cores(
    sizes: Any,
    sides: Sequence[Element],
    dtype: str,
    score: Callable[[Tensor], Tensor],
    finish: Callable[[Any, Any], Any],
    order: Sequence[int],
) -> Tensor:
    """As `attention`, where that is made so. `sides`: queries, keys and values. `finish` makes a
    result of a row's sum of powers and its weighed values: it is asked once a row, for 1, which
    the values are multiplied by; where that is 0, whatever they are is 0."""
    kernel = _Kernel(sizes, sides, dtype, score, finish)
    lead = (*sizes.batch, *sizes.rows, sizes.last)
    shape = tuple(lead[d] for d in order)
    result: Tensor
    if kernel.parts == 1:

        def whole(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            return kernel.body(ins, results(kernel, outs[0], order))

        result = extern([shape], kernel.inputs, whole, name="T_attention", dtype=[dtype])
        return result

    def of_parts(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return kernel.body(ins, partial_results(kernel, outs[0], outs[1]))

    def joined(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return joined_parts(kernel, ins[0], ins[1], outs[0], order)

    shapes = [(kernel.parts, prod(lead[:-1]), n) for n in (sizes.last, 2)]
    made = extern(shapes, kernel.inputs, of_parts, name="T_attended_parts", dtype=[SUMS] * 2)
    result = extern([shape], made, joined, name="T_attention", dtype=[dtype])
    return result


class _Kernel:
    """The statements of the kernel. `inputs`: tensors that it reads, but the scores."""

    def __init__(
        self,
        sizes: Any,
        sides: Sequence[Element],
        dtype: str,
        score: Callable[[Tensor], Tensor],
        finish: Callable[[Any, Any], Any],
    ) -> None:
        self.sizes, self.sides, self.dtype, self.finish = sizes, sides, dtype, finish
        self.count = prod(sizes.rows)
        self.scores = placeholder((*sizes.batch, *sizes.rows, sizes.keys), SUMS, "T_scores")
        self.seen = score(self.scores)
        self.inputs = tensors_read(self._elements(), self.scores)
        self.tiles = -(-sizes.keys // KEYS)
        self.deep, self.wide = (-(-n // TILE) for n in (sizes.size, sizes.last))
        self.parts = parts_of(sizes, Target.current(allow_none=True))
        self.axes = [
            thread_axis((0, -(-self.count // ROWS)), "blockIdx.x"),
            thread_axis((0, prod(sizes.batch)), "blockIdx.y"),
            thread_axis((0, self.parts), "blockIdx.z"),
            thread_axis((0, WARPS), "threadIdx.y"),
            thread_axis((0, LANES), "threadIdx.x"),
        ]
        self.block, self.batch, self.part, self.warp, self.lane = (a.var for a in self.axes)
        if sizes.window is not None and sizes.window[1] < sizes.keys:
            # the rows that see most keys begin first: at the end none is left with all of them
            self.block = -(-self.count // ROWS) - 1 - self.block
        self.places = digits_of(self.batch, sizes.batch)
        self.begin, self.end = self._seen_tiles()

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
        self.reads = Reads(self.scores, dict(zip(self.inputs, ins)))
        kept = range(min(self.tiles, 2))
        keys = [self._shared(f"keys_{n}", KEYS, self.deep) for n in kept]
        values = [self._shared(f"values_{n}", KEYS, self.wide) for n in kept]
        # queries are in registers before the second tile is fetched
        q = keys[1] if self.tiles > 1 else self._shared("queries", ROWS, self.deep)
        r = self.registers = Registers(
            self.dtype,
            self.lane,
            {
                "q": (self.deep * PART, self.dtype),
                "s": (KEYS // TILE * PART, SUMS),
                "p": (KEYS // TILE * PART, self.dtype),
                "o": (self.wide * PART, SUMS),
                "f": (PART, self.dtype),
                **dict.fromkeys(("most", "total", "larger", "scale"), (2, SUMS)),
            },
        )
        whole = seq(
            self._fill(q, ROWS, self.sizes.size, self._query),
            self._load_tile(keys[0], values[0], self.begin),
            *r.zeros("o", self.wide),
            *(r.store("most", h, const(float("-inf"), SUMS)) for h in (0, 1)),
            *(r.store("total", h, const(0, SUMS)) for h in (0, 1)),
            *(r.fetch("q", k * PART, q, self._first(k)) for k in range(self.deep)),
            self._steps(keys, values),
            *end(),
        )
        for b in dict.fromkeys((q, *keys, *values, *r.buffers.values())):
            whole = Allocate(b, whole)
        if self._turns() is None:
            # not knowing how long the loop is, ptxas would spill, to come to 128 registers
            whole = AttrStmt(const(0), "pragma_launch_bounds_min_blocks", const(_BLOCKS), whole)
        for axis in reversed(self.axes):
            whole = AttrStmt(axis, "thread_extent", domain(axis).extent, whole)
        return whole

    def _seen_tiles(self) -> tuple[Any, Any]:
        """The first and the end of the tiles of keys that any row of a block takes something of."""
        window, rows, at = self.sizes.window, self.sizes.rows, self._tile_of_rows()
        if self.parts > 1:
            each = -(-self.tiles // self.parts)
            begin, even = self.part * each, self.tiles % each == 0
            return begin, begin + each if even else O.min(begin + each, self.tiles)
        if window is None or at is None:
            return const(0), const(self.tiles)
        low, high = window
        begin = O.max(at + low // KEYS, 0) if low > 1 - rows[-1] else const(0)
        end = O.min(at + (ROWS - 1 + high + KEYS - 1) // KEYS, self.tiles)
        return begin, end if high < self.sizes.keys else const(self.tiles)

    def _tile_of_rows(self) -> Any:
        """Where the rows of a block stand, in tiles of keys; None where they may be of two runs."""
        assert ROWS == KEYS, "row 0 of a block stands at the beginning of a tile of keys"
        last = self.sizes.rows[-1]
        if self.count == last:
            return self.block
        return None if last % ROWS else O.indexmod(self.block, last // ROWS)

    def _turns(self) -> int | None:
        """How many tiles a block has, where all have as many."""
        each = -(-self.tiles // self.parts)
        if self.parts > 1:
            return None if self.tiles % each else each
        return const_int(self.end - self.begin)

    def _steps(self, keys: list[Buffer], values: list[Buffer]) -> Stmt:
        """All tiles of keys, two a turn."""
        if self.tiles == 1:
            return self._step(keys[0], values[0], self.begin)
        count = self._turns()
        odd = count is None or count % 2
        turn = Var("turn", "int32")
        halves = []
        for n in (0, 1):
            step = self.begin + turn * 2 + n
            ahead = self._load_tile(keys[1 - n], values[1 - n], step + 1)
            if n or odd:
                ahead = IfThenElse(step + 1 < self.end, ahead)
            half = seq(ahead, self._step(keys[n], values[n], step))
            halves.append(IfThenElse(step < self.end, half) if n and odd else half)
        turns = O.indexdiv((self.end - self.begin if count is None else count) + 1, 2)
        return For(turn, 0, turns, ForKind.SERIAL, seq(*halves))

    # -- tiles in shared memory

    def _shared(self, name: str, rows: int, tiles: int) -> Buffer:
        """Rows of so many fragments, an odd number of 16 bytes apart."""
        shape = (rows, pitch_of(tiles, self.dtype))
        return decl_buffer(shape, self.dtype, name, scope="shared", data_alignment=16)

    def _query(self, row: Any, d: Any) -> Any:
        *rest, last = digits_of(self.row(row), self.sizes.rows)
        return self.sides[0]([*self.places, *rest], last, d)

    def row(self, row: Any) -> Any:
        """The number of a row of the block among all that share keys; of one beyond the end, of the
        last."""
        at = self.block * ROWS + row
        return O.min(at, self.count - 1) if self.count % ROWS else at

    def _load_tile(self, keys: Buffer, values: Buffer, step: Any) -> Stmt:
        """Keys and values. Only the last tile, where it has fewer, is compared with their number:
        with one copy of the code for both, ptxas keeps more conditions than registers have room
        for."""
        sizes = self.sizes

        def filled(whole: bool) -> Stmt:
            key, value = (self._of_keys(n, step, whole) for n in (1, 2))
            one = self._fill(keys, KEYS, sizes.size, key)
            return seq(one, self._fill(values, KEYS, sizes.last, value))

        last, rest = divmod(sizes.keys, KEYS)
        if rest and last:
            return IfThenElse(step < last, filled(True), filled(False))
        return filled(not rest)

    def _of_keys(self, n: int, step: Any, whole: bool) -> Callable[[Any, Any], Any]:
        def element(row: Any, d: Any) -> Any:
            t = step * KEYS + row
            value = self.sides[n](self.places, t, d)
            none = const(0, self.dtype)
            return value if whole else O.if_then_else(t < self.sizes.keys, value, none)

        return element

    def _fill(self, to: Buffer, rows: int, size: int, element: Callable[[Any, Any], Any]) -> Stmt:
        """Copy rows, with zeros behind the last of their elements, in vectors that threads share
        out."""
        tiles, pitch = -(-size // TILE), int(to.shape[1])
        lanes = next(n for n in (8, 4, 2, 1) if size % n == 0)
        # what is between rows too, where those that are copied at once would meet in banks
        even = tiles * TILE * parse(self.dtype).nbytes % _BANKS == 0
        row_vectors = (tiles * TILE if even else pitch) // lanes
        threads = WARPS * LANES
        number = self.warp * LANES + self.lane
        made: list[Stmt] = []
        for first in range(0, rows * row_vectors, threads):
            at = number + first
            row, column = O.indexdiv(at, row_vectors), O.indexmod(at, row_vectors) * lanes
            lane = Var("lane", "int32")
            value = self.reads.expr(element(row, column + lane))
            if row_vectors * lanes > size:
                value = O.if_then_else(column < size, value, const(0, self.dtype))
            kind = ForKind.VECTORIZED if lanes > 1 else ForKind.SERIAL
            store: Stmt = BufferStore(to, value, [row, column + lane])
            store = For(lane, 0, lanes, kind, store)
            if rows * row_vectors % threads and first + threads > rows * row_vectors:
                store = IfThenElse(at < rows * row_vectors, store)
            made.append(store)
        return AttrStmt(const(0), "pragma_async_scope", const(1), seq(*made))

    def _first(self, k: int) -> tuple[Any, Any]:
        """Where a thread's address for its warp's rows of queries is."""
        row = self.warp * WARP_ROWS + self.lane % TILE
        return row, O.indexdiv(self.lane, TILE) * 8 + k * TILE

    # -- a tile of keys

    def _step(self, keys: Buffer, values: Buffer, step: Any) -> Stmt:
        tiles, r = KEYS // TILE, self.registers
        low, high = self.lane % 8 + O.indexdiv(self.lane, 16) * 8, O.indexdiv(self.lane, 8) % 2 * 8
        made = r.zeros("s", tiles)
        for p in range(tiles):
            for k in range(self.deep):
                at = (low + p * TILE, high + k * TILE)
                made.append(r.fetch("f", 0, keys, at))
                made += r.multiply(("q", k * PART), ("s", p * PART))
        scored, powers = self._scored(step)
        self.powers = powers
        made += [*scored, *self._softmax(powers)]
        low, high = self.lane % TILE, O.indexdiv(self.lane, TILE) * 8
        for p in range(tiles):
            for e in range(self.wide):
                at = (low + p * TILE, high + e * TILE)
                made.append(r.fetch("f", 0, values, at, True))
                made += r.multiply(("p", p * PART), ("o", e * PART))
        return seq(*made)

    def _scored(self, step: Any) -> tuple[list[Stmt], Powers]:
        """What the softmax is taken of, and how. Only tiles at an edge of what is seen are compared
        with it."""
        made, edge, r = [], [], self.registers
        none = const(float("-inf"), SUMS)
        for at in range(KEYS // TILE * PART):
            p, n, j = at // PART, at // 4 % 2, at % 4
            t = step * KEYS + (self.lane % QUAD * 2 + (p * TILE + n * 8 + j % 2))
            row = self.warp * WARP_ROWS + O.indexdiv(self.lane, QUAD) + j // 2 * 8
            score = self.reads.value = r.load("s", at)
            digits = digits_of(self.row(row), self.sizes.rows)
            read = ProducerLoad(self.seen, [*self.places, *digits, t])
            powers, value = separated(self.reads.expr(read), score)
            beyond = self.sizes.keys % KEYS > 0
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

    def _at_edge(self, step: Any) -> Any:
        """Whether some row of a block does not take all keys of a tile; None where any tile may be
        such."""
        sizes, at = self.sizes, self._tile_of_rows()
        bounds = [step >= sizes.keys // KEYS] if sizes.keys % KEYS else []
        if sizes.window is not None and sizes.cut:
            if at is None:
                return None
            low, high = sizes.window
            away = (step - at) * KEYS
            bounds += [away + (KEYS - 1) >= high] if high < sizes.keys else []
            bounds += [away - (ROWS - 1) < low] if low > 1 - sizes.rows[-1] else []
        return O.any(*bounds)

    def _softmax(self, powers: Powers) -> list[Stmt]:
        count, r = KEYS // TILE * PART, self.registers
        made: list[Stmt] = []
        halves = [[at for at in range(count) if at % 4 // 2 == h] for h in (0, 1)]
        for h, own in enumerate(halves):
            most = r.load("most", h)
            for at in own:
                most = O.max(most, r.load("s", at))
                made.append(r.store("larger", h, most))
                most = r.load("larger", h)
            made += r.of_quad("larger", h, O.max)
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
        for at in range(self.wide * PART):
            made.append(r.store("o", at, r.load("o", at) * r.load("scale", at % 4 // 2)))
        for at in range(0, count, 2):
            pair = r.buffers["s"].vload([const(at)], f"{SUMS}x2")
            made.append(r.store("p", at, cast(f"{self.dtype}x2", pair)))
        return made
